"""What is promised where the configuration asks for finer reasons: each waiting workload says which, and they are counted."""

from typing import Any

import pytest

from gpuaas.client.kueue import LOCAL_QUEUES, WORKLOADS
from gpuaas.client.resources import NAMESPACES
from gpuaas.kueue.configuration.settings import Configuration, ReasonRules
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import Stage, scenario

from .test_metrics import World, house, queue, workload

FINER = Configuration(reasons=ReasonRules(granular=True))
EXPLICIT = Configuration(reasons=ReasonRules(granular=True, explicit=True))


def said(on: Stage, name: str) -> dict[str, tuple[str, str, str]]:
    found = (on.cluster.read(WORKLOADS, name, "team").get("status") or {}).get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


def counted(world: World, reason: str, cause: str) -> float | None:
    return world.value(
        f'kueue_unadmitted_workloads{{cluster_queue="research",reason="{reason}",underlying_cause="{cause}"}}'
    )


NO_RESERVATION = ("False", "NoReservation", "The workload has no reservation")


def local(on: Stage, name: str, to: str, **spec: Any) -> None:
    on.cluster.put(
        LOCAL_QUEUES, {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": to, **spec}}
    )


@pytest.mark.parametrize(
    ("where", "reason", "words"),
    [
        ("nowhere", "Misconfigured", "LocalQueue nowhere doesn't exist"),
        ("lost", "Misconfigured", "ClusterQueue missing doesn't exist"),
        ("held", "Suspended", "LocalQueue held is inactive"),
        ("stopped", "Suspended", "ClusterQueue stopped is inactive"),
        ("others", "Misconfigured", "workload namespace doesn't match ClusterQueue selector"),
        ("main", "ExceedsMaxQuota", ""),
    ],
)
@scenario
async def test_each_says_what_stands_in_its_way(where: str, reason: str, words: str) -> None:
    async with house(FINER) as world:
        queue(world.on, "stopped", 4, stopPolicy="Hold")
        queue(world.on, "others", 4, namespaceSelector={"matchLabels": {"team": "other"}})
        for name, to in (("lost", "missing"), ("stopped", "stopped"), ("others", "others")):
            local(world.on, name, to)
        local(world.on, "held", "research", stopPolicy="Hold")
        await world.on.settle()
        workload(world.on, "w", 40, queue=where)
        await world.on.settle()
        found = said(world.on, "w")
        assert found["QuotaReserved"][:2] == ("False", reason)
        assert words in found["QuotaReserved"][2]
        assert found["Admitted"] == NO_RESERVATION


@scenario
async def test_those_that_wait_are_counted_by_reason_until_they_are_admitted_or_gone() -> None:
    async with house(FINER) as world:
        workload(world.on, "runs", 4)
        await world.on.settle()
        workload(world.on, "waits", 1)
        await world.on.settle()
        assert said(world.on, "waits")["QuotaReserved"][1] == "WaitingForQuota"
        assert counted(world, "NoReservation", "WaitingForQuota") == 1
        locally = 'name="main",namespace="team",cluster_queue="research",reason="NoReservation"'
        series = f'kueue_local_queue_unadmitted_workloads{{{locally},underlying_cause="WaitingForQuota"}}'
        assert world.value(series) == 1
        assert any("Warning WaitingForQuota workload/waits" in each for each in world.on.cluster.events("team"))
        world.on.cluster.remove(WORKLOADS, "runs", "team")
        await world.on.settle()
        assert said(world.on, "waits")["Admitted"][0] == "True"
        assert counted(world, "NoReservation", "WaitingForQuota") is None


@scenario
async def test_one_that_is_stopped_by_hand_says_so_and_comes_back() -> None:
    async with house(FINER) as world:
        workload(world.on, "runs", 4)
        await world.on.settle()
        workload(world.on, "w", 1)
        await world.on.settle()
        obj = world.on.cluster.read(WORKLOADS, "w", "team")
        world.on.cluster.put(WORKLOADS, {**obj, "spec": {**obj["spec"], "active": False}})
        await world.on.settle()
        assert said(world.on, "w")["QuotaReserved"] == ("False", "Deactivated", "The workload is deactivated")
        obj = world.on.cluster.read(WORKLOADS, "w", "team")
        world.on.cluster.put(WORKLOADS, {**obj, "spec": {**obj["spec"], "active": True}})
        await world.on.settle()
        assert said(world.on, "w")["QuotaReserved"][1] == "WaitingForQuota"


@scenario
async def test_one_like_a_workload_that_was_passed_over_is_told_so_without_a_look() -> None:
    async with house(EXPLICIT) as world:
        workload(world.on, "runs", 4)
        await world.on.settle()
        workload(world.on, "first", 1)
        await world.on.settle()
        workload(world.on, "alike", 1)
        await world.on.settle()
        words = "Bypassed scheduling evaluation because an equivalent workload recently failed"
        assert said(world.on, "alike")["QuotaReserved"] == ("False", "WaitingForQuota", words)
        assert said(world.on, "first")["QuotaReserved"][2] != words


@scenario
async def test_without_the_gate_nothing_of_it_is_told() -> None:
    async with house() as world:
        world.on.cluster.put(NAMESPACES, namespace("other"))
        workload(world.on, "w", 40)
        await world.on.settle()
        assert said(world.on, "w")["QuotaReserved"][1] == "Pending"
        assert "Admitted" not in said(world.on, "w")
        assert "kueue_unadmitted_workloads" not in world.names()
