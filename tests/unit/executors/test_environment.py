"""The environment and the words of a command, as the pod says."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from gpuaas.base.errors import NotFound
from gpuaas.executors.environment import Environment, Missing, environment_of
from gpuaas.executors.limits import MAX_EXEC, MAX_STRING, Budget, ExecRefused

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


def test_only_what_stands_in_the_pod_is_expanded() -> None:
    async def passwords(kind: str, name: str) -> Mapping[str, Any]:
        return {"key": "pa$$word$(A)"}

    env = [{"name": "A", "value": "a"}, from_map("there", "key")]
    assert asyncio.run(environment_of(POD, {"env": env}, passwords, {})).values["X"] == "pa$$word$(A)"


def value(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "value": text}


DOUBLING = [value("V0", "xxxxxxxx")] + [value(f"V{number}", f"$(V{number - 1})" * 4) for number in range(1, 17)]
LARGE = "x" * 100_000

REFUSED = {
    "variables of each other": ({"env": DOUBLING}, r"env V7 is 131072 bytes, at most 131071 are allowed"),
    "one character too many": ({"env": [value("X", "x" * (MAX_STRING - 1))]}, "env X is 131072 bytes"),
    "characters of two bytes": ({"env": [value("X", "é" * 70_000)]}, "env X is 140002 bytes"),
    "a word of references": (
        {"env": [value("V", LARGE)], "command": ["echo", "$(V)" * 10_000]},
        "argument 1 is 1000000000 bytes, at most 131071 are allowed",
    ),
    "all together": (
        {"env": [value(f"V{n}", LARGE) for n in range(30)]},
        f"take .* bytes with env V20, at most {MAX_EXEC}",
    ),
    "words and variables together": (
        {"env": [value(f"V{n}", LARGE) for n in range(15)], "args": ["$(V0)"] * 10},
        f"with argument 5, at most {MAX_EXEC} are allowed",
    ),
    "many words": ({"command": ["a"] * 300_000}, "arguments take 3000000 bytes"),
    "many references": (
        {"env": [value(f"V{n}", "$$" * 20_000) for n in range(5)]},
        r'the pod has 80000 "\$" to expand',
    ),
    "many variables": ({"env": [value("V", "")] * 20_001}, "the pod sets 20001 variables, at most 20000 are allowed"),
    "a NUL in a variable": ({"env": [value("X", "a\0b")]}, "env X holds a NUL character"),
    "a NUL in a word": ({"command": ["a\0b"]}, "an argument holds a NUL character"),
    "a long name": ({"env": [value("N" * 5000, LARGE * 2)]}, r"env N{64}\.\.\. is"),
}


@pytest.mark.parametrize(("container", "words"), REFUSED.values(), ids=REFUSED)
def test_what_linux_would_not_execute_is_refused_with_name_size_and_limit(container: Any, words: str) -> None:
    with pytest.raises(ExecRefused, match=words):
        asyncio.run(environment_of(POD, container, lookup, {})).words(container)


def test_what_linux_just_executes_is_taken() -> None:
    longest = "x" * (MAX_STRING - 2)
    made = asyncio.run(environment_of(POD, {"env": [value("X", longest)]}, lookup, {}))
    assert made.words({"command": ["$(X)xx"]}) == [longest + "xx"]


def test_a_variable_that_is_set_again_counts_once() -> None:
    again = [value("X", LARGE)] * 30
    assert asyncio.run(environment_of(POD, {"env": again}, lookup, {})).values == {"X": LARGE}


def test_the_containers_of_a_pod_share_a_budget() -> None:
    container, budget = {"env": [value(f"V{n}", LARGE) for n in range(20)]}, Budget()

    async def all_of_them() -> None:
        for _ in range(20):
            await environment_of(POD, container, lookup, {}, budget)

    with pytest.raises(ExecRefused, match="arguments and environments of the pod take"):
        asyncio.run(all_of_them())


def test_what_is_referred_to_often_is_asked_for_once() -> None:
    asked = []

    async def counted(kind: str, name: str) -> Mapping[str, Any]:
        asked.append(name)
        return {"key": "v"}

    env = [{**from_map("there", "key"), "name": f"V{number}"} for number in range(50)]
    asyncio.run(environment_of(POD, {"env": env}, counted, {}))
    assert asked == ["there"]


@pytest.mark.parametrize("text", ["$$", "$(A)", "$(NONE)", "x"])
def test_expanding_takes_time_in_proportion_to_what_is_written(text: str) -> None:
    spans = []
    for times in (1, 2, 4):
        container = {"env": [value("A", "a")] + [value(f"V{n}", text * 2000) for n in range(2 * times)]}
        best = min(cpu(container) for _ in range(3))
        spans.append(best)
    assert spans[2] < 4 * 3 * max(spans[0], 0.001), spans


def cpu(container: Any) -> float:
    began = time.process_time()
    asyncio.run(environment_of(POD, container, lookup, {}))
    return time.process_time() - began
