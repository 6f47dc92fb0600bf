"""What the loop promises: failures come again later, one key at a time, and it starts after the views are filled."""

import asyncio
from typing import Any

import pytest

from gpuaas.base.errors import Conflict, Unavailable
from gpuaas.client.resources import CONFIG_MAPS, SECRETS
from gpuaas.runtime.controller import Controller, Controllers, Deps, Requeue
from gpuaas.runtime.metadata import Key
from gpuaas.runtime.values import revision_hash, scaled, template_hash, without_zeros
from gpuaas.runtime.writes import merge_diff, write_status
from gpuaas.testing.algebra import merged
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map, secret
from gpuaas.testing.time import scenario, stage


class _Counting(Controller):
    name = "counting"
    workers = 3

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self.seen: list[str] = []
        self.at_once: set[str] = set()
        self.answers: dict[str, Any] = {}
        self.view = self.follow(deps.informers.of(CONFIG_MAPS))
        self.secrets = self.follow(deps.informers.of(SECRETS), lambda _: ())

    async def reconcile(self, key: Key) -> Requeue | None:
        assert key.name not in self.at_once, "one key is never worked on twice at a time"
        assert self.secrets.is_synced
        self.at_once.add(key.name)
        await asyncio.sleep(0)
        self.seen.append(key.name)
        self.at_once.discard(key.name)
        answer = self.answers.get(key.name)
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _counting(made: list[_Counting]) -> Any:
    def factory(deps: Deps) -> Controller:
        made.append(_Counting(deps))
        return made[-1]

    return factory


@scenario
async def test_each_change_is_looked_at_and_what_fails_comes_again() -> None:
    made: list[_Counting] = []
    cluster = FakeCluster()
    cluster.put(SECRETS, secret("s"))
    async with stage(_counting(made), cluster=cluster) as on:
        (one,) = made
        one.answers["fails"] = [Unavailable("not now"), ValueError("a fault"), OSError("no line")]
        cluster.put(CONFIG_MAPS, config_map("fine"))
        cluster.put(CONFIG_MAPS, config_map("fails"))
        await on.settle()
        assert one.seen == ["fine", "fails"]
        await on.advance(1)
        assert one.seen.count("fails") == 4
        await on.advance(3600)
        assert one.seen.count("fails") == 4, "it succeeded, so it is left alone"


@scenario
async def test_who_asks_to_look_again_is_asked_again() -> None:
    made: list[_Counting] = []
    async with stage(_counting(made)) as on:
        (one,) = made
        one.answers["again"] = [Requeue(60), Requeue(60)]
        on.cluster.put(CONFIG_MAPS, config_map("again"))
        await on.advance(59)
        assert one.seen == ["again"]
        await on.advance(70)
        assert one.seen == ["again"] * 3


def test_a_status_patch_turns_the_old_into_the_new() -> None:
    old = {"a": 1, "gone": 2, "deep": {"x": 1, "y": 2}, "list": [1], "flag": 1}
    new = {"a": 1, "deep": {"x": 1, "z": 3}, "list": [1, 2], "empty": {}, "flag": True}
    patch = merge_diff(old, new)
    assert patch == {"gone": None, "deep": {"y": None, "z": 3}, "list": [1, 2], "empty": {}, "flag": True}
    assert merged(old, patch) == new
    assert merge_diff(new, new) == {}


@scenario
async def test_a_status_that_is_right_is_not_written_and_one_that_is_old_is_a_conflict() -> None:
    cluster = FakeCluster()
    obj = cluster.put(CONFIG_MAPS, {**config_map("c"), "status": {"x": 1}})
    assert not await write_status(cluster, CONFIG_MAPS, obj, {"x": 1})
    assert await write_status(cluster, CONFIG_MAPS, obj, {"x": 2})
    with pytest.raises(Conflict):
        await write_status(cluster, CONFIG_MAPS, obj, {"x": 3})


def test_small_values() -> None:
    assert [scaled("25%", 10, round_up=True), scaled("25%", 10, round_up=False), scaled(4, 10, round_up=True)] == [
        3,
        2,
        4,
    ]
    assert without_zeros({"a": 0, "b": "", "c": None, "d": [], "e": 0, "f": 1}, "e") == {"e": 0, "f": 1}
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 1}, 1)


def test_the_name_of_a_revision_is_the_one_kubernetes_gives() -> None:
    """Measured with kube-controller-manager 1.36 on the template below."""
    container = {
        "image": "busybox",
        "imagePullPolicy": "Always",
        "name": "main",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    template = {"$patch": "replace", "metadata": {"labels": {"app": "db"}}, "spec": spec}
    assert revision_hash({"spec": {"template": template}}, 0) == "6b85664f4d"


@scenario
async def test_the_patient_begin_when_their_turn_has_come() -> None:
    cluster = FakeCluster()
    cluster.put(CONFIG_MAPS, config_map("a"))
    turn = asyncio.Event()

    async def wait() -> None:
        await turn.wait()

    class Patient(_Counting):
        patient = True

    deps = Deps.over(cluster, cluster.clock, cluster, turn=wait)
    patient, other = Patient(deps), _Counting(deps)
    running = Controllers(deps, [patient, other])
    await running.start()
    try:
        await _some_turns()
        assert (patient.seen, other.seen) == ([], ["a"])
        assert not running.idle
        turn.set()
        await _some_turns()
        assert patient.seen == ["a"]
    finally:
        await running.stop()


async def _some_turns() -> None:
    for _ in range(30):
        await asyncio.sleep(0)
