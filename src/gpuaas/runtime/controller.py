"""The loop of a controller: news becomes keys, keys become reconciles, failures come again later.

A controller says which informers concern it (`follow`) and what to do for one key (`reconcile`: load, decide, apply).
It is level-triggered: a reconcile looks at the state, never at the event, so that it may be killed anywhere and
repeated. `Controllers` starts and stops them together with their informers.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Client, Discovery, Object
from gpuaas.runtime.events import EventSink, Recorder
from gpuaas.runtime.informer import Informer, Informers
from gpuaas.runtime.metadata import Key, controller_of, key_of
from gpuaas.runtime.quota import Quota
from gpuaas.runtime.workqueue import WorkQueue
from gpuaas.runtime.writes import ReadYourWrites

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Requeue:
    """Look again after so many seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class Deps:
    """What every controller gets. `client` waits for the informers after each write (module writes)."""

    client: Client
    informers: Informers
    clock: Clock
    events: EventSink
    discovery: Discovery
    root_ca: str = ""  # PEM; published to every namespace as ConfigMap kube-root-ca.crt
    # (account, secret) -> the token such a secret holds; without it they stay empty
    secret_token: Callable[[Object, Object], str] | None = None
    # (request in PEM, usages, seconds) -> a client certificate in PEM; without it nobody's request is signed
    sign_request: Callable[[bytes, Sequence[str], float], bytes] | None = None
    quota: Quota | None = None  # who may have a node, where Kueue is served in this process
    turn: Callable[[], Awaitable[None]] | None = None  # waits until work may be done beside the server's requests

    @classmethod
    def over(
        cls,
        client: Client,
        clock: Clock,
        discovery: Discovery,
        *,
        root_ca: str = "",
        secret_token: Callable[[Object, Object], str] | None = None,
        sign_request: Callable[[bytes, Sequence[str], float], bytes] | None = None,
        turn: Callable[[], Awaitable[None]] | None = None,
        quota: Quota | None = None,
    ) -> "Deps":
        """The usual wiring over one client."""
        informers = Informers(client, clock)
        writer = ReadYourWrites(client, informers)
        events = EventSink(client, clock, turn)
        return cls(writer, informers, clock, events, discovery, root_ca, secret_token, sign_request, quota, turn)

    def under(self, field_manager: str) -> "Deps":
        """The same for controllers that write under a name of their own."""
        if not isinstance(self.client, ReadYourWrites):
            return self
        return replace(self, client=self.client.under(field_manager))


class Loop(ABC):
    """What runs as long as its cluster does. `Controller` goes by news of objects; others, by the clock say, write `run`."""

    name = ""

    def __init__(self, deps: Deps) -> None:
        self.client = deps.client
        self.clock = deps.clock

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be done now."""
        return True

    @abstractmethod
    async def run(self) -> None:
        """Until cancelled."""


class Controller(Loop):
    """Subclasses set `name`, call `follow` in their constructor and write `reconcile`."""

    component = ""  # the source of its events; "" has none
    tells_series = False  # how it tells them (module events)
    workers = 1
    patient = False  # lets a burst of requests pass first: for work that nobody's decision waits for

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self.informers = deps.informers
        self.recorder: Recorder = deps.events.recorder(self.component, series=self.tells_series)
        self.queue: WorkQueue[Any] = WorkQueue(deps.clock)
        self._followed: list[Informer] = []
        self._turn = deps.turn if self.patient else None

    @property
    def idle(self) -> bool:
        return self.queue.idle

    def follow(
        self,
        informer: Informer,
        keys: Callable[[Mapping[str, Any]], Iterable[Any]] | None = None,
        *,
        delay: float = 0.0,
        by: Callable[[Mapping[str, Any]], Any] | None = None,
        owned: bool = False,
    ) -> Informer:
        """Each change of an object queues the keys it concerns, as it was and as it is; by default its own.

        With a `delay` news that come together are looked at together. With `by`, only a change of what that reads counts;
        with `owned`, only one of an object that belongs to another.
        """
        self._followed.append(informer)

        def changed(old: Object | None, new: Object | None) -> None:
            if by is not None and old is not None and new is not None and by(old) == by(new):
                return
            for obj in (old, new):
                if obj is not None:
                    for key in keys(obj) if keys else (key_of(obj),):
                        self.queue.add_after(key, delay)

        informer.subscribe(changed, owned=owned)
        return informer

    @abstractmethod
    async def reconcile(self, key: Any) -> Requeue | None: ...

    async def run(self) -> None:
        for informer in self._followed:
            await informer.synced()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self.workers):
                    group.create_task(self._work(), name=f"{self.name} {number}")
        finally:
            await self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                if self._turn is not None:
                    await self._turn()
                await self._reconcile(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: Any) -> None:
        try:
            outcome = await self.reconcile(key)
        except ApiError as error:
            # A conflict only means that the view was old; the rest is worth a word.
            level = logging.DEBUG if error.code in (404, 409) else logging.WARNING
            _log.log(level, "%s: %s: %s", self.name, key, error)
            self.queue.add_rate_limited(key)
        except OSError as error:
            _log.warning("%s: %s: %s", self.name, key, error)
            self.queue.add_rate_limited(key)
        except Exception:
            _log.exception("%s: %s", self.name, key)
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
            if outcome is not None:
                self.queue.add_after(key, outcome.after)


class Controllers:
    """Informers, event sink and controllers of one cluster as one thing to start and to stop."""

    def __init__(self, deps: Deps, controllers: Sequence[Loop]) -> None:
        self._deps = deps
        self._controllers = controllers
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def idle(self) -> bool:
        return all(controller.idle for controller in self._controllers) and self._deps.events.idle

    async def start(self) -> None:
        """Returns at once; each controller begins when what it follows has been listed."""
        loop = asyncio.get_running_loop()
        self._deps.informers.start()
        self._tasks.append(loop.create_task(self._deps.events.run(), name="events"))
        for controller in self._controllers:
            self._tasks.append(loop.create_task(controller.run(), name=controller.name))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._deps.informers.stop()


def owner_key(kind: str) -> Callable[[Mapping[str, Any]], Iterable[Key]]:
    """For `follow`: an object concerns the object of `kind` that controls it."""

    def keys(obj: Mapping[str, Any]) -> Iterable[Key]:
        reference = controller_of(obj)
        if reference is None or reference.get("kind") != kind:
            return ()
        return (Key(obj["metadata"].get("namespace") or "", reference["name"]),)

    return keys
