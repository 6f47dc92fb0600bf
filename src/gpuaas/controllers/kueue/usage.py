"""Admission fair sharing: samples of what LocalQueues use, taken while the configuration asks for them.

What a queue has consumed stands in its status, so that a restart goes on from there. The arithmetic and who goes first
are the engine's.
"""

import asyncio
from collections.abc import Callable, Iterable

from gpuaas.admission.quotas import cluster_queue_named
from gpuaas.base.clock import Clock, rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.base.quantity import from_milli, parse_quantity
from gpuaas.client.kueue import LOCAL_QUEUES
from gpuaas.client.protocol import Client, Object
from gpuaas.engine.engine import Engine
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.writes import write_status


class UsageSampling:
    def __init__(
        self, client: Client, local_queues: Informer, engine: Engine, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._local_queues = local_queues
        self._engine = engine
        self._clock = clock
        self._changed = changed
        self._configured = asyncio.Event()

    def reconfigured(self) -> None:
        self._configured.set()

    async def run(self) -> None:
        """Until cancelled; begins when the LocalQueues are known."""
        while True:
            self._configured.clear()
            usage = self._engine.config.usage_sharing
            if usage is None:
                await self._configured.wait()
                continue
            self._take_up()
            timer = asyncio.ensure_future(self._clock.sleep(usage.sampling / 1000))
            news = asyncio.ensure_future(self._configured.wait())
            await asyncio.wait((timer, news), return_when=asyncio.FIRST_COMPLETED)
            due = timer.done()
            timer.cancel()
            news.cancel()
            if due:
                await self._sample()

    def _take_up(self) -> None:
        """What queues consumed before this process began counts on."""
        ledger, now = self._engine.ledger, self._millis()
        if ledger is None:
            return
        for obj in self._local_queues.all():
            told = ((obj.get("status") or {}).get("fairSharing") or {}).get("admissionFairSharingStatus")
            key = _key(obj)
            if told and not ledger.knows(key):
                amounts = (told.get("consumedResources") or {}).items()
                ledger.load(key, {name: parse_quantity(amount).nano / 1e9 for name, amount in amounts}, now)

    async def _sample(self) -> None:
        self._engine.sample_usage(self._millis())
        self._changed()
        for obj in self._local_queues.all():
            queue = self._engine.forest.queues.get(cluster_queue_named(obj))
            if queue is not None and queue.inactive is None:
                covered = {resource for group in queue.spec.groups for resource in group.resources}
                await self._tell(obj, covered)

    async def _tell(self, obj: Object, covered: Iterable[str]) -> None:
        """Every queue is told, whether or not its ClusterQueue goes by it yet; nothing consumed is zero, not silence."""
        ledger = self._engine.ledger
        if ledger is None:
            return
        amounts = {**dict.fromkeys(covered, 0.0), **ledger.consumed(_key(obj))}
        consumed = {name: str(from_milli(round(amounts[name] * 1000))) for name in sorted(amounts)}
        told = {"consumedResources": consumed, "lastUpdate": rfc3339(self._clock.now())}
        status = obj.get("status") or {}
        sharing = {"weightedShare": 0, **(status.get("fairSharing") or {}), "admissionFairSharingStatus": told}
        try:
            await write_status(self._client, LOCAL_QUEUES, obj, {**status, "fairSharing": sharing})
        except ApiError:
            return  # somebody wrote it meanwhile, or it is gone: the next sample tells

    def _millis(self) -> int:
        return round(self._clock.now() * 1000)


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
