"""Replicas have owners too: what a write to the scale subresource does to the managers of the object."""

from typing import Any

from gpuaas.machinery.ssa.scale import replicas_path, to_parent, to_scale

PATHS = {"apps/v1": replicas_path(".spec.replicas"), "apps/v2": None}


def entry(manager: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = {"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z"}
    return {**made, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


REPLICAS = {"f:spec": {"f:replicas": {}}}
BOTH = {"f:spec": {"f:paused": {}, "f:replicas": {}}}
REST = {"f:spec": {"f:paused": {}}}


def owners(entries: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(each["manager"], each["apiVersion"], each["fieldsV1"]) for each in entries]


def test_a_scale_is_managed_by_who_owns_the_replicas() -> None:
    entries = [entry("one", BOTH), entry("two", REST), entry("old", BOTH, apiVersion="apps/v2")]
    assert owners(to_scale(entries, PATHS)) == [("one", "autoscaling/v1", REPLICAS)]


def test_who_writes_the_scale_takes_the_replicas_from_their_owner() -> None:
    parent = [entry("one", BOTH)]
    written = [entry("hpa", REPLICAS, apiVersion="autoscaling/v1", subresource="scale")]
    after = to_parent(parent, written, "apps/v1", PATHS)
    assert owners(after) == [("hpa", "apps/v1", REPLICAS), ("one", "apps/v1", REST)]
    assert after[0]["subresource"] == "scale"


def test_an_applier_whose_replicas_were_not_taken_keeps_its_entry() -> None:
    parent = [entry("one", BOTH, operation="Apply")]
    after = to_parent(parent, to_scale(parent, PATHS), "apps/v1", PATHS)
    assert after == parent


def test_entries_without_replicas_stay_and_those_of_unknown_versions_go() -> None:
    parent = [entry("one", REST), entry("old", BOTH, apiVersion="apps/v2"), entry("gone", BOTH, apiVersion="apps/v0")]
    assert owners(to_parent(parent, [], "apps/v1", PATHS)) == [("old", "apps/v2", BOTH), ("one", "apps/v1", REST)]
