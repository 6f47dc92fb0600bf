"""All worker clusters of a hub, by name: made from kubeconfigs, run, replaced and let go.

A new kubeconfig gets a connection of its own; the one before it stays in use until the new one stands.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gpuaas.base.clock import Clock
from gpuaas.client.kubeconfig import Access
from gpuaas.client.protocol import Client
from gpuaas.fleet.multikueue.lease_renewal import LeaseRenewal
from gpuaas.fleet.multikueue.worker import Follows, RemoteEvent, Worker

Dial = Callable[[Access], Client]


@dataclass(slots=True)
class _Held:
    worker: Worker
    task: "asyncio.Task[None]"
    close: Callable[[], object] | None


class Workers:
    def __init__(
        self,
        clock: Clock,
        dial: Dial,
        follows: Callable[[], Follows],
        lease: Callable[[Client], LeaseRenewal | None] = lambda _: None,
        *,
        strict: bool = False,
    ) -> None:
        self._lease = lease
        self._clock = clock
        self._dial = dial
        self._follows = follows
        self._strict = strict
        self._held: dict[str, _Held] = {}
        self._next: dict[str, _Held] = {}
        self._gone: dict[str, float] = {}
        self._on_news: list[Callable[[RemoteEvent], None]] = []
        self._on_change: list[Callable[[str], None]] = []

    def subscribe(
        self,
        event: Callable[[RemoteEvent], None] | None = None,
        change: Callable[[str], None] | None = None,
    ) -> None:
        """`event` of what is ours there; `change(worker)` when a connection came or failed."""
        if event is not None:
            self._on_news.append(event)
        if change is not None:
            self._on_change.append(change)

    def get(self, name: str) -> Worker | None:
        held = self._held.get(name)
        return held.worker if held is not None else None

    def newest(self, name: str) -> Worker | None:
        """The connection from the latest kubeconfig, established or not."""
        held = self._next.get(name) or self._held.get(name)
        return held.worker if held is not None else None

    def all(self) -> list[Worker]:
        return [held.worker for held in self._held.values()]

    def lost_since(self, name: str) -> float:
        """When the connection was lost (monotonic), also for a cluster whose MultiKueueCluster is gone."""
        worker = self.get(name)
        if worker is not None and worker.lost_since is not None:
            return worker.lost_since
        return self._gone.setdefault(name, self._clock.monotonic())

    def connect(self, name: str, access: Access) -> None:
        """Makes a connection from this kubeconfig; one that exists is replaced when the new one stands or has failed."""
        client = self._dial(access)
        before = self._held.get(name)
        since = self._gone.pop(name, None)
        if before is not None and before.worker.lost_since is not None:
            since = before.worker.lost_since
        worker = Worker(
            name,
            client,
            self._clock,
            self._follows(),
            self._news,
            self._changed,
            strict=self._strict,
            lost_since=since,
            lease=self._lease(client),
        )
        task = asyncio.get_running_loop().create_task(worker.run(), name=f"worker {name}")
        held = _Held(worker, task, getattr(client, "drop", None))
        self._drop(self._next.pop(name, None))
        if before is None:
            self._held[name] = held
        else:
            self._next[name] = held

    def disconnect(self, name: str) -> None:
        held = self._held.pop(name, None)
        self._drop(self._next.pop(name, None))
        if held is None:
            return
        since = held.worker.lost_since
        self._gone[name] = self._clock.monotonic() if since is None else since
        self._drop(held)
        self._tell(name)

    def forget(self, name: str) -> None:
        """Drops the loss time of a cluster that no workload needs any more."""
        self._gone.pop(name, None)

    async def close(self) -> None:
        held = [*self._held.values(), *self._next.values()]
        self._held.clear()
        self._next.clear()
        for each in held:
            self._drop(each)
        await asyncio.gather(*(each.task for each in held), return_exceptions=True)

    def _drop(self, held: _Held | None) -> None:
        if held is not None:
            held.worker.connected = False
            held.task.cancel()
            if held.close is not None:
                held.close()

    def _news(self, event: RemoteEvent) -> None:
        for handler in self._on_news:
            handler(event)

    def _changed(self, name: str) -> None:
        following = self._next.get(name)
        if following is not None and (following.worker.connected or following.worker.attempts):
            self._drop(self._held.pop(name, None))
            self._held[name] = self._next.pop(name)
        self._tell(name)

    def _tell(self, name: str) -> None:
        for handler in self._on_change:
            handler(name)
