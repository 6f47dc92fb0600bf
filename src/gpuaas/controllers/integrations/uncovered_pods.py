"""Ends pods that went on after their quota was given back, where every pod needs quota.

A pod gets a node only within what its workload holds. Quota can go while pods stay: the job is deleted without its
pods, a reference or label is taken off them so that their owner forgets them, the job shrinks. The controller that made the pods
has a while to end them; those left then are deleted, the newest first, and none may take longer to go than a limit.
A key is the workload that the server noted on the pods when it bound them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import Conflict, NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.coverage import account_of
from gpuaas.kueue.integrations.pods import has_ended
from gpuaas.kueue.integrations.slices import slice_name
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.metadata import Key, is_deleting, uid_of

PATIENCE: Final = 30.0
"""Seconds in which the controller that made the pods may end them."""
LONGEST_GRACE: Final = 600
"""Seconds that a pod without quota may take to go."""
BY_ACCOUNT: Final = "account"


class UncoveredPods(Controller):
    name = "uncovered-pods"
    component = "kueue-uncovered-pods"

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps)
        self._quota = deps.quota
        self._since: dict[Key, float] = {}
        self._pods = self.follow(deps.informers.of(PODS), _account)
        self._pods.add_index(BY_ACCOUNT, lambda pod: map(str, _account(pod)))
        self.follow(deps.informers.of(WORKLOADS), _workload)

    async def reconcile(self, key: Key) -> Requeue | None:
        quota = self._quota
        if quota is None or not quota.is_overdrawn(*key) or not quota.must_cover(key.namespace):
            self._since.pop(key, None)
            return None
        now = self.clock.now()
        left = self._since.setdefault(key, now) + PATIENCE - now
        if left > 0:
            return Requeue(left)
        pods = {uid_of(pod): pod for pod in self._pods.indexed(BY_ACCOUNT, str(key))}
        for uid in quota.excess(*key, sorted(pods, key=lambda each: _order(pods[each]))):
            await self._end(pods[uid], now)
        return Requeue(PATIENCE)

    async def _end(self, pod: Object, now: float) -> None:
        metadata, grace = pod["metadata"], None
        if is_deleting(pod):
            if parse_rfc3339(metadata["deletionTimestamp"]) - now <= LONGEST_GRACE:
                return
            grace = LONGEST_GRACE
        elif (pod["spec"].get("terminationGracePeriodSeconds") or 0) > LONGEST_GRACE:
            grace = LONGEST_GRACE
        try:
            await self.client.delete(PODS, metadata["name"], metadata["namespace"], uid=uid_of(pod), grace=grace)
        except (Conflict, NotFound):
            return
        if not is_deleting(pod):
            words = "No admitted workload covers this pod any more: its quota was given back"
            self.recorder.event(PODS, pod, WARNING, "QuotaGivenBack", words)


def _order(pod: Object) -> tuple[bool, float, str]:
    """Those already leaving first, then the newest."""
    return not is_deleting(pod), -parse_rfc3339(pod["metadata"]["creationTimestamp"]), pod["metadata"]["name"]


def _account(pod: Mapping[str, Any]) -> Iterable[Key]:
    found = account_of(pod) if pod["spec"].get("nodeName") and not has_ended(pod) else None
    return () if found is None else (Key(*found),)


def _workload(workload: Mapping[str, Any]) -> Iterable[Key]:
    return (Key(workload["metadata"].get("namespace", ""), slice_name(workload)),)
