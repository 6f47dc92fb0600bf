"""Changes of cards with pods on them: who is asked to leave, what is rolled back, and what a crash at any write leaves."""

import json
from collections import Counter
from typing import Any

import pytest
from tests.unit.controllers.gpu_nodes.test_gpu_nodes import (
    A100,
    FOUR,
    NAMESPACE,
    ONE,
    POLICIES,
    asks,
    condition,
    crew,
    events,
    label,
    labels,
    offers,
    phase,
    playing,
    share,
    stubborn,
)

from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import TooManyRequests
from gpuaas.client.kueue import ADMISSION_CHECKS, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CONFIG_MAPS, NODES, PODS
from gpuaas.devices.holding import held_by
from gpuaas.executors.nodes import NodeSpec
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map
from gpuaas.testing.time import Stage, scenario, stage


def annotate(on: Stage, node: str, **values: str) -> None:
    found = on.cluster.read(NODES, node)
    said = {**(found["metadata"].get("annotations") or {}), **{f"gpuaas.dev/{k}": v for k, v in values.items()}}
    on.cluster.put(NODES, {**found, "metadata": {**found["metadata"], "annotations": said}})


def annotations(on: Stage, node: str) -> Any:
    return on.cluster.read(NODES, node)["metadata"].get("annotations") or {}


def admitted(name: str) -> Any:
    now = "2024-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now}
        for kind in ("QuotaReserved", "Admitted")
    ]
    assignment = {
        "name": "main",
        "flavors": {"nvidia.com/gpu": "f"},
        "resourceUsage": {"nvidia.com/gpu": "1"},
        "count": 1,
    }
    admission = {"clusterQueue": "q", "podSetAssignments": [assignment]}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]},
        "status": {"conditions": conditions, "admission": admission},
    }


def of_workload(name: str, workload: str) -> Any:
    made = asks(name)
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": workload}
    return made


@scenario
async def test_what_kueue_manages_is_evicted_through_it_and_only_from_the_cards_that_change() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        on.cluster.put(WORKLOADS, admitted("w"))
        on.cluster.put(PODS, of_workload("mine", "w"))
        await on.advance(2)
        [held] = held_by(on.cluster.read(PODS, "mine", "default"))
        annotate(on, "a100", **{"card-faults": f"{1 - held.index}=xid:79"})
        await on.advance(2)
        assert phase(on, "mine") == "Running", "the other card is ill"
        annotate(on, "a100", **{"card-faults": f"{held.index}=xid:79"})
        await on.advance(2)
        found = {one["type"]: one for one in on.cluster.read(WORKLOADS, "w", "default")["status"]["conditions"]}
        assert (found["Evicted"]["status"], found["Evicted"]["reason"]) == ("True", "NodeFailures")
        assert f"card {held.index} is ill: Xid 79" in found["Evicted"]["message"]
        assert "deletionTimestamp" not in on.cluster.read(PODS, "mine", "default")["metadata"], "its job's to end"


