"""The worker's side of a hub's Lease: tokens are issued, and what a silent hub has sent is stopped in time.

Expiry is judged before a new token is issued, so that a hub that comes back after its Lease ran out, or a worker that does,
first sees the old work stopped. See `kueue.multikueue.leases` for why this keeps a workload from running twice.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.errors import Conflict, NotFound
from gpuaas.client.kueue import CONFIGURATION_NAMESPACE, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import LEASES
from gpuaas.kueue.integrations.keys import MULTIKUEUE_ORIGIN
from gpuaas.kueue.integrations.outcome import is_finished, with_condition
from gpuaas.kueue.multikueue import leases
from gpuaas.kueue.multikueue.names import LEASE
from gpuaas.kueue.workload_state import holds
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.metadata import Key, annotations_of, key_of, labels_of
from gpuaas.runtime.writes import write_status

_BY_LEASE = "hub-lease"


class HubLeaseController(Controller):
    name = "multikueue-hub-leases"
    component = "multikueue-worker"

    def __init__(self, deps: Deps, namespace: str = CONFIGURATION_NAMESPACE, *, restored: bool = False) -> None:
        """`restored`: the store is older than what this cluster has been before. What hubs have sent according to it may
        run elsewhere by now, however young their Leases look: it is stopped, and hubs send it again."""
        super().__init__(deps)
        self._distrusted: set[Key] | None = set() if restored else None
        self._namespace = namespace
        of = deps.informers.of
        self._leases = self.follow(of(LEASES), self._ours)
        self._workloads = self.follow(of(WORKLOADS), self._lease_keys, by=_lease_named)
        self._workloads.add_index(_BY_LEASE, lambda workload: [_lease_named(workload)])

    def _ours(self, lease: Mapping[str, Any]) -> Iterable[Key]:
        return (key_of(lease),) if leases.is_lease(lease) else ()

    def _lease_keys(self, workload: Mapping[str, Any]) -> Iterable[Key]:
        name = _lease_named(workload)
        return (Key(self._namespace, name),) if name else ()

    async def reconcile(self, key: Key) -> Requeue | None:
        lease = self._leases.get(*key)
        if lease is not None and (not leases.is_lease(lease) or key.namespace != self._namespace):
            return None
        now = self.clock.now()
        until = leases.valid_until(lease) if lease is not None else 0.0
        if self._distrusted is not None and key not in self._distrusted:
            until = 0.0
        if until <= now and (lease is None or leases.echo_of(lease)):
            for workload in self._workloads.indexed(_BY_LEASE, key.name):
                await self._stop(workload, now)
        if self._distrusted is not None:
            self._distrusted.add(key)
        if lease is None:
            return None
        if leases.token_of(lease) in ("", leases.echo_of(lease)):
            await self._issue(lease, now)
            return None
        return Requeue(until - now) if until > now else None

    async def _issue(self, lease: Object, now: float) -> None:
        """A new token, later than all before it."""
        meta = lease["metadata"]
        known = leases.token_of(lease)
        token = max(now, float(known or 0) + 0.000001) if _is_number(known) else now
        patch = {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "annotations": {leases.TOKEN: f"{token:.6f}"},
            }
        }
        try:
            await self.client.patch(LEASES, meta["name"], patch, meta["namespace"])
        except (NotFound, Conflict):
            return

    async def _stop(self, workload: Object, now: float) -> None:
        if is_finished(workload) or holds(workload, "DeactivationTarget") or not workload["spec"].get("active", True):
            return
        words = "the hub that sent it has not been heard of in time, and may send it elsewhere"
        status = with_condition(workload, "DeactivationTarget", True, leases.EXPIRED, words, now)
        await write_status(self.client, WORKLOADS, workload, status)
        self.recorder.event(WORKLOADS, workload, WARNING, leases.EXPIRED, f"Stopped: {words}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _lease_named(workload: Mapping[str, Any]) -> str:
    """Empty for what no hub has sent."""
    return annotations_of(workload).get(LEASE, "") if MULTIKUEUE_ORIGIN in labels_of(workload) else ""
