"""What the pod scheduler promises: the most important first, no room given twice, words when there is none."""

import asyncio
from typing import Any

import pytest

from gpuaas.base.errors import Conflict
from gpuaas.client.resources import NODES, PODS
from gpuaas.controllers.pod_scheduler import PodScheduler, controller
from gpuaas.nodefit.book import Ask, Book
from gpuaas.nodefit.place import Placed, Unplaced
from gpuaas.runtime.pods import condition_of
from gpuaas.testing.objects import node, pod
from gpuaas.testing.time import Stage, scenario, stage

GPU = "nvidia.com/gpu"


def with_cards(name: str, count: int) -> Any:
    made = node(name)
    made["status"]["allocatable"] = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: str(count)}
    return made


def wants(name: str, cards: int, priority: int = 0, **more: Any) -> Any:
    made = pod(name, requests={GPU: str(cards)}, **more)
    made["spec"]["priority"] = priority
    return made


def where(on: Stage) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in on.cluster.all(PODS)}


@scenario
async def test_a_pending_pod_is_bound_and_said_to_be() -> None:
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, with_cards("a", 8))
        on.cluster.put(PODS, wants("p", 2))
        await on.settle()
        assert where(on) == {"p": "a"}
        assert on.cluster.events() == ["Normal Scheduled pod/p Successfully assigned default/p to a"]


@scenario
async def test_of_pods_that_do_not_all_fit_the_most_important_gets_the_room() -> None:
    async with stage(PodScheduler) as on:
        for name, priority in (("low", 1), ("high", 100), ("middle", 10)):
            on.cluster.put(PODS, wants(name, 4, priority))
        await on.settle()
        on.cluster.put(NODES, with_cards("a", 8))
        await on.settle()
        assert where(on) == {"low": "", "high": "a", "middle": "a"}


@scenario
async def test_a_pod_without_a_place_says_why_once_and_is_bound_when_one_leaves() -> None:
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, with_cards("a", 4))
        on.cluster.put(PODS, wants("first", 4))
        await on.settle()
        on.cluster.put(PODS, wants("second", 4))
        await on.advance(600)
        condition = condition_of(on.cluster.read(PODS, "second", "default"), "PodScheduled")
        assert condition is not None
        message = (
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )
        assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Unschedulable", message)
        assert on.cluster.events()[1:] == [f"Warning FailedScheduling pod/second {message}"]
        on.cluster.set_status(PODS, "first", "default", phase="Succeeded")
        await on.settle()
        assert where(on)["second"] == "a"


@scenario
async def test_gated_pods_and_those_of_other_schedulers_are_left_alone() -> None:
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, with_cards("a", 8))
        gated, other = wants("gated", 1), wants("other", 1)
        gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
        other["spec"]["schedulerName"] = "volcano"
        on.cluster.put(PODS, gated)
        on.cluster.put(PODS, other)
        await on.settle()
        assert where(on) == {"gated": "", "other": ""}
        freed = on.cluster.read(PODS, "gated", "default")
        spec = {key: value for key, value in freed["spec"].items() if key != "schedulingGates"}
        on.cluster.put(PODS, {**freed, "spec": {**spec, "nodeSelector": {"kubernetes.io/hostname": "b"}}})
        await on.settle()
        assert where(on)["gated"] == ""  # the topology it was assigned counts, not any free node
        on.cluster.put(
            NODES, {**with_cards("b", 8), "metadata": {"name": "b", "labels": {"kubernetes.io/hostname": "b"}}}
        )
        await on.settle()
        assert where(on)["gated"] == "b"


@scenario
async def test_a_binding_that_fails_gives_its_room_back_and_is_tried_again() -> None:
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, with_cards("a", 4))
        on.cluster.fail_next("create", PODS, Conflict("", "pods/binding", "p", "busy"))
        on.cluster.put(PODS, wants("p", 4))
        await on.advance(5)
        assert where(on) == {"p": "a"}


@scenario
async def test_a_pod_that_is_deleted_while_it_is_bound_leaves_no_trace() -> None:
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, with_cards("a", 4))
        await on.settle()
        on.cluster.put(PODS, wants("gone", 4))
        on.cluster.remove(PODS, "gone", "default")
        on.cluster.put(PODS, wants("p", 4))
        await on.advance(5)
        assert where(on) == {"p": "a"}


@scenario
async def test_more_pods_than_room_never_over_commit_a_node() -> None:
    async with stage(PodScheduler) as on:
        for number in range(3):
            on.cluster.put(NODES, with_cards(f"n{number}", 8))
        for number in range(40):
            on.cluster.put(PODS, wants(f"p{number}", 1 + number % 3))
        await on.settle()
        used: dict[str, int] = {}
        for one in on.cluster.all(PODS):
            name = one["spec"].get("nodeName", "")
            used[name] = used.get(name, 0) + int(one["spec"]["containers"][0]["resources"]["requests"][GPU])
        used.pop("")
        assert used == {"n0": 8, "n1": 8, "n2": 8}


