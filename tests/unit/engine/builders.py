"""A laboratory: an engine in virtual time, with short words for queues and workloads. Checks itself after each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuaas.engine.changes import Change, Finished, Released
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.engine.engine import Engine
from gpuaas.engine.plan import Plan, Skipped
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
    Workload,
)

GPU = "gpu"
SECOND = 1000

Limits = int | tuple[int | None, ...] | Quota
"""nominal, or (nominal, borrowing, lending)"""


def quota(limits: Limits) -> Quota:
    if isinstance(limits, Quota):
        return limits
    if isinstance(limits, int):
        return Quota(limits)
    return Quota(*limits)  # type: ignore[arg-type]


def groups(flavors: dict[str, Limits | dict[str, Limits]]) -> tuple[ResourceGroup, ...]:
    """One resource group: flavor → limits of `gpu`, or flavor → resource → limits."""
    by_flavor = {f: limits if isinstance(limits, dict) else {GPU: limits} for f, limits in flavors.items()}
    if not by_flavor:
        return ()
    resources = tuple(next(iter(by_flavor.values())))
    return (
        ResourceGroup(
            resources,
            tuple(FlavorQuotas(f, tuple((r, quota(limits[r])) for r in resources)) for f, limits in by_flavor.items()),
        ),
    )


def queue(name: str, limits: Limits | dict[str, Any] = 10, cohort: str | None = None, **more: Any) -> ClusterQueue:
    policy = PreemptionPolicy(
        Preemption(more.pop("within", "Never")),
        Preemption(more.pop("reclaim", "Never")),
        more.pop("borrow_within", False),
        more.pop("threshold", None),
    )
    flavors = limits if isinstance(limits, dict) else {"default": limits}
    rules = Fungibility(
        more.pop("borrow_stops", True), more.pop("preempt_stops", False), more.pop("preempt_first", False)
    )
    return ClusterQueue(name, groups(flavors), cohort, preemption=policy, fungibility=rules, **more)


def cohort(
    name: str, parent: str | None = None, limits: Limits | dict[str, Any] | None = None, weight: float = 1.0
) -> Cohort:
    flavors = {} if limits is None else limits if isinstance(limits, dict) else {"default": limits}
    return Cohort(name, parent, groups(flavors), weight)


class Lab:
    def __init__(self, *values: Change, fair: bool = False, **config: Any) -> None:
        self.engine = Engine(Config(fair_sharing=BOTH_STRATEGIES if fair else None, **config))
        self.now = 0
        self.engine.apply(Namespace("ns"))
        self.tell(*values)

    def tell(self, *values: Change) -> None:
        """Tell the engine; a ClusterQueue brings its flavors and a LocalQueue of the same name along."""
        for value in values:
            if isinstance(value, ClusterQueue | Cohort):
                for group in value.groups:
                    for flavor in group.flavors:
                        if flavor.flavor not in self.engine.flavors:
                            self.engine.apply(Flavor(flavor.flavor))
            self.engine.apply(value)
            if isinstance(value, ClusterQueue) and f"ns/{value.name}" not in self.engine.local_queues:
                self.engine.apply(LocalQueue("ns", value.name, value.name))
        self.engine.validate()

    def workload(self, name: str, queue: str, gpus: int | dict[str, int] = 1, **more: Any) -> Workload:
        """One pod set of `count` pods, each with these requests; created a second after the last one."""
        self.now += SECOND
        requests = gpus if isinstance(gpus, dict) else {GPU: gpus}
        count, min_count = more.pop("count", 1), more.pop("min_count", None)
        shape = {
            k: more.pop(k) for k in ("tolerations", "node_selector", "affinity", "topology", "preferred") if k in more
        }
        pod_sets = more.pop("pod_sets", (PodSet("main", count, tuple(sorted(requests.items())), min_count, **shape),))
        return Workload("ns", name, more.pop("uid", name), queue, more.pop("created", self.now), pod_sets, **more)

    def submit(self, name: str, queue: str, gpus: int | dict[str, int] = 1, **more: Any) -> Workload:
        workload = self.workload(name, queue, gpus, **more)
        self.engine.apply(workload)
        self.engine.validate()
        return workload

    def run(self, name: str, queue: str, gpus: int | dict[str, int] = 1, **more: Any) -> None:
        """Submit, and see it admitted at once."""
        self.submit(name, queue, gpus, **more)
        assert name in admitted(self.cycle()), f"{name} was to run: {self.why(name)}"

    def cycle(self) -> Plan:
        self.now += SECOND
        plan = self.engine.cycle(self.now)
        self.engine.validate()
        return plan

    def settle(self) -> list[Plan]:
        """Cycles until nothing changes; victims leave between two of them."""
        plans: list[Plan] = []
        while self.engine.unsettled():
            plan = self.cycle()
            plans.append(plan)
            self.release(plan)
            assert len(plans) < 200, "does not settle"
        return plans

    def release(self, plan: Plan) -> None:
        self.engine.apply(*(Released(victim.key) for victim in plan.preemptions))
        self.engine.validate()

    def finish(self, *names: str) -> None:
        self.engine.apply(*(Finished(f"ns/{name}") for name in names))
        self.engine.validate()

    def amend(self, name: str, **changes: Any) -> None:
        self.engine.apply(replace(self.engine.items[f"ns/{name}"].workload, **changes))
        self.engine.validate()

    def running(self) -> set[str]:
        return {item.workload.name for item in self.engine.running()}

    def pending(self) -> set[str]:
        return {item.workload.name for item in self.engine.pending()}

    def free(self, name: str, flavor: str = "default", resource: str = GPU) -> int:
        """What the queue could take now, unclamped."""
        found = self.engine.forest.queues[name]
        self.engine.forest.settle(found)
        return found.available(self.engine.forest.frs.number(flavor, resource))

    def fr(self, flavor: str = "default", resource: str = GPU) -> int:
        return self.engine.forest.frs.number(flavor, resource)

    def queue(self, name: str) -> Any:
        found = self.engine.forest.queues[name]
        self.engine.forest.settle(found)
        return found

    def why(self, name: str) -> Any:
        return self.engine.explain(f"ns/{name}", self.now)


def admitted(plan: Plan) -> dict[str, dict[str, dict[str, str]]]:
    return {a.key.removeprefix("ns/"): {p.name: dict(p.flavors) for p in a.pod_sets} for a in plan.admissions}


def flavors(plan: Plan, name: str, resource: str = GPU) -> str:
    return admitted(plan)[name]["main"][resource]


def preempted(plan: Plan) -> dict[str, str]:
    return {p.key.removeprefix("ns/"): p.rule.value for p in plan.preemptions}


def passed(plan: Plan, name: str) -> Skipped:
    return next(p for p in plan.skipped if p.key == f"ns/{name}")