@scenario
async def test_a_disruption_budget_is_respected_and_named_with_a_command() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        on.cluster.put(PODS, asks("p"))
        await on.advance(2)
        cause = {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods"}]}
        for _ in range(3):
            on.cluster.fail_next("create", PODS, TooManyRequests("no", details=cause))
        label(on, "a100", mig_config="all-1g.5gb")
        await on.advance(3)
        [said] = events(on, "CardChangeBlocked")
        assert "The disruption budget b needs 1 healthy pods" in said["message"]
        assert "kubectl delete pod -n default p" in said["message"]
        assert phase(on, "p") == "Running"
        await on.advance(30)
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "success", "asked again until the budget allowed it"


@scenario
async def test_who_never_leaves_makes_the_change_fail_and_the_cards_open_again() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        annotate(on, "a100", **{"change-deadline-seconds": "30"})
        on.cluster.put(PODS, stubborn("p", seconds=1000))
        await on.advance(2)
        label(on, "a100", mig_config="all-1g.5gb")
        await on.advance(10)
        assert offers(on, "a100") == {"nvidia.com/gpu": "0"}, "both are closed"
        await on.advance(60)
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "failed"
        assert offers(on, "a100") == {"nvidia.com/gpu": "2"}
        message = condition(on, "a100", "MigConfig")["message"]
        assert "default/p" in message
        assert "kubectl delete pod" in message
        assert "given up after 30 s" in message
        await on.advance(2000)
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "failed", "not tried again by itself"
        label(on, "a100", mig_config="all-3g.20gb")
        await on.advance(10)
        assert offers(on, "a100") == {"nvidia.com/mig-3g.20gb": "4"}, "another goal is"


@scenario
async def test_a_card_that_cannot_be_changed_rolls_the_others_back() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        label(on, "a100", mig_config="all-3g.20gb")
        await on.advance(2)
        annotate(on, "a100", **{"card-faults": "1=mig"})
        label(on, "a100", mig_config="all-1g.5gb")
        await on.advance(5)
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "failed"
        assert offers(on, "a100") == {"nvidia.com/mig-3g.20gb": "4"}
        assert "card 1 could not be changed" in condition(on, "a100", "MigConfig")["message"]
        annotate(on, "a100", **{"card-faults": ""})
        found = on.cluster.read(NODES, "a100")
        kept = {k: v for k, v in found["metadata"]["labels"].items() if k != "nvidia.com/mig.config.state"}
        on.cluster.put(NODES, {**found, "metadata": {**found["metadata"], "labels": kept}})
        await on.advance(5)
        assert offers(on, "a100") == {"nvidia.com/mig-1g.5gb": "14"}, "without the state label it is tried again"


@scenario
async def test_sharing_that_takes_devices_away_waits_for_those_who_hold_them() -> None:
    async with playing(ONE) as on:
        await on.advance(1)
        share(on, any=FOUR)
        await on.advance(1)
        for number in range(4):
            on.cluster.put(PODS, stubborn(f"p{number}", seconds=5))
        await on.advance(3)
        share(on, any=FOUR.replace("4", "8"))
        await on.advance(2)
        assert offers(on, "one") == {"nvidia.com/gpu": "8"}, "more shares take nothing away"
        share(on, any=FOUR.replace("4", "2"))
        await on.advance(2)
        assert offers(on, "one", "capacity") == {"nvidia.com/gpu": "8"}
        assert offers(on, "one") == {"nvidia.com/gpu": "0"}, "its card takes no new work meanwhile"
        said = condition(on, "one", "DevicePluginConfig")
        assert said["reason"] == "Draining"
        assert "kubectl delete pod" in said["message"]
        await on.advance(10)
        assert offers(on, "one") == {"nvidia.com/gpu": "2"}
        assert sum(phase(on, f"p{n}") == "Running" for n in range(4) if exists(on, f"p{n}")) == 2, (
            "two were not concerned"
        )


def exists(on: Stage, name: str) -> bool:
    return any(one["metadata"]["name"] == name for one in on.cluster.all(PODS))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("xid:79", "Xid 79"),
        ("ecc", "uncorrectable ECC error"),
        ("temperature:97", "temperature 97 °C, the limit is 95 °C"),
        ("vanished", "vanished"),
    ],
)
def test_an_ill_card_takes_no_work_its_pod_moves_and_it_comes_back(fault: str, words: str) -> None:
    @scenario
    async def play() -> None:
        async with playing(A100) as on:
            await on.advance(1)
            on.cluster.put(PODS, asks("p"))
            await on.advance(2)
            [held] = held_by(on.cluster.read(PODS, "p", "default"))
            annotate(on, "a100", **{"card-faults": f"{held.card}={fault}"})
            await on.advance(2)
            assert offers(on, "a100") == {"nvidia.com/gpu": "1"}
            assert offers(on, "a100", "capacity") == {"nvidia.com/gpu": "2"}
            said = condition(on, "a100", "GPUHealth")
            assert (said["status"], words in said["message"]) == ("False", True)
            assert words in events(on, "GPUUnhealthy")[0]["message"]
            assert not exists(on, "p"), "it was evicted"
            on.cluster.put(PODS, asks("q"))
            await on.advance(2)
            [other] = held_by(on.cluster.read(PODS, "q", "default"))
            assert other.card != held.card
            annotate(on, "a100", **{"card-faults": ""})
            await on.advance(2)
            assert offers(on, "a100") == {"nvidia.com/gpu": "2"}
            assert condition(on, "a100", "GPUHealth")["status"] == "True"
            assert events(on, "GPURecovered")

    play()


