"""What every controller of pods needs: which pods count, how one is made from a template, who goes first.

The functions are pure; `PodControl` makes and removes pods in the name of their owner, tells so in events, and claims
pods by label: a pod without a controller that the selector matches is adopted, one of ours that it no longer matches
is let go.
"""

import asyncio
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import ApiError, NotFound
from gpuaas.base.names import is_dns1123_subdomain
from gpuaas.base.numbers import integer
from gpuaas.base.selectors import IN, LabelSelector, Requirement, from_label_selector
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import PODS
from gpuaas.runtime.events import NORMAL, WARNING, Recorder
from gpuaas.runtime.metadata import (
    annotations_of,
    controller_of,
    controller_reference,
    is_deleting,
    labels_of,
    owners_of,
    uid_of,
)
from gpuaas.runtime.writes import namespace_is_ending

Pod = Mapping[str, Any]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ORPHANS = "orphans"  # an informer's index: pods without a controller, by namespace
NOTHING = LabelSelector((Requirement("", IN, ()),))
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


def phase_of(pod: Pod) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase


def is_finished(pod: Pod) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    return not is_finished(pod) and not is_deleting(pod)


def is_terminating(pod: Pod) -> bool:
    return not is_finished(pod) and is_deleting(pod)


def condition_of(obj: Mapping[str, Any], type: str) -> Object | None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == type:
            found: Object = condition
            return found
    return None


