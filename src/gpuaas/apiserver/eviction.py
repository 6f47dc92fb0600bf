"""Evictions: a pod goes only as far as its PodDisruptionBudget allows.

How many may go is in the budget's status, which its controller keeps; who evicts takes one of them at once, so that two
requests never spend the same one. Pods that do not serve anybody (not yet begun, over, already leaving) cost nothing.
"""

from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.apiserver import delete
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError, Forbidden, TooManyRequests
from gpuaas.base.selectors import from_label_selector

_GROUP, _PLURAL = "policy", "poddisruptionbudgets"
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_MOST_DISRUPTED = 2_000
_STILL_PROCESSED_SECONDS = 10


def evict(op: Operation, options: Object | None) -> Awaitable[Outcome]:
    pod = op.latest().obj
    budget = None if _costs_nothing(pod) else _budget_of(op, pod)
    if budget is not None and not _is_spare(pod, budget):
        _charge(op, budget)
    revision = ((options or {}).get("preconditions") or {}).get("resourceVersion")
    if not op.dry_run and not revision:
        op.cluster.put_quietly(op.key, _told(pod, rfc3339(op.cluster.clock.now())))
    return delete.delete(op, options)


def _costs_nothing(pod: Mapping[str, Any]) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _budget_of(op: Operation, pod: Mapping[str, Any]) -> Object | None:
    found = list(_budgets(op, pod["metadata"].get("labels") or {}))
    if len(found) > 1:
        words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        problem = ApiError(words)
        problem.reason = ""
        raise problem
    return found[0] if found else None


def _budgets(op: Operation, labels: Mapping[str, str]) -> Iterator[Object]:
    for entry in op.cluster.store.list(f"{_GROUP}/{_PLURAL}/{op.namespace}/"):
        latest = op.cluster.store.latest(entry.key)
        if latest is None:
            continue
        selector = from_label_selector((latest.obj.get("spec") or {}).get("selector"))
        if selector is not None and selector.matches(labels):
            yield latest.obj


def _is_spare(pod: Mapping[str, Any], budget: Mapping[str, Any]) -> bool:
    """A pod that is not ready, where enough others are, or where such pods may always go."""
    status = pod.get("status") or {}
    if any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ()):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    standing = budget.get("status") or {}
    return bool(standing.get("currentHealthy", 0) >= standing.get("desiredHealthy", 0) > 0)


def _charge(op: Operation, budget: Object) -> None:
    meta, status = budget["metadata"], budget.get("status") or {}
    name, allowed = meta["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _refusal(
            f"The disruption budget {name} is still being processed by the server.", _STILL_PROCESSED_SECONDS
        )
    if allowed < 0:
        raise Forbidden(_GROUP, "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise Forbidden(_GROUP, "poddisruptionbudget", name, why)
    if allowed == 0:
        desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _refusal(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    if op.dry_run:
        return
    gone = {**(status.get("disruptedPods") or {}), op.name: rfc3339(op.cluster.clock.now())}
    left = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": gone}
    op.cluster.put_quietly(f"{_GROUP}/{_PLURAL}/{op.namespace}/{name}", {**budget, "status": left})


def _refusal(why: str, seconds: int | None = None) -> TooManyRequests:
    return TooManyRequests(
        _REFUSED, details={"causes": [{"reason": "DisruptionBudget", "message": why}]}, retry_after=seconds
    )


def _told(pod: Object, now: str) -> Object:
    """The pod with the reason why it goes."""
    status = pod.get("status") or {}
    said = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    others = [each for each in status.get("conditions") or () if each["type"] != said["type"]]
    return {**pod, "status": {**status, "conditions": [*others, said]}}
