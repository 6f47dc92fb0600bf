"""What a stateful set does next: one thing at a time where it keeps order, all at once where it does not.

The order: replace pods that ended, make missing ones from the lowest ordinal, wait for each to be available, remove
superfluous ones from the highest, and only then update from the highest down to the partition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuaas.client.protocol import Object
from gpuaas.controllers.stateful_sets.identity import in_range, ordinal_of, replicas_of, revision_of, start_of
from gpuaas.runtime.metadata import is_deleting
from gpuaas.runtime.pods import is_available, is_finished, is_ready, phase_of
from gpuaas.runtime.values import without_zeros


@dataclass(slots=True)
class Plan:
    create: list[int] = field(default_factory=list)  # ordinals
    delete: list[Object] = field(default_factory=list)
    updating: int = 0  # of those deleted, how many for an update


@dataclass(frozen=True, slots=True)
class Situation:
    stateful_set: Mapping[str, Any]
    pods: Sequence[Object]
    current: str  # names of revisions
    update: str
    now: float

    @property
    def in_order(self) -> bool:
        return bool(self.stateful_set["spec"].get("podManagementPolicy", "OrderedReady") != "Parallel")

    @property
    def min_ready(self) -> int:
        return int(self.stateful_set["spec"].get("minReadySeconds") or 0)

    def replicas(self) -> dict[int, Object | None]:
        """By ordinal, the pod that is there, lowest first."""
        start = start_of(self.stateful_set)
        there = {ordinal_of(pod): pod for pod in self.pods}
        return {ordinal: there.get(ordinal) for ordinal in range(start, start + replicas_of(self.stateful_set))}

    def condemned(self) -> list[Object]:
        """Pods beyond the range, highest first."""
        beyond = [pod for pod in self.pods if not in_range(self.stateful_set, pod) and ordinal_of(pod) >= 0]
        return sorted(beyond, key=ordinal_of, reverse=True)

    def is_available(self, pod: Object | None) -> bool:
        return pod is not None and is_available(pod, self.min_ready, self.now) and not is_deleting(pod)


def decide(situation: Situation) -> Plan:
    plan = Plan()
    if is_deleting(situation.stateful_set):
        return plan
    if _fill(situation, plan) or _shrink(situation, plan):
        return plan
    _update(situation, plan)
    return plan


def _fill(situation: Situation, plan: Plan) -> bool:
    """True when nothing else may happen now."""
    for ordinal, pod in situation.replicas().items():
        busy = False
        if pod is None:
            plan.create.append(ordinal)
            busy = True
        elif is_finished(pod):
            if not is_deleting(pod):
                plan.delete.append(pod)
            busy = True
        elif not situation.is_available(pod) or phase_of(pod) != "Running":
            busy = True
        if busy and situation.in_order:
            return True
    return False


def _shrink(situation: Situation, plan: Plan) -> bool:
    condemned = situation.condemned()
    first_sick = _first_unavailable(situation, condemned)
    for pod in condemned:
        if is_deleting(pod):
            if situation.in_order:
                return True
            continue
        if situation.in_order and pod is not first_sick and not (is_ready(pod) and situation.is_available(pod)):
            return True
        plan.delete.append(pod)
        if situation.in_order:
            return True
    return bool(condemned) and situation.in_order


def _update(situation: Situation, plan: Plan) -> None:
    strategy = situation.stateful_set["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    replicas = list(situation.replicas().values())
    for pod in reversed(replicas[partition:]):
        if pod is None:
            return
        if revision_of(pod) != situation.update and not is_deleting(pod):
            plan.delete.append(pod)
            plan.updating += 1
            return
        if not situation.is_available(pod):
            return


def uses_current(situation: Situation, ordinal: int) -> bool:
    """Whether a new pod of this ordinal is still of the current revision, not of the update."""
    strategy = situation.stateful_set["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return False
    start = start_of(situation.stateful_set)
    rolling = strategy.get("rollingUpdate")
    if rolling is None:
        return bool(ordinal < start + (situation.stateful_set.get("status") or {}).get("currentReplicas", 0))
    return bool(ordinal < start + (rolling.get("partition") or 0))


def decide_status(situation: Situation, collisions: int, updating: int) -> Object:
    stateful_set, pods = situation.stateful_set, situation.pods
    staying = [pod for pod in pods if not is_deleting(pod)]
    ready = [pod for pod in pods if phase_of(pod) == "Running" and is_ready(pod)]
    status = {
        "observedGeneration": stateful_set["metadata"].get("generation"),
        "replicas": len(pods),
        "readyReplicas": len(ready),
        "currentReplicas": sum(revision_of(pod) == situation.current for pod in staying) - updating,
        "updatedReplicas": sum(revision_of(pod) == situation.update for pod in staying),
        "currentRevision": situation.current,
        "updateRevision": situation.update,
        "collisionCount": collisions,
        "availableReplicas": sum(is_available(pod, situation.min_ready, situation.now) for pod in ready),
    }
    size = replicas_of(stateful_set)
    rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    if rolling and status["updatedReplicas"] == status["readyReplicas"] == status["replicas"] == size:
        status["currentReplicas"] = size
        status["currentRevision"] = situation.update
    return without_zeros(status, "replicas", "availableReplicas", "collisionCount")


def _first_unavailable(situation: Situation, condemned: Sequence[Object]) -> Object | None:
    for pod in (*situation.replicas().values(), *reversed(condemned)):
        if pod is not None and not situation.is_available(pod):
            return pod
    return None