def is_ready(pod: Pod) -> bool:
    ready = condition_of(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def ready_since(pod: Pod) -> float | None:
    ready = condition_of(pod, "Ready")
    if ready is None or ready.get("status") != "True" or not ready.get("lastTransitionTime"):
        return None
    return parse_rfc3339(ready["lastTransitionTime"])


def is_available(pod: Pod, min_ready: int, now: float) -> bool:
    """Ready, and for long enough."""
    if not is_ready(pod):
        return False
    since = ready_since(pod)
    return min_ready == 0 or (since is not None and since + min_ready <= now)


def seconds_to_available(pods: Iterable[Pod], min_ready: int, now: float) -> float | None:
    """When to look again because a ready pod will have been ready for long enough; None if no pod waits for that."""
    waits = [since + min_ready - now for pod in pods if (since := ready_since(pod)) is not None]
    return min((wait for wait in waits if wait > 0), default=None)


def selector_of(obj: Mapping[str, Any]) -> LabelSelector:
    """`spec.selector`; one that is missing or empty selects nothing, so that no controller takes all pods there are."""
    return from_label_selector(obj["spec"].get("selector")) or NOTHING


def selects(
    obj: Mapping[str, Any],
    labels: Mapping[str, str],
    selector: Callable[[Mapping[str, Any]], LabelSelector] = selector_of,
) -> bool:
    """Whether an object with a selector concerns something with these labels. One whose selector cannot be read concerns
    nothing: its own reconcile sets it aside, and the news of others go on."""
    try:
        return selector(obj).matches(labels)
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


def orphan_index(pod: Pod) -> Iterable[str]:
    return () if controller_of(pod) is not None else (pod["metadata"].get("namespace") or "",)


def pod_from_template(template: Mapping[str, Any], owner: Mapping[str, Any], resource: Resource) -> Object:
    """A pod as its template says, owned by `owner`; the caller adds what makes this one special."""
    metadata = template.get("metadata") or {}
    made: Object = {"namespace": owner["metadata"]["namespace"]}
    for part in ("labels", "annotations"):
        if metadata.get(part):
            made[part] = dict(metadata[part])
    if metadata.get("finalizers"):
        made["finalizers"] = list(metadata["finalizers"])
    made["generateName"] = name_prefix(owner["metadata"]["name"])
    made["ownerReferences"] = [controller_reference(owner, resource)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": dict(template.get("spec") or {})}


def name_prefix(owner: str) -> str:
    prefix = f"{owner}-"
    return prefix if not is_dns1123_subdomain(f"{prefix}x") else owner


def deletion_order(pods: Sequence[Object], now: float, ranks: Mapping[str, int] | None = None) -> list[Object]:
    """Whom to delete first: who has come least far, costs least, shares its node, or is young.

    `ranks` says, by node, how many related pods run there.
    """
    ranks = ranks or {}

    def before(one: Object, two: Object) -> int:
        return _compare(one, two, now, ranks)

    return sorted(pods, key=functools.cmp_to_key(before))


def _compare(one: Object, two: Object, now: float, ranks: Mapping[str, int]) -> int:
    for measure in (_is_placed, _phase_order, is_ready, _deletion_cost):
        first, second = int(measure(one)), int(measure(two))
        if first != second:
            return first - second
    shared_one, shared_two = ranks.get(_node(one), 0), ranks.get(_node(two), 0)
    if shared_one != shared_two:
        return shared_two - shared_one
    ready_one, ready_two = ready_since(one), ready_since(two)
    if ready_one is not None and ready_two is not None and ready_one != ready_two:
        return _younger_first(one, two, now - ready_one, now - ready_two)
    if _restarts(one) != _restarts(two):
        return 1 if _restarts(one) < _restarts(two) else -1
    made_one, made_two = _created(one), _created(two)
    if made_one != made_two:
        return _younger_first(one, two, now - made_one, now - made_two)
    return 0


def _younger_first(one: Object, two: Object, age_one: float, age_two: float) -> int:
    """By the power of two of the age: among pods of about one age chance (the uid) decides, not the last minute."""
    log_one, log_two = _log(age_one), _log(age_two)
    if log_one != log_two:
        return log_one - log_two
    return -1 if uid_of(one) < uid_of(two) else 1


def _log(age: float) -> int:
    return int(math.log2(age * 1e9)) if age > 0 else -1


def _node(pod: Pod) -> str:
    node: str = pod["spec"].get("nodeName") or ""
    return node


def _is_placed(pod: Pod) -> bool:
    return bool(_node(pod))


def _phase_order(pod: Pod) -> int:
    return _PHASE_ORDER.get(phase_of(pod), 0)


def _deletion_cost(pod: Pod) -> int:
    return integer(annotations_of(pod).get(DELETION_COST, "0")) or 0


def _restarts(pod: Pod) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def _created(pod: Pod) -> float:
    return parse_rfc3339(pod["metadata"]["creationTimestamp"])


class PodControl:
    def __init__(self, client: Client, recorder: Recorder, resource: Resource) -> None:
        self._client = client
        self._recorder = recorder
        self._resource = resource

    async def create(self, owner: Mapping[str, Any], pod: Object) -> Object | None:
        """None where the namespace is ending; other failures are recorded in an event and raised."""
        try:
            made = await self._client.create(PODS, pod, owner["metadata"]["namespace"])
        except ApiError as error:
            if namespace_is_ending(error):
                return None
            self._recorder.event(self._resource, owner, WARNING, "FailedCreate", f"Error creating: {error.message}")
            raise
        name = made["metadata"]["name"]
        self._recorder.event(self._resource, owner, NORMAL, "SuccessfulCreate", f"Created pod: {name}")
        return made

    async def create_many(self, owner: Mapping[str, Any], pods: Sequence[Object]) -> int:
        """In batches of 1, 2, 4, …, so that what fails for one reason fails once. How many were made."""
        made, size = 0, 1
        while made < len(pods):
            batch = pods[made : made + size]
            results = await asyncio.gather(*(self.create(owner, pod) for pod in batch), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            made += len(batch)
            size *= 2
        return made

    async def delete(self, owner: Mapping[str, Any], pod: Pod) -> None:
        name = pod["metadata"]["name"]
        try:
            await self._client.delete(PODS, name, pod["metadata"]["namespace"], uid=uid_of(pod))
        except NotFound:
            return
        except ApiError as error:
            self._recorder.event(self._resource, owner, WARNING, "FailedDelete", f"Error deleting: {error.message}")
            raise
        self._recorder.event(self._resource, owner, NORMAL, "SuccessfulDelete", f"Deleted pod: {name}")

    async def claim(
        self,
        owner: Mapping[str, Any],
        selector: LabelSelector,
        pods: Iterable[Object],
        *,
        finalizer: str = "",
        accepts: Callable[[Object], bool] = lambda _: True,
    ) -> list[Object]:
        """Those of `pods` that are the owner's now; `accepts` narrows what the selector allows."""
        claimed: list[Object] = []
        may_adopt: bool | None = None
        for pod in pods:
            reference = controller_of(pod)
            fits = selector.matches(labels_of(pod)) and accepts(pod)
            if reference is not None:
                if reference["uid"] != uid_of(owner):
                    continue
                if fits:
                    claimed.append(pod)
                elif not is_deleting(owner):
                    await self._release(owner, pod, finalizer)
                continue
            if not fits or is_deleting(owner) or is_deleting(pod):
                continue
            if may_adopt is None:
                may_adopt = await self._still_wanted(owner)
            if may_adopt:
                claimed.append(await self._adopt(owner, pod, finalizer))
        return claimed

    async def _still_wanted(self, owner: Mapping[str, Any]) -> bool:
        """Asked of the server, not of the view: an owner that is being deleted must not take what it would keep."""
        metadata = owner["metadata"]
        try:
            latest = await self._client.get(self._resource, metadata["name"], metadata["namespace"])
        except NotFound:
            return False
        return uid_of(latest) == uid_of(owner) and not is_deleting(latest)

    async def _adopt(self, owner: Mapping[str, Any], pod: Object, finalizer: str) -> Object:
        references = [*owners_of(pod), controller_reference(owner, self._resource)]
        patch: Object = {"ownerReferences": references}
        if finalizer:
            patch["finalizers"] = [*(pod["metadata"].get("finalizers") or ()), finalizer]
        return await self._patch(pod, patch)

    async def _release(self, owner: Mapping[str, Any], pod: Object, finalizer: str) -> None:
        references = [one for one in owners_of(pod) if one["uid"] != uid_of(owner)]
        patch: Object = {"ownerReferences": references or None}
        finalizers = pod["metadata"].get("finalizers") or ()
        if finalizer in finalizers:
            patch["finalizers"] = [name for name in finalizers if name != finalizer] or None
        try:
            await self._patch(pod, patch)
        except NotFound:
            return

    async def _patch(self, pod: Object, metadata: Object) -> Object:
        expected = {"uid": uid_of(pod), "resourceVersion": pod["metadata"]["resourceVersion"]}
        return await self._client.patch(
            PODS, pod["metadata"]["name"], {"metadata": {**expected, **metadata}}, pod["metadata"]["namespace"]
        )
