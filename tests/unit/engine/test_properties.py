"""What holds whatever happens: random trees, random events, checked after every step.

Two engines get the same events and must give the same plans; a third forgets before each cycle what it need not look at
and must decide the same, which is what makes looking only at changed trees right.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpuaas.engine import nominate
from gpuaas.engine.changes import Change, Evicted, Finished, Gone, Released
from gpuaas.engine.checks import fingerprint
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.engine.engine import Engine
from gpuaas.engine.plan import Plan
from gpuaas.engine.preempt import Hunt, Target, legal
from gpuaas.engine.queues import Queue
from gpuaas.engine.tree import CohortNode, Node
from gpuaas.engine.values import (
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorQuotas,
    Fungibility,
    LocalQueue,
    Namespace,
    PodSet,
    Preemption,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
    StopPolicy,
    Workload,
)

FLAVORS = ("f0", "f1")
RESOURCES = ("cpu", "gpu")
COHORTS = ("root", "left", "right")
QUEUES = ("q0", "q1", "q2", "q3")

small = st.integers(0, 8)
limit = st.none() | small
within = st.sampled_from([Preemption.NEVER, Preemption.LOWER, Preemption.LOWER_OR_NEWER_EQUAL])
reclaims = st.sampled_from([Preemption.NEVER, Preemption.LOWER, Preemption.ANY])


@st.composite
def resource_groups(draw: st.DrawFn, owner: str) -> tuple[ResourceGroup, ...]:
    has_parent = owner != "root"
    quotas = [
        FlavorQuotas(
            flavor,
            tuple(
                (r, Quota(draw(small), draw(limit) if has_parent else None, draw(limit) if has_parent else None))
                for r in RESOURCES
            ),
        )
        for flavor in FLAVORS[: draw(st.integers(1, 2))]
    ]
    return (ResourceGroup(RESOURCES, tuple(quotas)),)


@st.composite
def cluster_queues(draw: st.DrawFn, name: str) -> ClusterQueue:
    reclaim = draw(reclaims)
    return ClusterQueue(
        name,
        draw(resource_groups(name)),
        cohort=draw(st.sampled_from([None, *COHORTS])),
        strict=draw(st.booleans()),
        fungibility=Fungibility(draw(st.booleans()), draw(st.booleans()), draw(st.booleans())),
        preemption=PreemptionPolicy(
            draw(within),
            reclaim,
            reclaim is not Preemption.NEVER and draw(st.booleans()),
            draw(st.none() | st.integers(0, 2)),
        ),
        stop=draw(st.sampled_from([StopPolicy.NONE] * 6 + [StopPolicy.HOLD])),
        weight=draw(st.sampled_from([1.0, 1.0, 2.0, 0.0])),
    )


@st.composite
def cohorts(draw: st.DrawFn, name: str) -> Cohort:
    groups = draw(resource_groups(name)) if draw(st.booleans()) else ()
    return Cohort(name, None if name == "root" else "root", groups, draw(st.sampled_from([1.0, 2.0, 0.0])))


@st.composite
def pod_sets(draw: st.DrawFn) -> tuple[PodSet, ...]:
    def one(name: str) -> PodSet:
        count = draw(st.integers(1, 3))
        requests = tuple((r, draw(st.integers(0, 4))) for r in RESOURCES)
        return PodSet(name, count, requests, draw(st.none() | st.integers(1, count)) if name == "main" else None)

    return (one("main"), one("aux")) if draw(st.integers(0, 4)) == 0 else (one("main"),)


class Engines(RuleBasedStateMachine):
    fair = False

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        config = Config(fair_sharing=BOTH_STRATEGIES if self.fair else None)
        self.engine, self.twin, self.forgetful = Engine(config), Engine(config), Engine(config)
        self.now = 0
        self.number = 0
        self.leaving: list[str] = []
        self.tell(Namespace("ns"), *(Flavor(name) for name in FLAVORS))
        self.tell(*(data.draw(cohorts(name)) for name in COHORTS))
        for name in QUEUES:
            self.tell(data.draw(cluster_queues(name)), LocalQueue("ns", name, name))

    def tell(self, *changes: Change) -> None:
        for engine in (self.engine, self.twin, self.forgetful):
            engine.apply(*changes)

    @rule(queue=st.sampled_from(QUEUES), sets=pod_sets(), priority=st.integers(0, 3))
    def submit(self, queue: str, sets: tuple[PodSet, ...], priority: int) -> None:
        self.number += 1
        self.now += 1
        name = f"w{self.number}"
        self.tell(Workload("ns", name, f"uid-{self.number:04}", queue, self.now, sets, priority))

    @precondition(lambda self: self.engine.items)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.engine.items)))
        self.leaving = [k for k in self.leaving if k != key]
        self.tell(Finished(key))

    @precondition(lambda self: any(i.reserved and not i.evicted for i in self.engine.items.values()))
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        key = data.draw(
            st.sampled_from(sorted(k for k, i in self.engine.items.items() if i.reserved and not i.evicted))
        )
        self.leaving.append(key)
        self.tell(Evicted(key, "Preempted"))

    @precondition(lambda self: self.leaving)
    @rule(later=st.booleans())
    def release(self, later: bool) -> None:
        """It waits again, at its old place or behind those that came meanwhile."""
        key = self.leaving.pop(0)
        item = self.engine.items[key]
        self.tell(Released(key, replace(item.workload, ordered_at=self.now if later else None)))

    @precondition(lambda self: self.engine.items)
    @rule(data=st.data(), priority=st.integers(0, 3))
    def change_priority(self, data: st.DataObject, priority: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.engine.items)))
        self.tell(replace(self.engine.items[key].workload, priority=priority))

    @rule(data=st.data(), name=st.sampled_from(QUEUES))
    def change_queue(self, data: st.DataObject, name: str) -> None:
        self.tell(data.draw(cluster_queues(name)))

    @rule(data=st.data(), name=st.sampled_from(COHORTS))
    def change_cohort(self, data: st.DataObject, name: str) -> None:
        self.tell(data.draw(cohorts(name)) if data.draw(st.booleans()) else Gone("Cohort", name))

    @rule()
    def cycle(self) -> None:
        self.now += 1
        strict = {q.name: q.pending.ordered()[:1] for q in self.engine.forest.queues.values() if q.spec.strict}
        before = levels(self.engine)
        with watched_hunts():
            plan = self.engine.cycle(self.now)
        assert decisions(plan) == decisions(self.twin.cycle(self.now)), "the same events give the same plan"
        for tree in self.forgetful.forest.trees():
            tree.dirty = True
        assert decisions(plan)[:2] == decisions(self.forgetful.cycle(self.now))[:2], (
            "what was not looked at did not matter"
        )
        self.leaving += [victim.key for victim in plan.preemptions]
        for admitted in plan.admissions:
            if admitted.cluster_queue in strict:
                assert [i.key for i in strict[admitted.cluster_queue]] == [admitted.key], (
                    "nobody overtakes a strict head"
                )
        assert_not_over_committed(self.engine, before)

    @precondition(lambda self: self.engine.items)
    @rule(data=st.data(), name=st.sampled_from(QUEUES))
    def what_if(self, data: st.DataObject, name: str) -> None:
        before = fingerprint(self.engine)
        key = data.draw(st.sampled_from(sorted(self.engine.items)))
        with self.engine.what_if() as trial:
            for change in data.draw(
                st.permutations([Finished(key), data.draw(cluster_queues(name)), data.draw(cohorts("left"))])
            ):
                trial.apply(change)
                plan = trial.cycle(self.now + 1)
                trial.apply(*(Released(victim.key) for victim in plan.preemptions))
                trial.validate()
        assert fingerprint(self.engine) == before, "a trial leaves nothing behind"

    @precondition(lambda self: self.engine.items)
    @rule(data=st.data())
    def explain(self, data: st.DataObject) -> None:
        before = fingerprint(self.engine)
        key = data.draw(st.sampled_from(sorted(self.engine.items)))
        told = self.engine.explain(key, self.now)
        assert told is not None
        assert (told.state == "Pending") != self.engine.items[key].reserved
        assert fingerprint(self.engine) == before, "explaining changes nothing"

    @invariant()
    def consistent(self) -> None:
        if hasattr(self, "engine"):
            self.engine.validate()


class FairEngines(Engines):
    fair = True


def decisions(plan: Plan) -> tuple[Any, ...]:
    return (
        sorted((a.key, a.cluster_queue, a.pod_sets) for a in plan.admissions),
        sorted((p.key, p.rule.value, p.by) for p in plan.preemptions),
        sorted((p.key, p.token.value, p.message) for p in plan.skipped),
    )


def nodes(engine: Engine) -> Iterator[Node]:
    for tree in engine.forest.trees():
        if not tree.cyclic:
            yield from tree.cohorts
            yield from tree.queues


def levels(engine: Engine) -> dict[str, dict[int, int]]:
    engine.refresh()
    engine.forest.settle_all()
    return {f"{type(node).__name__}/{node.name}": dict(node.usage) for node in nodes(engine)}


def assert_not_over_committed(engine: Engine, before: dict[str, dict[int, int]]) -> None:
    """Nobody is above what it may use, unless it was so before (quota was cut), and nobody got further above."""
    for node in nodes(engine):
        was = before[f"{type(node).__name__}/{node.name}"]
        for fr, used in node.usage.items():
            most = node.subtree.get(fr, 0)
            quota = node.quotas.get(fr)
            if node.parent is not None:
                if quota is None or quota.borrowing is None:
                    continue
                most += quota.borrowing
            assert used <= max(most, was.get(fr, 0)), f"{node.name} uses {used} of {most}"


@contextmanager
def watched_hunts() -> Iterator[None]:
    """Look over the shoulder of every search for victims: each victim legal, none superfluous."""
    classical, fair = nominate.classical, nominate.fair

    def watch_classical(hunt: Hunt) -> list[Target]:
        return checked(hunt, classical(hunt))

    def watch_fair(hunt: Hunt, *rest: Any) -> list[Target]:
        return checked(hunt, fair(hunt, *rest))

    nominate.classical, nominate.fair = watch_classical, watch_fair  # type: ignore[assignment]
    try:
        yield
    finally:
        nominate.classical, nominate.fair = classical, fair


def checked(hunt: Hunt, targets: list[Target]) -> list[Target]:
    for target in targets:
        assert_legal(hunt, target)
    if targets:
        for target in targets:
            hunt.remove(target.item)
        assert hunt.fits(may_borrow=True), "with the victims gone it fits"
        for target in targets:
            hunt.restore(target.item)
            without = [hunt.fits(may_borrow=False), hunt.fits(may_borrow=True)]
            hunt.remove(target.item)
            together = [hunt.fits(may_borrow=False), hunt.fits(may_borrow=True)]
            assert without != together or not without[1], f"{target.item.key} could have stayed"
        for target in targets:
            hunt.restore(target.item)
    return targets


def assert_legal(hunt: Hunt, target: Target) -> None:
    policy = hunt.queue.spec.preemption
    item = target.item
    assert isinstance(item.queue, Queue)
    assert item.reserved
    assert not hunt.contested.isdisjoint(item.usage), "uses what is contested"
    if item.queue is hunt.queue:
        assert legal(policy.within_queue, hunt.item, item)
        return
    assert legal(policy.reclaim, hunt.item, item)
    assert isinstance(item.queue.path[0], CohortNode)
    assert item.queue.path[0] is hunt.queue.path[0]
    assert not item.queue.within_nominal(hunt.contested), "only borrowers give to others"


SETTINGS = settings(max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("machine", [Engines, FairEngines], ids=["classical", "fair"])
def test_whatever_happens(machine: type[Engines]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=SETTINGS)
