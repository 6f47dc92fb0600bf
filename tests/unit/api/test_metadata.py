"""Names, labels, annotations, owners and finalizers of any object."""

from typing import Any

import pytest

from gpuaas.api.metadata import validate_label_selector, validate_metadata, validate_metadata_update
from gpuaas.base.names import is_dns1123_subdomain

_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}


def _errors(*, namespaced: bool = True, builtin: bool = False, **metadata: Any) -> list[str]:
    obj = {"metadata": {"name": "a", "namespace": "n", **metadata}}
    return [str(error) for error in validate_metadata(obj, namespaced, is_dns1123_subdomain, builtin=builtin)]


@pytest.mark.parametrize(
    ("metadata", "errors"),
    [
        ({}, []),
        ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
        ({"name": "A"}, [f'metadata.name: Invalid value: "A": {_SUBDOMAIN}']),
        ({"generateName": "ok-"}, []),
        ({"generateName": "Bad-"}, [f'metadata.generateName: Invalid value: "Bad-": {_SUBDOMAIN}']),
        ({"namespace": ""}, ["metadata.namespace: Required value"]),
        ({"generation": -1}, ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        ({"annotations": {"a": "x" * 262_144}}, ["metadata.annotations: Too long: may not be more than 262144 bytes"]),
        ({"annotations": {"UPPER": "fine"}}, []),
        ({"ownerReferences": [_OWNER]}, []),
        ({"ownerReferences": [{**_OWNER, "uid": "", "apiVersion": "apps/"}]}, [
            'metadata.ownerReferences.apiVersion: Invalid value: "apps/": version must not be empty',
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        ]),
        ({"ownerReferences": [{**_OWNER, "kind": "Event"}]}, [
            'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"1"}: '
            "/v1, Kind=Event is disallowed from being an owner"
        ]),
        ({"finalizers": ["a/b", "plain"]}, []),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, [
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
            "finalizer orphan and foregroundDeletion cannot be both set"
        ]),
    ],
)  # fmt: skip
def test_metadata(metadata: dict[str, Any], errors: list[str]) -> None:
    assert _errors(**metadata) == errors


def test_built_in_kinds_know_their_finalizers() -> None:
    assert _errors(builtin=True, finalizers=["a/b", "orphan"]) == []
    assert _errors(builtin=True, finalizers=["plain"]) == [
        'metadata.finalizers[0]: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified'
    ]


def test_a_cluster_wide_object_has_no_namespace() -> None:
    assert _errors(namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]
    assert _errors(namespaced=False, namespace="") == []


def test_only_one_owner_is_the_controller() -> None:
    owners = [{**_OWNER, "controller": True}, {**_OWNER, "name": "q", "controller": True}]
    (error,) = _errors(ownerReferences=owners)
    assert error.endswith('Found "true" in references for Pod/p and Pod/q')


@pytest.mark.parametrize(
    ("labels", "count"), [({"a/b": "c"}, 0), ({"": ""}, 2), ({"a b": "ok"}, 1), ({"a": "b c"}, 1), ({"a" * 64: "x"}, 1)]
)
def test_labels(labels: dict[str, str], count: int) -> None:
    assert len(_errors(labels=labels)) == count


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({}, []),
        ({"labels": {"a": "b"}}, []),
        ({"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable']),
        ({"uid": "2"}, ['metadata.uid: Invalid value: "2": field is immutable']),
        ({"creationTimestamp": None}, ["metadata.creationTimestamp: Invalid value: null: field is immutable"]),
        ({"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"]),
        ({"finalizers": ["new/one"]}, [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new"
            ' finalizers []string{"new/one"}'
        ]),
    ],
)  # fmt: skip
def test_what_of_metadata_never_changes(change: dict[str, Any], errors: list[str]) -> None:
    old = {
        "name": "a",
        "uid": "1",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "x",
    }
    found = validate_metadata_update({"metadata": {**old, **change}}, {"metadata": old})
    assert [str(error) for error in found] == errors


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ({"key": "a", "operator": "In"}, "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        ({"key": "a", "operator": "Near"}, 's.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator'),
    ],
)  # fmt: skip
def test_label_selectors(expression: dict[str, Any], error: str) -> None:
    assert [str(e) for e in validate_label_selector({"matchExpressions": [expression]}, "s")] == [error]
    assert validate_label_selector(None, "s") == []
