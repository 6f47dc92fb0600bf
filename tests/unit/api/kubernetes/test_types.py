"""The types of the built-in kinds, as the machinery needs them: merge keys, list types, what Go always writes."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.typed_objects import SCHEMAS

from gpuaas.api.kubernetes import builtin_kinds, meta_schema_names, schema_names, schema_source
from gpuaas.api.kubernetes.schemas import REF_PREFIX, TABLES
from gpuaas.machinery.schema.decode import normalize
from gpuaas.machinery.schema.model import Schema

_CORE, _META = "io.k8s.api.core.v1.", "io.k8s.apimachinery.pkg.apis.meta.v1."


def _all_names() -> list[str]:
    groups = {(group, version) for _, group, version in TABLES.values() if version}
    names = [name for group, version in sorted(groups) for name in schema_names(group, version)]
    return names + meta_schema_names()


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [name for item in value.values() for name in _references(item)]
    if isinstance(value, list):
        return [name for item in value for name in _references(item)]
    return []


def _field(type_name: str, *path: str) -> Schema:
    schema = SCHEMAS.named(type_name)
    for step in path:
        schema = (schema.items or schema).properties[step]
    return schema


def test_there_are_as_many_types_as_kubernetes_1_36_publishes() -> None:
    assert len(_all_names()) == 584


def test_every_reference_leads_to_a_type() -> None:
    names = set(_all_names())
    for name in names:
        for reference in _references(schema_source(name)):
            assert reference.removeprefix(REF_PREFIX) in names, f"{name} refers to {reference}"


def test_every_kind_has_its_type_and_its_list() -> None:
    for kind in builtin_kinds():
        said = schema_source(kind.schema)["x-kubernetes-group-version-kind"]
        assert said == [{"group": kind.group, "kind": kind.kind, "version": kind.version}]
        if not kind.virtual:
            assert schema_source(f"{kind.schema}List")["required"] == ["items"]


@pytest.mark.parametrize(
    "name", ["io.k8s.api.core.v1.Nope", "io.k8s.api.nope.v1.Pod", "Pod", "io.k8s.api.core.v1.PodSpecList"]
)
def test_a_type_that_does_not_exist_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        schema_source(name)


@pytest.mark.parametrize(
    ("place", "facts"),
    [
        (("PodSpec", "containers"), {"list_type": "map", "list_keys": ("name",), "patch_strategy": "merge", "patch_key": "name"}),
        (("Container", "ports"), {"list_type": "map", "list_keys": ("containerPort", "protocol"), "patch_key": "containerPort"}),
        (("PodSpec", "volumes"), {"patch_strategy": "merge,retainKeys", "patch_key": "name"}),
        (("PodSpec", "tolerations"), {"list_type": "atomic", "patch_strategy": ""}),
        (("PodSpec", "nodeSelector"), {"map_type": "atomic"}),
        (("ServicePort", "protocol"), {"default": "TCP"}),
        (("PodStatus", "conditions"), {"list_type": "map", "list_keys": ("type",)}),
        (("LocalObjectReference",), {"map_type": "atomic"}),
        (("ServicePort", "targetPort"), {"int_or_string": True}),
        (("Secret", "data"), {"map_type": "granular"}),
    ],
)  # fmt: skip
def test_how_fields_merge(place: tuple[str, ...], facts: dict[str, Any]) -> None:
    schema = _field(_CORE + place[0], *place[1:])
    assert {fact: getattr(schema, fact) for fact in facts} == facts


@pytest.mark.parametrize(
    ("name", "sent", "kept"),
    [
        (_CORE + "Container", {"name": "a"}, {"name": "a", "resources": {}}),
        (_CORE + "PodSpec", {}, {"containers": None}),
        (_CORE + "PodCondition", {"type": "a", "status": "b"}, {"type": "a", "status": "b", "lastProbeTime": None, "lastTransitionTime": None}),
        (_META + "ObjectMeta", {"labels": {}, "name": "", "creationTimestamp": None}, {}),
        (_CORE + "EmptyDirVolumeSource", {"sizeLimit": "1024Mi"}, {"sizeLimit": "1Gi"}),
        (_CORE + "ContainerPort", {"containerPort": 80, "hostPort": 0}, {"containerPort": 80, "protocol": "TCP"}),
        (_CORE + "ResourceFieldSelector", {"resource": "x"}, {"resource": "x", "divisor": "0"}),
        ("io.k8s.api.rbac.v1.Role", {}, {"metadata": {}, "rules": None}),
        ("io.k8s.api.apps.v1.ReplicaSetStatus", {}, {"replicas": 0}),
        ("io.k8s.api.coordination.v1.LeaseSpec", {"renewTime": "2026-01-01T01:00:00.500000+01:00"}, {"renewTime": "2026-01-01T00:00:00.500000Z"}),
    ],
)  # fmt: skip
def test_zero_values_are_written_as_go_writes_them(name: str, sent: dict[str, Any], kept: dict[str, Any]) -> None:
    assert normalize(SCHEMAS.named(name), sent).obj == kept


def test_kinds_are_described_in_our_own_words() -> None:
    for kind in builtin_kinds():
        assert schema_source(kind.schema)["description"].endswith("."), kind.kind
