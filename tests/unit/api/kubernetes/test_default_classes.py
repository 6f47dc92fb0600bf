"""The class that stands in where none is named, and what may grow."""

from typing import Any

import pytest

from gpuaas.api.kubernetes.default_classes import default_ingress_class, default_storage_class, growth_errors
from gpuaas.api.kubernetes.limits import claim_limit_errors, pod_limit_errors

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def _class(name: str, created: str, annotation: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": created, "annotations": {annotation: "true"}}, **more}


def _storage(name: str, created: str = OLD, **more: Any) -> dict[str, Any]:
    return _class(name, created, "storageclass.kubernetes.io/is-default-class", **more)


@pytest.mark.parametrize(
    ("claim", "classes", "found"),
    [
        ({"spec": {}}, [], None),
        ({"spec": {}}, [_class("a", OLD, "other")], None),
        ({"spec": {}}, [_class("a", OLD, "storageclass.beta.kubernetes.io/is-default-class")], "a"),
        ({"spec": {}}, [_storage("a"), _storage("b", NEW)], "b"),
        ({"spec": {}}, [_storage("b"), _storage("a")], "a"),
        ({"spec": {"storageClassName": ""}}, [_storage("a")], ""),
        (
            {"spec": {}, "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}},
            [_storage("a")],
            None,
        ),
    ],
)
def test_the_newest_default_is_taken_where_a_claim_names_no_class(
    claim: dict[str, Any], classes: list[dict[str, Any]], found: str | None
) -> None:
    default_storage_class(claim, classes)
    assert claim["spec"].get("storageClassName") == found


def test_an_ingress_gets_the_default_class_unless_it_names_one_in_either_way() -> None:
    classes = [_class("a", OLD, "ingressclass.kubernetes.io/is-default-class")]
    named: list[Any] = []
    for ingress in (
        {},
        {"spec": {"ingressClassName": "b"}},
        {"metadata": {"annotations": {"kubernetes.io/ingress.class": "c"}}},
    ):
        default_ingress_class(ingress, classes)
        named.append(ingress["spec"].get("ingressClassName"))
    assert named == ["a", "b", None]


def _claim(size: str, name: str | None = "a", phase: str = "Bound") -> dict[str, Any]:
    return {
        "spec": {"resources": {"requests": {"storage": size}}, "storageClassName": name},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("old", "new", "grows", "wrong"),
    [
        (_claim("1Gi"), _claim("2Gi"), True, []),
        (_claim("1Gi"), _claim("1024Mi"), False, []),
        (_claim("1Gi"), _claim("2Gi"), False, [FIXED]),
        (_claim("1Gi", None), _claim("2Gi", None), True, [FIXED]),
        (_claim("1Gi", "z"), _claim("2Gi", "z"), True, [FIXED]),
        (_claim("1Gi", phase="Pending"), _claim("2Gi"), True, ["Only bound persistent volume claims can be expanded"]),
    ],
)
def test_a_claim_grows_where_its_class_lets_it(
    old: dict[str, Any], new: dict[str, Any], grows: bool, wrong: list[str]
) -> None:
    assert growth_errors(new, old, [_storage("a", allowVolumeExpansion=grows)]) == wrong


def test_the_first_limit_range_that_is_broken_is_the_one_told_of() -> None:
    ranges = [
        {"spec": {"limits": [{"type": kind, "max": {resource: "1"}}]}}
        for kind, resource in (("Container", "pods"), ("Container", "cpu"), ("Container", "memory"))
    ]
    limits = {"cpu": "2", "memory": "2"}
    pod = {
        "spec": {"containers": [{"name": "a", "resources": {"limits": {**limits, "pods": "1"}, "requests": limits}}]}
    }
    assert pod_limit_errors(pod, ranges) == ["maximum cpu usage per Container is 1, but limit is 2"]
    claims = [
        {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": size}}]}} for size in ("3", "2", "1")
    ]
    assert claim_limit_errors({"spec": {"resources": {"requests": {"storage": "3"}}}}, claims) == [
        "maximum storage usage per PersistentVolumeClaim is 2, but request is 3"
    ]
