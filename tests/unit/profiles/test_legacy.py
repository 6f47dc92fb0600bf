"""Older and mistaken shapes of a HardwareProfile: what each field of public manifests is read as."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.profiles.legacy import convert

OLD, NEW = "dashboard.opendatahub.io/v1alpha1", "infrastructure.opendatahub.io/v1"


def manifest(api: str, spec: Any) -> Any:
    return {"apiVersion": api, "kind": "HardwareProfile", "metadata": {"name": "p", "namespace": "n"}, "spec": spec}


def gpu(**counts: Any) -> Any:
    return {"displayName": "GPU", "identifier": "nvidia.com/gpu", **counts}


ONE = gpu(minCount=1, defaultCount=1, maxCount=1)
CASES: dict[str, tuple[Any, Any, Any]] = {
    # name: spec as written, annotations, spec as read
    "texts and switch": (
        {"displayName": "Shared GPU", "description": "For notebooks.", "enabled": True, "identifiers": [ONE]},
        {
            "opendatahub.io/display-name": "Shared GPU",
            "opendatahub.io/description": "For notebooks.",
            "opendatahub.io/disabled": "false",
        },
        {"identifiers": [ONE]},
    ),
    "switched off": ({"enabled": False}, {"opendatahub.io/disabled": "true"}, {}),
    "resourceLimits": (
        {"resourceLimits": [{"name": "memory", "default": "8Gi", "max": "16Gi"}]},
        None,
        {
            "identifiers": [
                {
                    "displayName": "Memory",
                    "identifier": "memory",
                    "minCount": "8Gi",
                    "defaultCount": "8Gi",
                    "maxCount": "16Gi",
                    "resourceType": "Memory",
                }
            ]
        },
    ),
    "allocationStrategy": (
        {"allocationStrategy": {"kind": "LocalQueue", "localQueue": {"name": "default"}}},
        None,
        {"scheduling": {"type": "Queue", "kueue": {"localQueueName": "default"}}},
    ),
    "count": ({"identifiers": [gpu(count=2)]}, None, {"identifiers": [gpu(minCount=2, defaultCount=2, maxCount=2)]}),
    "a default alone": (
        {"identifiers": [{"identifier": "cpu", "defaultCount": 4}]},
        None,
        {"identifiers": [{"displayName": "cpu", "identifier": "cpu", "minCount": 4, "defaultCount": 4}]},
    ),
    "nodeSelector and tolerations": (
        {"nodeSelector": {"gpu": "l4"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
        None,
        {
            "scheduling": {
                "type": "Node",
                "node": {"nodeSelector": {"gpu": "l4"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
            }
        },
    ),
    "a queue excludes node settings": (
        {"nodeSelector": {"a": "b"}, "allocationStrategy": {"kind": "LocalQueue", "localQueue": {"name": "q"}}},
        None,
        {"scheduling": {"type": "Queue", "kueue": {"localQueueName": "q"}}},
    ),
}


@pytest.mark.parametrize("api", [OLD, NEW])
@pytest.mark.parametrize(("spec", "annotations", "read"), CASES.values(), ids=CASES.keys())
def test_an_older_field_is_read_as_the_current_one(api: str, spec: Any, annotations: Any, read: Any) -> None:
    found, moved = convert(manifest(api, spec))
    assert found["apiVersion"] == NEW
    assert found["metadata"].get("annotations") == annotations
    assert found["spec"] == read
    assert moved
    assert convert(found) == (found, [])


def test_a_current_profile_is_not_touched() -> None:
    current = manifest(NEW, {"identifiers": [ONE], "scheduling": {"type": "Node", "node": {}}})
    read, moved = convert(current)
    assert read is current
    assert moved == []


def test_each_moved_field_is_named_with_its_new_place() -> None:
    _, moved = convert(manifest(NEW, {"displayName": "A", "identifiers": [gpu(count=1)]}))
    assert moved == [
        'spec.displayName is read as metadata.annotations[opendatahub.io/display-name]: "A"',
        "spec.identifiers[0] (nvidia.com/gpu) count is read as minCount: 1, defaultCount: 1, maxCount: 1",
    ]


@pytest.mark.parametrize(
    "spec", [None, "x", {"displayName": 5}, {"identifiers": "x"}, {"resourceLimits": {}}, {"allocationStrategy": []}]
)
def test_what_is_of_another_type_is_left_to_the_schema(spec: Any) -> None:
    written = manifest(NEW, spec)
    assert convert(written)[0] == written
