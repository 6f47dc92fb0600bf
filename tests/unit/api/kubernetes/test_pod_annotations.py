"""Annotations of pods that mean something are checked, and agree with the fields that came after them."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import complaints, pod, refused

COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"


def annotated(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", **spec.pop("container", {})}]
    return {**pod(containers=containers, **spec), "metadata": {"name": "p", "annotations": annotations}}


@pytest.mark.parametrize(
    ("sent", "errors"),
    [
        (annotated({COST: "01"}), [f'metadata.annotations[{COST}]: Invalid value: "01": must be a 32bit integer']),
        (annotated({COST: "2147483648"}), [f'metadata.annotations[{COST}]: Invalid value: "2147483648": must be a 32bit integer']),
        (annotated({MIRROR: "x"}), [f'metadata.annotations[{MIRROR}]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set']),
    ],
)  # fmt: skip
def test_what_an_annotation_may_say(sent: dict[str, Any], errors: list[str]) -> None:
    assert refused(sent) == errors


def test_some_annotations_of_a_pod_stay_as_they_are() -> None:
    added = complaints(annotated({}), {"metadata": {"annotations": {MIRROR: "x"}}})
    assert f"metadata.annotations[{MIRROR}]: Forbidden: may not add mirror pod annotation" in added
