"""CustomResourceDefinitions, apart from the schema inside."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import complaints, made, refused

from gpuaas.api.kubernetes.rules.definitions import shared_path

_SCHEMA = {"openAPIV3Schema": {"type": "object"}}
_VERSION = {"name": "v1", "served": True, "storage": True, "schema": _SCHEMA}


def _definition(name: str = "foos.example.com", **spec: Any) -> dict[str, Any]:
    full = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [_VERSION],
        **spec,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": full,
    }


def test_names_are_completed() -> None:
    obj = made(_definition())
    assert obj["spec"]["names"] == {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"}
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"]["storedVersions"] == ["v1"]
    assert refused(_definition()) == []


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"group": "other.com"}, 'metadata.name: Invalid value: "foos.example.com": must be spec.names.plural+"."+spec.group'),
        ({"group": "example"}, 'spec.group: Invalid value: "example": should be a domain with at least one dot'),
        ({"scope": "World"}, 'spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"'),
        ({"versions": [{**_VERSION, "schema": None}]}, "spec.versions[0].schema.openAPIV3Schema: Required value"),
        ({"versions": [{**_VERSION, "storage": False}]}, 'spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have exactly one version marked as storage version'),
        ({"names": {"plural": "foos", "kind": "Foo", "listKind": "Foo"}}, 'spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same'),
        ({"versions": [{**_VERSION, "additionalPrinterColumns": [{"name": "a", "type": "text", "jsonPath": ".a"}]}]}, 'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string'),
        ({"versions": [{**_VERSION, "subresources": {"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.n"}}}]}, 'spec.subresources.scale.specReplicasPath: Invalid value: ".x": should be a json path under .spec'),
        ({"versions": [{**_VERSION, "deprecationWarning": "old"}]}, 'spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions'),
        ({"versions": [_VERSION, _VERSION]}, 'status.storedVersions: Invalid value: ["v1"]: must have the storage version v1'),
        ({"versions": [{**_VERSION, "additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": "a"}]}]}, 'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .'),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook"),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"),
    ],
)  # fmt: skip
def test_what_is_refused(spec: dict[str, Any], error: str) -> None:
    assert error in refused(_definition(**spec))


def test_groups_of_kubernetes_need_an_approval() -> None:
    definition = _definition("foos.batch.k8s.io", group="batch.k8s.io")
    (error,) = refused(definition)
    assert error.startswith(
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have"
    )
    definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://github.com/kubernetes/x/pull/1"}
    assert refused(definition) == []


def test_names_may_change_until_the_definition_is_established() -> None:
    names = {"plural": "foos", "kind": "Bar", "singular": "foo", "listKind": "BarList"}
    assert complaints(_definition(), {"spec": {"names": names}}) == []


def test_where_versions_agree_the_path_is_at_the_top() -> None:
    columns = [{"name": "a", "type": "string", "jsonPath": ".a"}]
    same = [{"name": "v1", "additionalPrinterColumns": columns}, {"name": "v2", "additionalPrinterColumns": columns}]
    assert shared_path(same, "additionalPrinterColumns", 1) == "spec"
    assert shared_path([same[0], {"name": "v2"}], "additionalPrinterColumns", 1) == "spec.versions[1]"
