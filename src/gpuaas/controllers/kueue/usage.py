"""Admission fair sharing: samples of what LocalQueues use, taken while the configuration asks for them.

What a queue has consumed stands in its status, so that a restart goes on from there. The arithmetic and who goes first
are the engine's.
"""

import asyncio
from collections.abc import Callable

from gpuaas.base.clock import Clock, rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.base.quantity import NANO, Quantity, parse_quantity
from gpuaas.client.kueue import LOCAL_QUEUES
from gpuaas.client.protocol import Client, Object
from gpuaas.engine.engine import Engine
from gpuaas.kueue.quotas import cluster_queue_named
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
        self._news = asyncio.Event()
        self._sampled = 0.0
        local_queues.subscribe(self._seen)

    def reconfigured(self) -> None:
        self._sampled = self._clock.now()
        self._news.set()

    def _seen(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and _recorded_usage(new) is None:
            self._news.set()

    async def run(self) -> None:
        """Until cancelled; begins when the LocalQueues are known."""
        self._sampled = self._clock.now()
        while True:
            self._news.clear()
            usage = self._engine.config.usage_sharing
            if usage is None:
                await self._news.wait()
                continue
            self._take_up()
            await self._tell_all(untold=True)
            left = self._sampled + usage.sampling / 1000 - self._clock.now()
            timer = asyncio.ensure_future(self._clock.sleep(max(0.0, left)))
            news = asyncio.ensure_future(self._news.wait())
            await asyncio.wait((timer, news), return_when=asyncio.FIRST_COMPLETED)
            due = timer.done()
            timer.cancel()
            news.cancel()
            if due:
                await self._sample()

    def _take_up(self) -> None:
        """What queues consumed before this process began counts on; for the others counting begins."""
        ledger, now = self._engine.ledger, self._millis()
        if ledger is None:
            return
        for obj in self._local_queues.all():
            recorded, key = _recorded_usage(obj), _key(obj)
            if not ledger.knows(key):
                amounts = ((recorded or {}).get("consumedResources") or {}).items()
                ledger.load(key, {name: parse_quantity(amount).nano / 1e9 for name, amount in amounts}, now)

    async def _sample(self) -> None:
        self._sampled = self._clock.now()
        self._engine.sample_usage(self._millis())
        self._changed()
        await self._tell_all(untold=False)

    async def _tell_all(self, *, untold: bool) -> None:
        """Every usable queue gets the status, whether or not its ClusterQueue uses it yet."""
        for obj in self._local_queues.all():
            queue = self._engine.forest.queues.get(cluster_queue_named(obj))
            if queue is not None and queue.inactive is None and not (untold and _recorded_usage(obj) is not None):
                await self._tell(obj)

    async def _tell(self, obj: Object) -> None:
        ledger = self._engine.ledger
        if ledger is None:
            return
        amounts = ledger.consumed(_key(obj))
        consumed = {name: str(Quantity(round(amounts[name] * NANO), "decimal")) for name in sorted(amounts)}
        sample = {"consumedResources": consumed, "lastUpdate": rfc3339(self._clock.now())}
        status = obj.get("status") or {}
        sharing = {"weightedShare": 0, **(status.get("fairSharing") or {}), "admissionFairSharingStatus": sample}
        try:
            await write_status(self._client, LOCAL_QUEUES, obj, {**status, "fairSharing": sharing})
        except ApiError:
            return  # written meanwhile, or gone: the next sample corrects it

    def _millis(self) -> int:
        return round(self._clock.now() * 1000)


def _recorded_usage(obj: Object) -> Object | None:
    found: Object | None = ((obj.get("status") or {}).get("fairSharing") or {}).get("admissionFairSharingStatus")
    return found


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
