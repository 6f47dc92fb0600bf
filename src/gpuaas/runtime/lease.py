"""Leadership by a Lease: of several holders of one name only one works at a time.

As client-go does it: the lease is taken when it has no holder or when the holder's renewal has not changed for the
lease's duration, measured by our own clock (other machines' clocks are not trusted). Losing it is final: `hold`
returns, and the caller stops its work.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpuaas.base.clock import Clock, rfc3339_micro
from gpuaas.base.errors import AlreadyExists, ApiError, Conflict, NotFound
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import LEASES


@dataclass(slots=True)
class LeaseHolder:
    client: Client
    clock: Clock
    namespace: str
    name: str
    identity: str
    duration: int = 15
    renew_within: float = 10.0
    retry: float = 2.0
    _seen: tuple[str, str] = ("", "")
    _seen_at: float = 0.0

    async def acquire(self) -> None:
        """Returns when the lease is ours."""
        while not await self.try_once():
            await self.clock.sleep(self.retry)

    async def hold(self) -> None:
        """Renew for as long as possible; returns when the lease is lost."""
        deadline = self.clock.monotonic() + self.renew_within
        while self.clock.monotonic() < deadline:
            if await self.try_once():
                deadline = self.clock.monotonic() + self.renew_within
            await self.clock.sleep(self.retry)

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Acquire, then do `work` until it ends or the lease is lost."""
        await self.acquire()
        working = asyncio.ensure_future(work())
        holding = asyncio.ensure_future(self.hold())
        try:
            await asyncio.wait({working, holding}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, holding):
                task.cancel()
            await asyncio.gather(working, holding, return_exceptions=True)

    async def try_once(self) -> bool:
        """One attempt to take or to renew; False when another holds it or the server did not answer."""
        try:
            lease = await self.client.get(LEASES, self.name, self.namespace)
        except NotFound:
            return await self._create()
        except (ApiError, OSError):
            return False
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder and holder != self.identity and not self._has_lapsed(holder, spec):
            return False
        return await self._take(lease, holder)

    def _has_lapsed(self, holder: str, spec: Object) -> bool:
        observed = (holder, spec.get("renewTime") or "")
        if observed != self._seen:
            self._seen, self._seen_at = observed, self.clock.monotonic()
        return self.clock.monotonic() - self._seen_at >= (spec.get("leaseDurationSeconds") or self.duration)

    async def _create(self) -> bool:
        now = rfc3339_micro(self.clock.now())
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self._spec(acquired=now, renewed=now, transitions=0),
        }
        try:
            await self.client.create(LEASES, lease, self.namespace)
        except (AlreadyExists, OSError):
            return False
        return True

    async def _take(self, lease: Object, holder: str) -> bool:
        now = rfc3339_micro(self.clock.now())
        old = lease.get("spec") or {}
        ours = holder == self.identity
        acquired = old.get("acquireTime") or now if ours else now
        transitions = int(old.get("leaseTransitions") or 0) + (0 if ours else 1)
        spec = self._spec(acquired=acquired, renewed=now, transitions=transitions)
        try:
            await self.client.update(LEASES, {**lease, "spec": {**old, **spec}}, self.namespace)
        except (Conflict, NotFound, OSError):
            return False
        return True

    def _spec(self, *, acquired: str, renewed: str, transitions: int) -> Object:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.duration,
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": transitions,
        }