@scenario
async def test_an_xid_of_the_ignore_list_is_reported_and_the_card_stays() -> None:
    async with playing(A100) as on:
        await on.advance(1)
        annotate(on, "a100", **{"card-faults": "0=xid:31"})
        await on.advance(2)
        assert offers(on, "a100") == {"nvidia.com/gpu": "2"}
        assert "Xid 31 is on NVIDIA's ignore list" in events(on, "XidIgnored")[0]["message"]
        assert condition(on, "a100", "GPUHealth") is None


@scenario
async def test_cards_that_are_not_connected_are_named_to_who_asked_for_two() -> None:
    paired = NodeSpec("pairs", gpu_product="NVIDIA-L40S", gpu_count=4, gpu_nvlink="pairs", gpu_numa=2)
    async with playing(paired) as on:
        await on.advance(1)
        on.cluster.put(PODS, asks("one", 1))
        await on.advance(2)
        on.cluster.put(PODS, asks("two", 2))
        await on.advance(2)
        assert [one.index for one in held_by(on.cluster.read(PODS, "two", "default"))] == [2, 3], "a pair is preferred"
        on.cluster.put(PODS, asks("third", 1))
        await on.advance(2)
        assert events(on, "CardsNotConnected") == []
        on.cluster.remove(PODS, "two", "default")
        on.cluster.put(PODS, asks("blocker", 1))
        await on.advance(2)
        on.cluster.remove(PODS, "one", "default")
        on.cluster.put(PODS, asks("apart", 2))
        await on.advance(2)
        assert [one.index for one in held_by(on.cluster.read(PODS, "apart", "default"))] == [0, 3]
        [told] = events(on, "CardsNotConnected")
        assert "GPUs 0 and 3 share no NVLink, though other cards of the node do" in told["message"]
        assert "NUMA 0 and 1" in told["message"]


# -- Exactly as the original ----------------------------------------------------------------------------------------------


@scenario
async def test_strict_leaves_pods_alone_and_fails_as_mig_manager_does() -> None:
    cluster = FakeCluster(VirtualClock())
    for served in (POLICIES, WORKLOADS, ADMISSION_CHECKS):
        cluster.serve(served)
    async with stage(*crew(A100, strict=True), cluster=cluster) as on:
        await on.advance(1)
        on.cluster.put(PODS, asks("p"))
        await on.advance(2)
        label(on, "a100", mig_config="all-1g.5gb")
        await on.advance(5)
        assert phase(on, "p") == "Running"
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "failed"
        assert "in use by another client" in condition(on, "a100", "MigConfig")["message"]
        on.cluster.remove(PODS, "p", "default")
        custom = "version: v1\nmig-configs:\n  wrong:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.18gb: 7}}"
        on.cluster.put(CONFIG_MAPS, config_map("custom", NAMESPACE, data={"config.yaml": custom}))
        spec: Any = {"migManager": {"config": {"name": "custom"}}}
        on.cluster.put(POLICIES, {"metadata": {"name": "p"}, "spec": spec})
        label(on, "a100", mig_config="wrong")
        await on.advance(5)
        assert labels(on, "a100")["nvidia.com/mig.config.state"] == "success", (
            "a profile of another product clears cards"
        )
        assert offers(on, "a100") == {}


# -- Crashes ------------------------------------------------------------------------------------------------------------


