"""PodDisruptionBudget: how many of the pods it selects may be taken away now.

Only the status is kept here; that an eviction respects it is the API server's business. A pod that was evicted counts
as gone at once, and again as there if it is still alive two minutes later.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import ApiError, NotFound
from gpuaas.base.selectors import LabelSelector, from_label_selector
from gpuaas.client.protocol import Object
from gpuaas.client.resources import DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, REPLICA_SETS, STATEFUL_SETS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, controller_of, is_deleting, key_of, labels_of, uid_of
from gpuaas.runtime.pods import NOTHING, is_ready, selects
from gpuaas.runtime.values import scaled, without_zeros
from gpuaas.runtime.writes import write_status

DELETION_TIMEOUT = 120.0
CONDITION = "DisruptionAllowed"


@dataclass(frozen=True, slots=True)
class Count:
    expected: int
    desired: int


def count(budget: Mapping[str, Any], pods: int, scale: int) -> Count:
    """`scale` is how many pods the owners of the selected ones want."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        return Count(scale, max(0, scale - scaled(spec["maxUnavailable"], scale, round_up=True)))
    least = spec.get("minAvailable")
    if isinstance(least, str) and least.endswith("%"):
        return Count(scale, scaled(least, scale, round_up=True))
    return Count(pods, int(least or 0))


def needs_scale(budget: Mapping[str, Any]) -> bool:
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def still_disrupted(budget: Mapping[str, Any], pods: Sequence[Object], now: float) -> dict[str, str]:
    """Pods that were evicted and have some time left to go."""
    known = (budget.get("status") or {}).get("disruptedPods") or {}
    alive = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
    return {
        name: moment
        for name, moment in known.items()
        if name in alive and parse_rfc3339(moment) + DELETION_TIMEOUT >= now
    }


def decide_status(budget: Mapping[str, Any], pods: Sequence[Object], scale: int, now: float) -> Object:
    counted = count(budget, len(pods), scale)
    disrupted = still_disrupted(budget, pods, now)
    present = [pod for pod in pods if not is_deleting(pod) and pod["metadata"]["name"] not in disrupted]
    healthy = sum(map(is_ready, present))
    allowed = max(0, healthy - counted.desired) if counted.expected > 0 else 0
    generation = budget["metadata"].get("generation")
    reason = "SufficientPods" if allowed else "InsufficientPods"
    known = (budget.get("status") or {}).get("conditions") or ()
    fields = {
        "observedGeneration": generation,
        "disruptedPods": disrupted,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": counted.desired,
        "expectedPods": counted.expected,
        "conditions": with_condition(known, bool(allowed), reason, "", generation, now),
    }
    return without_zeros(fields, "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def with_condition(
    known: Sequence[Object], allowed: bool, reason: str, message: str, generation: int | None, now: float
) -> list[Object]:
    status = "True" if allowed else "False"
    before = next((one for one in known if one["type"] == CONDITION), None)
    moment = before["lastTransitionTime"] if before and before["status"] == status else rfc3339(now)
    condition = {
        "type": CONDITION,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }
    return [condition if one is before else one for one in known] if before else [*known, condition]


class DisruptionController(Controller):
    name = "disruption-controller"
    component = "controllermanager"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._discovery = deps.discovery
        self._budgets = self.follow(deps.informers.of(DISRUPTION_BUDGETS))
        self._pods = self.follow(deps.informers.of(PODS), self._concerned)
        self._scaled = {
            resource.kind: self.follow(deps.informers.of(resource), lambda _: ())
            for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
        }

    def _concerned(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        budgets = self._budgets.in_namespace(pod["metadata"].get("namespace") or "")
        return [key_of(budget) for budget in budgets if selects(budget, labels_of(pod), _selector)]

    async def reconcile(self, key: Key) -> Requeue | None:
        budget = self._budgets.get(*key)
        if budget is None:
            return None
        now = self.clock.now()
        pods = [pod for pod in self._pods.in_namespace(key.namespace) if _selector(budget).matches(labels_of(pod))]
        if not pods:
            self.recorder.event(DISRUPTION_BUDGETS, budget, NORMAL, "NoPods", "No matching pods found")
        try:
            scale = await self._scale(pods, key.namespace) if needs_scale(budget) else 0
        except ApiError as error:
            await self._fail(budget, error.message, now)
            return None
        await write_status(self.client, DISRUPTION_BUDGETS, budget, decide_status(budget, pods, scale, now))
        ends = [parse_rfc3339(moment) + DELETION_TIMEOUT for moment in still_disrupted(budget, pods, now).values()]
        return Requeue(max(0.0, min(ends) - now) + 0.001) if ends else None

    async def _fail(self, budget: Object, message: str, now: float) -> None:
        """When it cannot be known how many pods there should be, none may go."""
        text = f"Failed to calculate the number of expected pods: {message}"
        self.recorder.event(DISRUPTION_BUDGETS, budget, WARNING, "CalculateExpectedPodCountFailed", text)
        status = dict(budget.get("status") or {})
        counts = {part: status.get(part, 0) for part in ("currentHealthy", "desiredHealthy", "expectedPods")}
        known, generation = status.get("conditions") or (), status.get("observedGeneration", 0)
        conditions = with_condition(known, False, "SyncFailed", message, generation, now)
        failed = {**status, **counts, "disruptionsAllowed": 0, "conditions": conditions}
        await write_status(self.client, DISRUPTION_BUDGETS, budget, failed)

    async def _scale(self, pods: Sequence[Object], namespace: str) -> int:
        """The sum of what the different owners want."""
        wanted: dict[str, int] = {}
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                continue
            found = await self._owner_scale(reference, namespace)
            if found is None:
                raise ApiError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
            wanted[found[0]] = found[1]
        return sum(wanted.values())

    async def _owner_scale(self, reference: Object, namespace: str) -> tuple[str, int] | None:
        informer = self._scaled.get(reference["kind"])
        if informer is None:
            return await self._asked_scale(reference, namespace)
        owner = informer.get(namespace, reference["name"])
        if owner is None or uid_of(owner) != reference["uid"]:
            return None
        above = controller_of(owner)
        if above is not None and above["kind"] == "Deployment" and reference["kind"] == "ReplicaSet":
            return await self._owner_scale(above, namespace)
        replicas = owner["spec"].get("replicas")
        return uid_of(owner), 1 if replicas is None else int(replicas)

    async def _asked_scale(self, reference: Object, namespace: str) -> tuple[str, int] | None:
        group = reference["apiVersion"].rpartition("/")[0]
        for one in await self._discovery.resources():
            if (one.resource.group, one.resource.kind) != (group, reference["kind"]):
                continue
            scale: Object = {}
            with contextlib.suppress(NotFound):
                scale = await self.client.get(one.resource, reference["name"], namespace, subresource="scale")
            if scale.get("kind") != "Scale":
                raise ApiError(f"{one.resource} does not implement the scale subresource")
            return uid_of(scale), int((scale.get("spec") or {}).get("replicas") or 0)
        return None


def _selector(budget: Mapping[str, Any]) -> LabelSelector:
    selector = from_label_selector(budget["spec"].get("selector"))
    return NOTHING if selector is None else selector  # an empty one selects all
