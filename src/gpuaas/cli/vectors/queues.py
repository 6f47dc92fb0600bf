"""Queueing and topology vectors: scenarios with what Kueue's scheduler decided, run through the engine and compared.

`scenario` holds queueing scenarios, `levels` topology scenarios. Time is virtual, one second a cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuaas.cli.vectors.verdicts import Difference, Verdict
from gpuaas.engine.changes import Finished, Released
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.engine.engine import Engine
from gpuaas.engine.plan import Plan
from gpuaas.engine.topology_values import Topology
from gpuaas.engine.values import (
    ClusterQueue,
    Flavor,
    FlavorQuotas,
    LocalQueue,
    Namespace,
    PodSetAdmission,
    Quota,
    ResourceGroup,
)
from gpuaas.kueue import quotas
from gpuaas.kueue.resources import Object
from gpuaas.kueue.workloads import Reader

SECOND = 1000
IDLE_CYCLES = 4
MOST_CYCLES = 10_000
"""Far more than any measured step took: workloads that preempt each other in turns never settle."""


def kind_of(vector: Object) -> str | None:
    if "scenario" in vector:
        return "admission"
    if "levels" in vector and "nodes" in vector:
        return "topology"
    return None


def judge(vector: Object) -> Verdict:
    """Run a vector of either kind and say where the engine decided otherwise."""
    match kind_of(vector):
        case "admission":
            scenario = vector["scenario"]
            name, family, found = scenario["name"], scenario["family"], run_admission(scenario)
            differences = _compare_admission(vector["expect"], found)
        case "topology":
            name, family = vector["name"], vector["family"]
            differences = _compare_topology(vector["expect"], run_topology(vector))
        case _:
            raise ValueError("not a vector: neither `scenario` nor `levels` and `nodes`")
    return Verdict(name, family, tuple(differences))


def run_admission(scenario: Object) -> Iterator[dict[str, Any]]:
    """One entry a step, in the form of a vector's `expect`."""
    engine = Engine(Config(fair_sharing=BOTH_STRATEGIES if scenario.get("fairSharing") else None))
    for key, read in (
        ("namespaces", quotas.namespace),
        ("resourceFlavors", quotas.flavor),
        ("cohorts", quotas.cohort),
        ("clusterQueues", quotas.cluster_queue),
        ("localQueues", quotas.local_queue),
    ):
        for obj in scenario.get(key) or ():
            engine.apply(read(obj))
    reader = Reader()
    now = created = 0
    never_queued: set[str] = set()
    """Their end requeues no workload: the manager that was measured had not queued them itself."""
    for obj in scenario.get("admitted") or ():
        now += SECOND
        reserved = reader.reserved(obj, created=now, at=now)
        never_queued.add(reserved.workload.key)
        engine.apply(reserved)
    created = now
    now += 1000 * SECOND
    for step in scenario["steps"]:
        engine.apply(*(Finished(key, key not in never_queued) for key in step.get("finish") or ()))
        for obj in step.get("submit") or ():
            created += SECOND
            workload = reader.workload(obj, created=created)
            never_queued.discard(workload.key)  # the name of one that has finished
            engine.apply(workload)
        now = max(now, created + SECOND)
        cycles, now = _settle(engine, now)
        never_queued -= {key for cycle in cycles for key in cycle["preempted"]}
        yield {
            "cycles": cycles,
            "running": {i.key: _given(i.queue.name, i.admission) for i in engine.running() if i.queue and i.admission},
            "pending": sorted(item.key for item in engine.pending()),
        }