class Mortal(FakeCluster):
    """After so many writes nothing comes through any more, as after kill -9; before each write the state is checked."""

    left: int | None = None
    wrong: list[str]

    async def _arrive(self, verb: str, resource: Resource) -> None:
        await super()._arrive(verb, resource)
        if verb in ("create", "update", "patch", "delete"):
            if self.left == 0:
                raise OSError("killed")
            if self.left is not None:
                self.left -= 1
            self.wrong += wrong(self)


def wrong(cluster: FakeCluster) -> list[str]:
    found: list[str] = []
    for node in cluster.all(NODES):
        cards = json.loads(node["metadata"]["annotations"]["gpuaas.dev/cards"])
        has: Counter[str] = Counter()
        for card in cards:
            for slice_ in card.get("mig") or ():
                has[f"nvidia.com/mig-{slice_['profile']}"] += 1
            has["nvidia.com/gpu"] += "mig" not in card
        for name, amount in node["status"]["allocatable"].items():
            shares = 4 if name == "nvidia.com/gpu" else 1
            if name.startswith("nvidia.com/") and int(amount) > has[name] * shares:
                found.append(f"{amount} of {name} offered, the cards have {has[name]}")
        ids = {each["uuid"] for card in cards for each in card.get("mig") or ()} | {
            card["uuid"] for card in cards if "mig" not in card
        }
        for pod in cluster.all(PODS):
            if pod["status"].get("phase") == "Running":
                found += [f"{pod['metadata']['name']} is on {one.uuid}" for one in held_by(pod) if one.uuid not in ids]
    return found


def layouts(on: Stage) -> list[dict[str, int]]:
    cards = json.loads(annotations(on, "a100")["gpuaas.dev/cards"])
    assert not any("closed" in card for card in cards), "open again"
    return [dict(Counter(each["profile"] for each in card.get("mig") or ())) for card in cards]


_BEFORE, _AFTER = [{"3g.20gb": 2}] * 2, [{"1g.5gb": 7}] * 2
KINDS = {
    "completes": ("", ["all-1g.5gb"], [_AFTER], "success"),
    "rolls back": ("1=mig", ["all-1g.5gb"], [_BEFORE], "failed"),
    "another goal": ("", ["all-1g.5gb", "all-2g.10gb"], [[{"2g.10gb": 3}] * 2], "success"),
    "a goal that cannot be": ("", ["all-1g.5gb", "all-9g.9gb"], [_BEFORE, _AFTER], "failed"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, 50, 10))
def test_a_change_completes_or_rolls_back_wherever_it_is_killed(kind: str, first: int) -> None:
    """Ten crashes each: after 0, 1, 2 … writes of the control plane, and once more a few writes later."""

    @scenario
    async def play(writes: int) -> None:
        fault, goals, ends, state = KINDS[kind]
        cluster = Mortal(VirtualClock())
        cluster.wrong = []
        for served in (POLICIES, WORKLOADS, ADMISSION_CHECKS):
            cluster.serve(served)
        async with stage(*crew(A100), cluster=cluster) as on:
            label(on, "a100", mig_config="all-3g.20gb")
            await on.advance(2)
            for number in range(3):
                on.cluster.put(PODS, stubborn(f"p{number}", seconds=number, resource="nvidia.com/mig-3g.20gb"))
            await on.advance(2)
            annotate(on, "a100", **{"card-faults": fault})
            cluster.left = writes
            label(on, "a100", mig_config=goals[0])
            await on.advance(writes % 5)
            label(on, "a100", mig_config=goals[-1])
            await on.advance(3)
        cluster.left = writes % 7
        async with stage(*crew(A100), cluster=cluster) as on:
            await on.advance(3)
        cluster.left = None
        async with stage(*crew(A100), cluster=cluster) as on:
            await on.advance(60)
            assert cluster.wrong == []
            assert layouts(on) in ends
            assert labels(on, "a100")["nvidia.com/mig.config.state"] == state
            kept = json.loads(annotations(on, "a100").get("gpuaas.dev/card-change", "{}"))
            assert {one["step"] for one in kept.values()} <= {"failed"}

    for writes in range(first, first + 10):
        play(writes)
