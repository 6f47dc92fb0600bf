"""The loop of a controller: news becomes keys, keys become reconciles, failures come again later.

A controller says which informers concern it (`follow`) and what to do for one key (`reconcile`: load, decide, apply).
It is level-triggered: a reconcile looks at the state, never at the event, so that it may be killed anywhere and
repeated. `Controllers` starts and stops them together with their informers.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuaas.base.clock import Clock
from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Client, Discovery, Object, Resource
from gpuaas.runtime.backoff import Backoff
from gpuaas.runtime.events import WARNING, EventSink, Recorder
from gpuaas.runtime.informer import Informer, Informers
from gpuaas.runtime.metadata import Key, controller_of, key_of
from gpuaas.runtime.pod_budget import LOOK_AGAIN, TooManyWaiting
from gpuaas.runtime.quarantine import SET_ASIDE, Aside, Fault, described
from gpuaas.runtime.quota import Quota
from gpuaas.runtime.workqueue import WorkQueue
from gpuaas.runtime.writes import ReadYourWrites

_SERVER = "gpuaas"
_LASTING = 4  # failures in a row after which a refusal by the API is an object's fault, not a moment's

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
    # (request in PEM, usages, seconds) -> a client certificate in PEM; without it no request is signed
    sign_request: Callable[[bytes, Sequence[str], float], bytes] | None = None
    quota: Quota | None = None  # who may have a node, where Kueue is served in this process
    turn: Callable[[], Awaitable[None]] | None = None  # waits until work may be done beside the server's requests
    aside: Aside = field(default_factory=Aside)  # what cannot be handled

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
        aside: Aside | None = None,
        quota: Quota | None = None,
    ) -> "Deps":
        """The usual wiring over one client."""
        aside = aside or Aside()
        informers = Informers(client, clock, aside)
        writer = ReadYourWrites(client, informers)
        events = EventSink(client, clock, turn)
        return cls(writer, informers, clock, events, discovery, root_ca, secret_token, sign_request, quota, turn, aside)

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
    patient = False  # lets a burst of requests pass first: for work that no decision waits for

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self.informers = deps.informers
        self.aside = deps.aside
        self.recorder: Recorder = deps.events.recorder(self.component, series=self.tells_series)
        self.queue: WorkQueue[Any] = WorkQueue(deps.clock)
        self._followed: list[Informer] = []
        self._subject: Informer | None = None  # whose objects the keys name
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
        if keys is None and self._subject is None:
            self._subject = informer

        def changed(old: Object | None, new: Object | None) -> None:
            if by is not None and old is not None and new is not None and _alike(by, old, new):
                return
            for obj in (old, new):
                if obj is not None:
                    with self.aside.guard(self.name, obj):
                        for key in keys(obj) if keys else (key_of(obj),):
                            self.queue.add_after(key, delay)

        informer.subscribe(changed, owned=owned)
        return informer

    @abstractmethod
    async def reconcile(self, key: Any) -> Requeue | None: ...

    async def run(self) -> None:
        for informer in self._followed:
            await informer.synced()
        self.queue.resume()  # where it ended with a fault and begins again
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
        except TooManyWaiting:
            self.queue.add_after(key, LOOK_AGAIN)  # its owner says so; pods that get a node bring it here before
        except ApiError as error:
            # A conflict only means that the view was old; the rest is worth a word.
            level = logging.DEBUG if error.code in (404, 409) else logging.WARNING
            _log.log(level, "%s: %s: %s", self.name, key, described(error))
            if level == logging.WARNING and self.queue.failures(key) == _LASTING:
                self._set_aside(key, error)
            self.queue.add_rate_limited(key)
        except OSError as error:
            _log.warning("%s: %s: %s", self.name, key, error)
            self.queue.add_rate_limited(key)
        except Exception as error:
            self._set_aside(key, error)
            self.queue.add_rate_limited(key)
        else:
            if self.queue.failures(key):
                self._handled(key)
            self.queue.forget(key)
            if outcome is not None:
                self.queue.add_after(key, outcome.after)

    def _set_aside(self, key: Any, error: Exception) -> None:
        """The object of this key cannot be handled: that is noted on it, and it is tried again ever more rarely."""
        obj = self.subject_of(key)
        if obj is not None:
            self.aside.note(self.name, obj, error)
        elif self.queue.failures(key) in (0, _LASTING):
            _log.error("%s: %s", self.name, key, exc_info=error)

    def _handled(self, key: Any) -> None:
        obj = self.subject_of(key)
        if obj is not None:
            self.aside.clear(self.name, obj)

    def subject_of(self, key: Any) -> Object | None:
        """The object that a key stands for, where there is one: it carries the event when its reconcile fails."""
        if self._subject is None or not isinstance(key, Key):
            return None
        return self._subject.get(key.namespace, key.name)


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
        events = self._deps.events.recorder(_SERVER)
        self._deps.aside.listen(lambda fault: _tell(events, fault))
        self._deps.informers.start()
        self._tasks.append(loop.create_task(self._deps.events.run(), name="events"))
        for controller in self._controllers:
            self._tasks.append(loop.create_task(_kept_running(controller, self._deps.clock), name=controller.name))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._deps.informers.stop()


async def _kept_running(controller: Loop, clock: Clock) -> None:
    """A loop that ends with a fault begins again: what it was about may be an object that is gone by then."""
    backoff = Backoff(first=1.0, limit=60.0)
    while True:
        try:
            return await controller.run()
        except Exception:
            _log.exception("%s ended and begins again", controller.name)
            await clock.sleep(backoff.next())


def _tell(events: Recorder, fault: Fault) -> None:
    obj = fault.obj
    meta = obj.get("metadata")
    if not isinstance(meta, Mapping) or not isinstance(meta.get("name"), str):
        return
    group, _, version = str(obj.get("apiVersion") or "v1").rpartition("/")
    resource = Resource(group, version, "", bool(meta.get("namespace")), str(obj.get("kind") or ""))
    events.event(resource, obj, WARNING, SET_ASIDE, fault.message)


def _alike(by: Callable[[Mapping[str, Any]], Any], old: Object, new: Object) -> bool:
    """Whether both read the same; what cannot be read is taken for a change."""
    try:
        return bool(by(old) == by(new))
    except Exception:
        return False


def owner_key(kind: str) -> Callable[[Mapping[str, Any]], Iterable[Key]]:
    """For `follow`: an object concerns the object of `kind` that controls it."""

    def keys(obj: Mapping[str, Any]) -> Iterable[Key]:
        reference = controller_of(obj)
        if reference is None or reference.get("kind") != kind:
            return ()
        return (Key(obj["metadata"].get("namespace") or "", reference["name"]),)

    return keys