def run_topology(vector: Object) -> Iterator[dict[str, Any]]:
    """One entry a step: who is placed where, who waits, and the words for the one that was submitted."""
    engine = Engine()
    resources = ("cpu", "nvidia.com/gpu")
    plenty = tuple((name, Quota(10_000 * (1000 if name == "cpu" else 1))) for name in resources)
    group = ResourceGroup(resources, (FlavorQuotas("flavor", plenty),))
    engine.apply(
        Namespace("team"),
        Topology("topo", tuple(vector["levels"])),
        *(quotas.node(obj) for obj in vector["nodes"]),
        Flavor("flavor", topology="topo"),
        ClusterQueue("queue", (group,)),
        LocalQueue("team", "queue", "queue"),
    )
    reader = Reader()
    now = 0
    for step in vector["steps"]:
        now += SECOND
        key = None
        if "finish" in step:
            engine.apply(Finished(f"team/{step['finish']}"))
        if "submit" in step:
            workload = reader.workload(step["submit"], created=now)
            key = workload.key
            engine.apply(workload)
        words: dict[str, str] = {}
        while engine.has_heads():
            plan = engine.cycle(now)
            words |= {passed.key: passed.message for passed in plan.skipped}
        yield {
            "admitted": {i.workload.name: _places(i.admission) for i in engine.running() if i.admission},
            "pending": sorted(item.workload.name for item in engine.pending()),
            "message": words.get(key) if key is not None else None,
        }


def _places(pod_sets: tuple[PodSetAdmission, ...]) -> dict[str, Any]:
    return {
        p.name: {"count": p.count, "topology": {"/".join(values): count for values, count in p.domains or ()}}
        for p in pod_sets
    }


def _settle(engine: Engine, now: int) -> tuple[list[dict[str, Any]], int]:
    """Cycles until four in a row change nothing, or no queue has a head."""
    cycles: list[dict[str, Any]] = []
    idle = 0
    while idle < IDLE_CYCLES and engine.has_heads():
        if len(cycles) > MOST_CYCLES:
            raise ValueError(f"does not settle: {MOST_CYCLES} cycles in one step changed something")
        plan = engine.cycle(now)
        now += SECOND
        idle = 0 if plan.changed else idle + 1
        if plan.changed:
            cycles.append(_decisions(plan))
        engine.apply(*(Released(victim.key) for victim in plan.preemptions))
    return cycles, now


def _decisions(plan: Plan) -> dict[str, Any]:
    return {
        "admitted": {a.key: _given(a.cluster_queue, a.pod_sets) for a in plan.admissions},
        "preempted": {p.key: p.rule.value for p in plan.preemptions},
    }


def _given(cluster_queue: str, pod_sets: tuple[PodSetAdmission, ...]) -> dict[str, Any]:
    return {
        "clusterQueue": cluster_queue,
        "podSets": {p.name: dict(p.flavors) for p in pod_sets},
        "counts": {p.name: p.count for p in pod_sets},
    }


def _compare_admission(expect: list[Any], found: Iterator[dict[str, Any]]) -> Iterator[Difference]:
    """The first difference of a scenario: later ones only follow from it."""
    for index, (wanted, got) in enumerate(zip(expect, found, strict=True)):
        for number in range(max(len(wanted["cycles"]), len(got["cycles"]))):
            one, two = _at(wanted["cycles"], number), _at(got["cycles"], number)
            if one != two:
                yield Difference(f"step {index}, cycle {number}", one, two)
                return
        for part in ("running", "pending"):
            one, two = wanted[part], got[part]
            if (sorted(one) if part == "pending" else one) != two:
                yield Difference(f"step {index}, {part}", one, two)
                return


def _compare_topology(expect: list[Any], found: Iterator[dict[str, Any]]) -> Iterator[Difference]:
    for index, (wanted, got) in enumerate(zip(expect, found, strict=True)):
        for part in ("admitted", "pending", "message"):
            one, two = wanted.get(part), got[part]
            if part == "message" and not one:
                continue
            if (sorted(one) if part == "pending" else one) != two:
                yield Difference(f"step {index}, {part}", one, two)
                return


def _at(cycles: list[Any], number: int) -> Any:
    return cycles[number] if number < len(cycles) else None
