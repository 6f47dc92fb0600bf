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


def test_a_pod_is_of_the_host_with_all_its_containers_or_none() -> None:
    of_host = {"securityContext": {"windowsOptions": {"hostProcess": True}}}
    two = [{"name": "a", "image": "i", **of_host}, {"name": "b", "image": "i"}]
    assert refused(pod(containers=two)) == [
        'spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess containers',
        "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
    ]
    assert refused(pod(containers=two[1:], hostNetwork=True, **of_host)) == []
    other = [{**two[0], "securityContext": {"windowsOptions": {"hostProcess": False}}}]
    assert refused(pod(containers=other, **of_host)) == [
        "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false:"
        " pod hostProcess value must be identical if both are specified, was true"
    ]
