"""One worker cluster: its connection, its views of this hub's copies, and since when it cannot be reached.

A worker counts as connected while all its views are followed and a small request is answered every few seconds, which
also finds streams that are open and dead, and credentials that were revoked. When the connection is lost it is dialled
at once, then ever more rarely. The moment of the first loss is kept until all views are there again.

Kinds the worker does not serve, or does not let us see, are marked unusable with the reason; with `strict` one of them
keeps the whole worker out, as upstream does.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.fleet.multikueue.lease_renewal import LeaseRenewal
from gpuaas.fleet.multikueue.view import RemoteView
from gpuaas.kueue.multikueue.names import ORIGIN

_log = logging.getLogger(__name__)
_PROBE_EVERY = 10.0
_PROBE_SECONDS = 10.0
_LASTING = 2.0  # seconds after which a connection counts as one that worked
_FIRST, _MOST = 1.0, 60.0
_STRICT_FIRST, _STRICT_STEPS = 5.0, 7


class RemoteEvent(NamedTuple):
    """A change of an object that the hub watches on a worker."""

    worker: str
    resource: Resource
    obj: Object
    extra: str = ""
    """The name of the further view it comes from; empty for copies and their jobs."""


Concerned = Callable[[RemoteEvent], None]


@dataclass(frozen=True, slots=True)
class Follows:
    """What is watched on a worker."""

    origin: str
    kinds: Sequence[Resource]
    extra: Mapping[str, tuple[Resource, str]] = field(default_factory=dict)
    """Further views by name, as (resource, label selector). A worker that refuses one stays connected without it."""


class Worker:
    def __init__(
        self,
        name: str,
        client: Client,
        clock: Clock,
        follows: Follows,
        concerned: Concerned,
        changed: Callable[[str], None],
        *,
        strict: bool = False,
        lost_since: float | None = None,
        lease: LeaseRenewal | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self.connected = False
        self.lost_since: float | None = clock.monotonic() if lost_since is None else lost_since
        self.problem = ""
        """Why it is not connected, in the words of what went wrong."""
        self.unusable: dict[Resource, str] = {}
        self.attempts = 0
        self.lease = ""
        """The Lease there that copies depend on; empty where the worker does not watch one."""
        self._lease = lease
        self._found_at = 0.0
        self._clock = clock
        self._follows = follows
        self._concerned = concerned
        self._changed = changed
        self._strict = strict
        labels = f"{ORIGIN}={follows.origin}"
        self._views = {
            resource: RemoteView(client, resource, labels, self._seen, clock)
            for resource in (WORKLOADS, *follows.kinds)
        }
        self.extra = {
            name: RemoteView(client, resource, selector, partial(self._seen, extra=name), clock)
            for name, (resource, selector) in follows.extra.items()
        }
        self._hidden: set[RemoteView] = set()
        """Views that the worker does not let us have."""

    def _seen(self, resource: Resource, obj: Object, *, extra: str = "") -> None:
        self._concerned(RemoteEvent(self.name, resource, obj, extra))

    # Reading.

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        view = self._views.get(resource)
        return view.get(namespace, name) if view is not None else None

    def all(self, resource: Resource) -> list[Object]:
        view = self._views.get(resource)
        return view.all() if view is not None else []

    def of_workload(self, resource: Resource, namespace: str, name: str) -> list[Object]:
        view = self._views.get(resource)
        return view.of_workload(namespace, name) if view is not None else []

    def sees(self, resource: Resource) -> bool:
        return resource not in self.unusable

    def shows(self, name: str) -> bool:
        """Whether the view of this name can be read."""
        return name in self.extra and self.extra[name] not in self._hidden

    def forget(self, resource: Resource, namespace: str, name: str) -> None:
        view = self._views.get(resource)
        if view is not None:
            view.forget(namespace, name)

    # Running.

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            tasks: list[asyncio.Task[None]] = []
            try:
                await self._open()
                agreed = self._lease is not None and await self._lease.agree()
                self.lease = self._lease.name if self._lease is not None and agreed else ""
                tasks = [asyncio.create_task(each, name=f"worker {self.name}") for each in self._streams()]
                self._found()
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                problem = next((str(e) for t in tasks if t.done() and (e := t.exception())), "")
            except (ApiError, OSError) as error:
                problem = _words(error)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            await self._lose(problem)

    def _found(self) -> None:
        self.connected, self.problem, self.lost_since = True, "", None
        self._found_at = self._clock.monotonic()
        self._changed(self.name)

    async def _lose(self, problem: str) -> None:
        """Marks the worker lost. A connection that had lasted is dialled again at once, and only a failure of that is shown
        in the condition, as upstream does."""
        was, lasted = self.connected, self._clock.monotonic() - self._found_at
        self.connected = False
        if self.lost_since is None:
            self.lost_since = self._clock.monotonic()
        if was and lasted >= _LASTING:
            self.attempts = 0
            _log.info("worker cluster %s: connection lost: %s", self.name, problem or "the watch ended")
            return
        self.attempts += 1
        if problem != self.problem:
            self.problem = problem
        self._changed(self.name)
        await self._clock.sleep(self._pause())

    def _pause(self) -> float:
        if self._strict:
            return float(_STRICT_FIRST * 2 ** (min(self.attempts, _STRICT_STEPS) - 1))
        return float(min(_FIRST * 2 ** (self.attempts - 1), _MOST))

    async def _open(self) -> None:
        """Opens all views. A kind that the worker refuses is marked unusable; with `strict` it fails the connection."""
        self.unusable = {}
        self._hidden.clear()
        await self._views[WORKLOADS].open()
        others = [*(view for kind, view in self._views.items() if kind != WORKLOADS), *self.extra.values()]
        results = await asyncio.gather(*(view.open() for view in others), return_exceptions=True)
        for view, result in zip(others, results, strict=True):
            if result is None:
                continue
            refused = isinstance(result, Forbidden | NotFound | MethodNotAllowed)
            of_copies = view in self._views.values()
            if not refused or (self._strict and of_copies):
                raise _worded(result, view.resource)
            self._hidden.add(view)
            if of_copies:
                self.unusable[view.resource] = _words(_worded(result, view.resource))

    def _streams(self) -> Iterable[Coroutine[Any, Any, None]]:
        for view in (*self._views.values(), *self.extra.values()):
            if view not in self._hidden:
                yield view.follow()
        yield self._probing()

    async def _probing(self) -> None:
        """Renews the lease, or lists one Workload, every few seconds: finds streams that are open and dead, and revoked
        credentials."""
        lease = self._lease if self.lease else None
        while True:
            await self._clock.sleep(lease.every if lease is not None else _PROBE_EVERY)
            try:
                async with asyncio.timeout(_PROBE_SECONDS):
                    if lease is not None:
                        await lease.renew()
                    else:
                        await self.client.list(WORKLOADS, labels=f"{ORIGIN}={self._follows.origin}", limit=1)
            except TimeoutError:
                raise ConnectionError(f"no answer within {_PROBE_SECONDS:.0f} s") from None


def _worded(error: BaseException, resource: Resource) -> Exception:
    if isinstance(error, NotFound):
        return NoMatch(f'no matches for kind "{resource.kind}" in version "{resource.api_version}"')
    return error if isinstance(error, Exception) else ConnectionError(str(error))


class NoMatch(ApiError):
    """The worker does not serve a kind."""

    code, reason = 404, "NotFound"


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
