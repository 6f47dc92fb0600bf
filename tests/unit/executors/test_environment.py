"""The environment and the words of a command, as the pod says."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gpuaas.base.errors import NotFound
from gpuaas.executors.environment import Environment, Missing, environment_of
from gpuaas.executors.limits import Budget

POD = {
    "metadata": {"name": "p", "namespace": "team", "labels": {"app.io/x": "y"}},
    "spec": {"nodeName": "n"},
    "status": {"podIP": "1.2.3.4"},
}


async def lookup(kind: str, name: str) -> Mapping[str, Any]:
    if name != "there":
        raise NotFound("", f"{kind.lower()}s", name)
    return {"key": f"of the {kind}"}


def environment(**container: Any) -> dict[str, str]:
    return asyncio.run(environment_of(POD, container, lookup, {"PATH": "/bin"})).values


def from_field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def from_map(name: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"configMapKeyRef": {"name": name, "key": key, **more}}}


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ({"name": "X", "value": "$(PATH):/more $$(PATH) $(NONE)"}, "/bin:/more $(PATH) $(NONE)"),
        (from_field("metadata.name"), "p"),
        (from_field("spec.nodeName"), "n"),
        (from_field("metadata.labels['app.io/x']"), "y"),
        (from_map("there", "key"), "of the ConfigMap"),
        (from_map("away", "key", optional=True), None),
        (from_map("there", "other", optional=True), None),
    ],
)
def test_a_variable(variable: dict[str, Any], expected: str | None) -> None:
    assert environment(env=[variable]).get("X") == expected


def test_whole_maps_come_with_their_prefix() -> None:
    assert environment(envFrom=[{"secretRef": {"name": "there"}, "prefix": "S_"}])["S_key"] == "of the Secret"


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        (from_map("there", "other"), "couldn't find key other in ConfigMap team/there"),
        (from_map("away", "key"), 'configmap "away" not found'),
    ],
)
def test_what_is_missing_is_named(variable: dict[str, Any], words: str) -> None:
    with pytest.raises(Missing, match=words):
        environment(env=[variable])


def test_words_of_the_command_are_filled_in() -> None:
    made = Environment(Budget(), {"X": "1"})
    assert made.words({"command": ["run"], "args": ["--at=$(X)"]}) == ["run", "--at=1"]
