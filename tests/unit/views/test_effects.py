"""What an action would do: compared with what happens anyway, put back exactly, and said without names one may not read."""

from __future__ import annotations

import pytest
from tests.unit.engine.builders import Lab, queue

from gpuaas.base.clock import VirtualClock
from gpuaas.engine.changes import Evicted, Released
from gpuaas.engine.checks import fingerprint
from gpuaas.engine.lifecycle import QUEUE_STOPPED
from gpuaas.engine.values import LocalQueue, Namespace, StopPolicy
from gpuaas.views.effects import Effect, Effects


def lab() -> Lab:
    """team-a has two GPUs and lends both to team-b, which has none of its own; both are taken, and more waits."""
    made = Lab(
        queue("team-a", 2, "centre", within="LowerPriority", reclaim="Any"),
        queue("team-b", 0, "centre"),
    )
    made.run("a-1", "team-a", 1)
    made.run("b-1", "team-b", 1)
    made.submit("b-2", "team-b", 1)
    made.settle()
    return made


def effects(made: Lab, parked: str = "") -> Effects:
    return Effects(made.engine, VirtualClock(made.now / 1000 + 1), lambda _: parked)


def test_cancelling_lets_others_start() -> None:
    assert effects(lab()).of_cancel("ns/b-1") == Effect(starts=("ns/b-2",))


def test_cancelling_what_waits_changes_nothing() -> None:
    assert effects(lab()).of_cancel("ns/b-2") == Effect()


def test_what_would_start_anyway_is_no_effect() -> None:
    made = lab()
    made.tell(queue("team-c", 1))
    made.submit("c-1", "team-c", 1)
    assert made.engine.unsettled()
    assert effects(made).of_cancel("ns/b-1") == Effect(starts=("ns/b-2",))


def test_a_priority_that_preempts_says_whom() -> None:
    made = lab()
    made.submit("a-2", "team-a", 1)
    made.settle()
    made.submit("a-3", "team-a", 1)
    made.settle()
    assert effects(made).of_priority("ns/a-3", 10) == Effect(starts=("ns/a-3",), evicts=("ns/a-2",))
    assert effects(made).of_priority("ns/a-3", 0) == Effect()
    assert effects(made).of_priority("ns/none", 10) is None


@pytest.mark.parametrize(
    ("policy", "effect"),
    [
        (StopPolicy.HOLD, Effect()),
        (StopPolicy.HOLD_AND_DRAIN, Effect(starts=("ns/b-2",), evicts=("ns/a-1",))),
    ],
)
def test_stopping_a_queue(policy: StopPolicy, effect: Effect) -> None:
    assert effects(lab()).of_cluster_queue("team-a", policy) == effect
    assert effects(lab()).of_local_queue("ns", "team-a", policy) == effect


def test_stopping_a_queue_holds_up_what_would_start() -> None:
    made = lab()
    made.tell(queue("team-c", 1))
    made.submit("c-1", "team-c", 1)
    assert effects(made).of_cluster_queue("team-c", StopPolicy.HOLD) == Effect(held_up=("ns/c-1",))


def test_resuming_lets_those_return_that_the_stop_evicted() -> None:
    from dataclasses import replace

    made = Lab(queue("team-a", 2))
    made.run("a-1", "team-a", 1)
    stopped = replace(made.engine.forest.queues["team-a"].spec, stop=StopPolicy.HOLD_AND_DRAIN)
    waits = replace(made.engine.items["ns/a-1"].workload, parked=True)
    made.engine.apply(stopped, Evicted("ns/a-1", "Stopped"), Released("ns/a-1", waits))
    made.submit("a-2", "team-a", 1)
    made.settle()
    resumed = effects(made, QUEUE_STOPPED).of_cluster_queue("team-a", StopPolicy.NONE)
    assert resumed == Effect(starts=("ns/a-1", "ns/a-2"))
    backing_off = effects(made, "PodsReadyTimeout").of_cluster_queue("team-a", StopPolicy.NONE)
    assert backing_off == Effect(starts=("ns/a-2",)), "who waits for another reason goes on waiting"


def test_nothing_of_a_trial_stays_behind() -> None:
    made = lab()
    before = fingerprint(made.engine)
    tried = effects(made)
    tried.of_cancel("ns/b-1")
    tried.of_priority("ns/b-2", 100)
    tried.of_cluster_queue("team-a", StopPolicy.HOLD_AND_DRAIN)
    tried.of_local_queue("ns", "team-b", StopPolicy.HOLD)
    assert fingerprint(made.engine) == before
    made.engine.validate()


def test_a_trial_that_is_cut_short_says_at_least() -> None:
    made = Lab(queue("team-a", 200), LocalQueue("ns", "team-a", "team-a"), Namespace("ns"))
    made.run("big", "team-a", 200)
    for number in range(150):
        made.submit(f"small-{number}", "team-a", 1)
    made.settle()
    found = effects(made).of_cancel("ns/big")
    assert not found.whole
    assert found.sentence(lambda _: True).startswith("starts at least ")


@pytest.mark.parametrize(
    ("effect", "sentence"),
    [
        (Effect(), "starts nothing, evicts nothing"),
        (Effect(("a/x",), ("a/y", "b/z")), "starts 1 job of a, evicts 2 jobs of a, b"),
        (Effect(("hidden/x",)), "starts 1 job, evicts nothing"),
        (Effect(("a/x", "hidden/y")), "starts 2 jobs of a and other namespaces, evicts nothing"),
        (Effect(held_up=("a/x",)), "starts nothing, evicts nothing, holds up 1 job of a that would start now"),
    ],
)
def test_the_sentence(effect: Effect, sentence: str) -> None:
    assert effect.sentence(lambda namespace: namespace != "hidden") == sentence
