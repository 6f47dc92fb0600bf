"""One Placement against the fleet: filter, score, choose, divide, and the conditions that say how it went.

Follows upstream's `Schedule` and `syncPlacement` step by step. A misconfigured Placement chooses nothing: its decisions
become empty, as upstream's do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpuaas.placement import eligible, groups, predicates, prioritizers, taints
from gpuaas.placement.groups import Group
from gpuaas.placement.predicates import CompileCel
from gpuaas.placement.prioritizers import MisconfiguredError, Round, Weighed
from gpuaas.placement.values import Cluster, Fleet, Object

DISABLED = "cluster.open-cluster-management.io/experimental-scheduling-disable"


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a Placement comes to. `clusters` are in order of their total score, best first: PlacementDecisions sort by
    name, so a dispatcher that wants the order reads it here. `rejected` says for a cluster that was eligible and not
    chosen which step left it out."""

    clusters: tuple[str, ...]
    groups: tuple[Group, ...]
    conditions: tuple[Condition, ...]
    totals: dict[str, int] = field(default_factory=dict)
    weighed: tuple[Weighed, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)
    look_again: datetime | None = None


@dataclass(slots=True)
class _Outcome:
    """What the pipeline has come to so far."""

    chosen: list[Cluster] = field(default_factory=list)
    unscheduled: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    weighed: tuple[Weighed, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)
    plugin: str = ""
    problem: str | None = None


def disabled(placement: Object) -> bool:
    """Whether an annotation keeps the Placement as it is; one that is being deleted is left alone too."""
    metadata = placement["metadata"]
    return "deletionTimestamp" in metadata or (metadata.get("annotations") or {}).get(DISABLED) == "true"


def schedule(placement: Object, fleet: Fleet, now: datetime, compile_cel: CompileCel) -> Result:
    spec: Object = placement.get("spec") or {}
    key = (placement["metadata"].get("namespace", ""), placement["metadata"]["name"])
    bound = eligible.bound_sets(fleet, key[0])
    sets = eligible.eligible_sets(bound, spec.get("clusterSets") or ())
    available = eligible.members(fleet, sets)
    outcome = _Outcome()
    _run(spec, Round(key, available, fleet, now), compile_cel, outcome)
    try:
        strategy = (spec.get("decisionStrategy") or {}).get("groupStrategy") or {}
        divided = groups.divide(strategy, outcome.chosen, fleet)
    except ValueError as error:
        divided = []
        outcome.plugin, outcome.problem = "", str(error)
    satisfied = _satisfied(spec, sets, len(bound), len(available), outcome)
    return Result(
        tuple(cluster.name for cluster in outcome.chosen),
        tuple(divided),
        (_misconfigured(outcome), satisfied),
        outcome.totals,
        outcome.weighed,
        outcome.rejected,
        _look_again(spec, key, outcome, fleet, now),
    )


def _run(spec: Object, around: Round, compile_cel: CompileCel, outcome: _Outcome) -> None:
    """Fills `outcome`; stops at the first step that finds the Placement misconfigured."""
    # 1. Filter by predicates, then by taints. A filter with nothing to filter does not look at its configuration.
    feasible = list(around.clusters)
    if feasible and (wanted := spec.get("predicates") or ()):
        try:
            selectors = predicates.compile_predicates(wanted, compile_cel)
        except ValueError as error:
            outcome.plugin, outcome.problem = "Predicate", str(error)
            return
        kept = [c for c in feasible if any(selector.matches(c, around.fleet) for selector in selectors)]
        _reject(outcome, feasible, kept, "no predicate matches")
        feasible = kept
    if feasible:
        tolerations = spec.get("tolerations") or ()
        if problem := taints.misconfigured(tolerations):
            outcome.plugin, outcome.problem = "TaintToleration", problem
            return
        chosen = set(around.fleet.decided.get(around.key, ()))
        kept = [c for c in feasible if taints.tolerated(c, tolerations, chosen=c.name in chosen, now=around.now)]
        _reject(outcome, feasible, kept, "a taint is not tolerated")
        feasible = kept
    # 2. Score what is left; the total is the weighted sum.
    try:
        weighed = prioritizers.weigh(
            spec.get("prioritizerPolicy") or {}, Round(around.key, feasible, around.fleet, around.now)
        )
    except MisconfiguredError as error:
        outcome.problem = str(error)
        return
    totals = {c.name: sum(w.scores.get(c.name, 0) * w.weight for w in weighed) for c in feasible}
    # 3. Choose the best; equal totals go by name.
    ranked = sorted(feasible, key=lambda c: (-totals[c.name], c.name))
    number = spec.get("numberOfClusters")
    outcome.chosen = ranked if number is None else ranked[: int(number)]
    outcome.unscheduled = 0 if number is None else int(number) - len(outcome.chosen)
    outcome.totals, outcome.weighed = totals, tuple(weighed)
    _reject(outcome, ranked, outcome.chosen, "others have a higher score")


def _reject(outcome: _Outcome, before: list[Cluster], kept: list[Cluster], why: str) -> None:
    names = {cluster.name for cluster in kept}
    outcome.rejected.update((c.name, why) for c in before if c.name not in names)


def _look_again(spec: Object, key: tuple[str, str], outcome: _Outcome, fleet: Fleet, now: datetime) -> datetime | None:
    """When the decision may change though no object does: a toleration of a chosen cluster or a score runs out."""
    tolerations = spec.get("tolerations") or ()
    ends = [
        taints.tolerated_until(fleet.clusters[name], tolerations, chosen=True, now=now)
        for name in {*fleet.decided.get(key, ()), *(c.name for c in outcome.chosen)}
        if name in fleet.clusters
    ]
    used = {w.name.split("/")[1] for w in outcome.weighed if w.name.startswith("AddOn/")}
    ends += [
        score.valid_until
        for (cluster, resource), score in fleet.scores.items()
        if resource in used and cluster in outcome.totals and score.valid_until and score.valid_until > now
    ]
    return min((end for end in ends if end is not None), default=None)


def _misconfigured(outcome: _Outcome) -> Condition:
    if outcome.problem is None:
        return Condition("PlacementMisconfigured", "False", "Succeedconfigured", "Placement configurations check pass")
    return Condition("PlacementMisconfigured", "True", "Misconfigured", f"{outcome.plugin}:{outcome.problem}")


def _satisfied(spec: Object, sets: list[str], bound: int, available: int, outcome: _Outcome) -> Condition:
    def no(reason: str, message: str) -> Condition:
        return Condition("PlacementSatisfied", "False", reason, message)

    wanted: list[Any] = list(spec.get("clusterSets") or ())
    if not bound:
        return no("NoManagedClusterSetBindings", "No valid ManagedClusterSetBindings found in placement namespace")
    if not sets:
        named = ",".join(wanted)
        return no("NoIntersection", f"None of ManagedClusterSets [{named}] is bound to placement namespace")
    if not available:
        named = ",".join(sets)
        return no("AllManagedClusterSetsEmpty", f"All ManagedClusterSets [{named}] have no member ManagedCluster")
    if not outcome.chosen:
        return no("NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
    if not outcome.unscheduled:
        return Condition("PlacementSatisfied", "True", "AllDecisionsScheduled", "All cluster decisions scheduled")
    return no("NotAllDecisionsScheduled", f"{outcome.unscheduled} cluster decisions unscheduled")