@scenario
async def test_a_pod_of_lower_priority_is_preempted_with_words() -> None:
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, with_cards("a", 4))
        on.cluster.put(PODS, wants("low", 4, 1))
        await on.settle()
        high = on.cluster.put(PODS, wants("high", 4, 10))
        await on.settle()
        low = on.cluster.read(PODS, "low", "default")
        assert low["metadata"]["deletionTimestamp"]
        target = condition_of(low, "DisruptionTarget")
        assert target is not None
        assert target["reason"] == "PreemptionByScheduler"
        told = f"Normal Preempted pod/low Preempted by pod {high['metadata']['uid']} on node a"
        assert told in on.cluster.events()
        assert on.cluster.read(PODS, "high", "default")["status"]["nominatedNodeName"] == "a"
        await on.cluster.delete(PODS, "low", "default", grace=0)
        await on.settle()
        assert where(on) == {"high": "a"}


@scenario
async def test_the_room_that_is_made_for_a_pod_is_given_to_nobody_of_less_importance() -> None:
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, with_cards("a", 10))
        for name, cards, priority in (("one", 2, 1), ("two", 3, 2), ("three", 4, 3)):
            on.cluster.put(PODS, wants(name, cards, priority))
        await on.settle()
        on.cluster.put(PODS, wants("four", 6, 4))
        await on.settle()
        leaving = {name for name in ("one", "two", "three") if _is_leaving(on, name)}
        assert leaving == {"one", "two"}
        await on.cluster.delete(PODS, "one", "default", grace=0)
        on.cluster.put(PODS, wants("again", 2, 1))
        await on.settle()
        assert not where(on)["again"], "two has not left yet, and what one left is not for it"
        await on.cluster.delete(PODS, "two", "default", grace=0)
        await on.settle()
        assert where(on) == {"three": "a", "four": "a", "again": ""}


@scenario
async def test_who_is_more_important_takes_the_room_that_is_being_made_and_nobody_else_is_deleted_for_it() -> None:
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, with_cards("a", 4))
        on.cluster.put(PODS, wants("low", 4, 1))
        await on.settle()
        on.cluster.put(PODS, wants("middle", 4, 5))
        await on.settle()
        on.cluster.put(PODS, wants("high", 4, 9))
        await on.settle()
        assert not _is_leaving(on, "middle")
        await on.cluster.delete(PODS, "low", "default", grace=0)
        await on.settle()
        assert where(on) == {"high": "a", "middle": ""}
        await on.cluster.delete(PODS, "high", "default", grace=0)
        await on.settle()
        assert where(on) == {"middle": "a"}


def _is_leaving(on: Stage, name: str) -> bool:
    return "deletionTimestamp" in on.cluster.read(PODS, name, "default")["metadata"]


@scenario
async def test_it_writes_under_the_name_of_the_real_scheduler() -> None:
    async with stage(PodScheduler) as on:
        patch, names = on.cluster.patch, []

        async def noted(*where: Any, **how: Any) -> Any:
            names.append(how["field_manager"])
            return await patch(*where, **how)

        on.cluster.patch = noted  # type: ignore[method-assign]
        on.cluster.put(PODS, wants("p", 2))
        await on.settle()
        assert names == ["kube-scheduler"]


@scenario
async def test_a_pod_for_which_nothing_can_be_decided_says_so_and_the_others_are_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner = controller.place

    def failing(ask: Ask, book: Book) -> Placed | Unplaced:
        if ask.name == "bad":
            raise ValueError("no such thing")
        return inner(ask, book)

    monkeypatch.setattr(controller, "place", failing)
    async with stage(PodScheduler) as on:
        on.cluster.put(NODES, node("n"))
        for name in ("bad", "good"):
            on.cluster.put(PODS, pod(name))
        unreadable = pod("unreadable")
        unreadable["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "no quantity"}}
        on.cluster.put(PODS, unreadable)
        await on.advance(1)
        assert on.cluster.read(PODS, "good", "default")["spec"]["nodeName"] == "n"
        said = condition_of(on.cluster.read(PODS, "bad", "default"), "PodScheduled")
        assert said is not None
        assert (said["reason"], said["message"]) == ("SchedulerError", "ValueError: no such thing")
        told = [event for event in on.cluster.events("default") if "SetAside" in event]
        assert sorted(event.split()[2] for event in told) == ["pod/bad", "pod/unreadable"]


@scenario
async def test_a_pass_over_many_pods_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(PodScheduler) as on:
        inner = controller.place

        def slow(ask: Ask, book: Book) -> Placed | Unplaced:
            on.clock.advance(0.015)
            return inner(ask, book)

        monkeypatch.setattr(controller, "place", slow)
        turns = 0
        sleep = asyncio.sleep

        async def counted(seconds: float, *args: Any) -> Any:
            nonlocal turns
            turns += seconds == 0
            return await sleep(seconds, *args)

        monkeypatch.setattr(controller.asyncio, "sleep", counted)
        on.cluster.put(NODES, node("n"))
        for number in range(10):
            on.cluster.put(PODS, wants(f"p{number}", number + 1))
        await on.settle()
        assert turns >= 4
