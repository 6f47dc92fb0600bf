"""The embedded control plane, put together: stores, API server, controllers; and the order of starting and stopping.

Start: lock the home, open the stores, serve, write the kubeconfig, then let the controllers run. Stop: no new
requests, end the watches, stop the controllers, flush and close the stores, let go of the lock.
"""

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import gpuaas
from gpuaas.apiserver.listener import Listener, listen
from gpuaas.apiserver.notebooks.proxy import NotebookProxy
from gpuaas.apiserver.security.certs import serving_names
from gpuaas.apiserver.server import Server
from gpuaas.assembly import allocator, collector
from gpuaas.assembly.clusters import ClusterParts, open_cluster
from gpuaas.assembly.fleet import Fleet
from gpuaas.assembly.home import LOST_WRITES, NEW_CLUSTER, Home, Running, Unusable
from gpuaas.assembly.identity import check_authority, check_before_opening, check_opened, identity_of
from gpuaas.assembly.notebooks import make_proxy
from gpuaas.assembly.pages import Pages
from gpuaas.assembly.runtime_classes import has_process_class
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import Clock, SystemClock
from gpuaas.base.ids import SystemIds
from gpuaas.base.strict import NOT_STRICT, Strict
from gpuaas.client.kubeconfig import KubeconfigError, add_context, encode
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.observe.requests import RequestCounter
from gpuaas.store import Store

if TYPE_CHECKING:
    from gpuaas.assembly.own_certificate import OwnCertificate
    from gpuaas.executors.machine import Gpus
    from gpuaas.runtime.controller import Controllers

_log = logging.getLogger("gpuaas")
_MAINTAIN_EVERY = 30.0
_RENEW_AGAIN = 3600.0


@dataclass(frozen=True, slots=True)
class Settings:
    clusters: tuple[str, ...] = ("local",)
    host: str = "127.0.0.1"
    port: int = 0  # 0: the one of the last run if it is free, else any
    names: tuple[str, ...] = field(default=())  # more names and addresses for the certificate
    fsync: bool = True
    fleet: Fleet | None = None  # None: one node, this machine
    kueue: Configuration = field(default_factory=Configuration)
    kueue_text: str = ""  # the file it comes from
    accepted: frozenset[str] = frozenset()  # what a start refuses otherwise (identity.ACCEPTABLE)
    strict: Strict = NOT_STRICT  # originals whose behaviour is kept exactly
    tls: tuple[Path, Path] | None = None  # a certificate and its key beside that of our CA
    web_port: int | None = None  # of the pages without TLS. None: that of the last run if it is free, else any; 0: none
    platform: str = ""  # whose objects are made (module platform)


class ControlPlane:
    """Use as an async context manager: inside it, the server is ready."""

    def __init__(self, home: Home, settings: Settings, clock: Clock | None = None) -> None:
        self.home = home
        self.settings = settings
        self.clock = clock or SystemClock()
        self.clusters: dict[str, ClusterParts] = {}
        self._stack = AsyncExitStack()
        self._controllers: list[Controllers] = []
        self._renew_at = 0.0
        self.broken = asyncio.Event()  # the controllers did not start: an API without controllers

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        host = self.settings.host if self.settings.host not in ("0.0.0.0", "::") else "127.0.0.1"
        shown = f"[{host}]" if ":" in host else host
        return f"https://{shown}:{self._listener.port}"

    @property
    def pages_address(self) -> str:
        """Of the first page, for a browser on this machine; over TLS where there is no plain port."""
        return f"{self._pages.address or self.url}/ui/"

    @property
    def address_elsewhere(self) -> str:
        """Of the first page, for browsers on other machines; "" where they do not reach it."""
        if self.settings.host in ("127.0.0.1", "::1", "localhost"):
            return ""
        own = sorted(each for each in self._own.names if not each.startswith("*.")) if self._own is not None else []
        name = next((each for each in (*own, *self.settings.names) if not each.startswith("*.")), socket.gethostname())
        return f"https://{name}:{self._listener.port}/ui/"

    def _names(self) -> list[str]:
        """By which other machines reach this one."""
        own = self._own.names if self._own is not None else ()
        return [*serving_names(socket.gethostname()), *self.settings.names, self.settings.host, *own]

    def _own_certificate(self) -> "OwnCertificate | None":
        if self.settings.tls is None:
            return None
        from gpuaas.assembly.own_certificate import OwnCertificate

        try:
            return OwnCertificate(*self.settings.tls, self.clock)
        except ValueError as error:
            raise Unusable(str(error)) from None

    async def _start(self) -> None:
        self.home.make()
        self.home.lock()
        self._stack.callback(self.home.unlock)
        for name in self.settings.clusters:
            check_before_opening(self.home, name, self.settings.accepted)
        looking = asyncio.create_task(asyncio.to_thread(self._look_for_gpus), name="gpus")
        self._stack.push_async_callback(_cancelled, looking)
        self.trust = self._trust()
        self._own = self._own_certificate()
        ids = SystemIds()
        for name in self.settings.clusters:
            configured = Configured(self.settings.kueue)
            parts = await open_cluster(
                name,
                self.home.store(name),
                self.trust,
                self.clock,
                ids,
                fsync=self.settings.fsync,
                configured=configured,
                check=partial(self._check_store, name),
                accept_loss=not self.settings.accepted.isdisjoint((LOST_WRITES, NEW_CLUSTER)),
                strict=self.settings.strict,
            )
            self.clusters[name] = parts
            self._stack.push_async_callback(parts.close)
        self.home.remember_identities({name: identity_of(one.cluster.store) for name, one in self.clusters.items()})
        self._gpus = await looking
        if self._gpus is not None and self._gpus.is_news:
            _log.warning("GPUs of this machine: %s", self._gpus.in_words)
        if self._gpus is not None and self._gpus.library_fault:
            _log.warning("GPUs of this machine: %s", self._gpus.library_fault)
        if self.settings.fleet is None:
            await self._furnish_machine(self.clusters[self.settings.clusters[0]])
        self.server = Server(
            {name: parts.cluster for name, parts in self.clusters.items()},
            {name: parts.access for name, parts in self.clusters.items()},
            RequestCounter(),
        )
        self.server.open_metrics = self.settings.host in ("127.0.0.1", "::1", "localhost")
        self._listener = await self._listen()
        self._stack.push_async_callback(self._listener.stop)
        self._remember_port()
        authority = self.trust.authority_pem.encode()
        self._pages = Pages(self.server, self.clock, authority, self._names(), self._notebooks())
        self._stack.push_async_callback(self._pages.stop)
        await self._pages.listen(self.home, self.settings.web_port)
        starting = asyncio.create_task(self._start_controllers(), name="controllers")
        starting.add_done_callback(self._controllers_started)
        self._stack.push_async_callback(self._dismiss, starting)
        if self.settings.fleet is not None or self.settings.platform:
            await starting  # who asks for nodes or a platform's objects finds them
        self._write_kubeconfig()
        self.home.announce(
            Running(
                os.getpid(),
                self.url,
                self.settings.clusters,
                gpuaas.__version__,
                self.pages_address,
                self.address_elsewhere,
            )
        )
        self._stack.callback(self.home.withdraw)
        maintenance = asyncio.create_task(self._maintain(), name="maintenance")
        self._stack.push_async_callback(_cancelled, maintenance)
        collecting = asyncio.create_task(
            collector.collect_when_quiet(self.clock, self.server.turns.is_quiet), name="collector"
        )
        self._stack.push_async_callback(_cancelled, collecting)

    def _look_for_gpus(self) -> "Gpus | None":
        """In a thread, while the stores are opened: a driver may take a second to answer."""
        if self.settings.fleet is not None:
            return None
        from gpuaas.executors.machine import look_for_gpus

        return look_for_gpus(self.home.native)

    def _check_store(self, name: str, store: Store) -> None:
        check_opened(self.home, name, store, self.settings.accepted)
        if LOST_WRITES in self.settings.accepted:
            from gpuaas.assembly.leftovers import keep_logs, unknown

            known = {one.obj["metadata"]["uid"] for one in store.list("/pods/")}
            for folder in keep_logs(self.home, unknown(self.home, name, known), {}):
                _log.warning("the store does not know the pod any more: its logs are kept in %s", folder)

    def _trust(self) -> Trust:
        check_authority(self.home, self.settings.accepted)
        try:
            trust = Trust(self.home.certificates, self.home.users, self.clock)
            trust.users.list()
        except ValueError as error:
            raise Unusable(f"{error}; bring it back with `gpuaas restore`, or remove it to begin without") from None
        return trust

    async def _furnish_machine(self, parts: ClusterParts) -> None:
        """A ready server has a queue. Only the first start, and a start that finds cards, takes the time to make it."""
        if not has_process_class(parts.cluster) or (self._gpus is not None and self._gpus.cards):
            from gpuaas.assembly.nodes import furnish_machine
            from gpuaas.executors.machine import NO_GPUS

            await furnish_machine(parts, self._gpus or NO_GPUS)

    async def _listen(self) -> Listener:
        host = self.settings.host
        try:
            tls = self._tls = self.trust.serving_context(host, self.settings.names)
        except (ValueError, ssl.SSLError) as error:
            where = self.home.certificates
            raise Unusable(
                f"a key or certificate in {where} is broken ({error}); `gpuaas restore` brings them back"
            ) from None
        if self._own is not None:
            self._own.serve(tls)
        wanted = self.settings.port or self.home.last_port()
        try:
            return await listen(self.server.handle, host, wanted, tls, self.server.knows)
        except OSError as error:
            if not self.settings.port and wanted:
                with contextlib.suppress(OSError):
                    other = await listen(self.server.handle, host, 0, tls, self.server.knows)
                    _log.warning(
                        "port %s of the last start is taken: %s serves until the next start", wanted, other.port
                    )
                    return other
            at = self.settings.port or "any port"
            raise Unusable(f"cannot serve on {host}:{at}: {error}") from None

    def _notebooks(self) -> NotebookProxy:
        machine = self.settings.clusters[0] if self.settings.fleet is None else ""
        return make_proxy(self.home, self.clusters, self.trust, self.clock, machine)

    def _remember_port(self) -> None:
        """One that only stands in for a port that was taken is not remembered: kubeconfigs people have name the other."""
        if self.settings.port or not self.home.last_port():
            self.home.remember_port(self._listener.port)

    async def _start_controllers(self) -> None:
        starting = await asyncio.to_thread(importlib.import_module, "gpuaas.assembly.start_controllers")
        await asyncio.to_thread(self._pages.open)
        for name, parts in self.clusters.items():
            here = self.home if name == self.settings.clusters[0] else None  # one machine is one cluster's node
            self._controllers.append(
                await starting.start_controllers(
                    parts,
                    self.trust,
                    self.clock,
                    self.settings.fleet,
                    here,
                    self.server.turns.take,
                    self.settings.kueue_text,
                    self._gpus,
                    self.settings.platform,
                )
            )
        collector.begin()
        allocator.configure()
        allocator.trim()

    def _controllers_started(self, done: "asyncio.Task[None]") -> None:
        if not done.cancelled() and done.exception() is not None:
            _log.error("the controllers did not start", exc_info=done.exception())
            self.broken.set()

    async def _dismiss(self, starting: "asyncio.Task[None]") -> None:
        await _cancelled(starting)
        for controllers in reversed(self._controllers):
            await controllers.stop()

    def _write_kubeconfig(self) -> None:
        try:
            self._write_contexts()
        except KubeconfigError as error:
            raise Unusable(f"{error}; remove it: it is written again") from None

    def _write_contexts(self) -> None:
        first = self.settings.clusters[0]
        token = self.trust.admin_token(self.home.kubeconfig, first, SystemIds())
        for name in self.clusters:
            add_context(
                self.home.kubeconfig,
                name,
                cluster={
                    "server": f"{self.url}/clusters/{name}",
                    "certificate-authority-data": encode(self.trust.authority_pem),
                },
                user={"token": token},
                make_current=name == first,
            )

    async def _maintain(self) -> None:
        while True:
            await self.clock.sleep(_MAINTAIN_EVERY)
            for name, parts in self.clusters.items():
                try:
                    await parts.cluster.store.maintain()
                except Exception:
                    _log.exception("maintenance of cluster %s", name)
            await self._renew_certificate()
            allocator.trim()

    async def _renew_certificate(self) -> None:
        """While it serves: a year is shorter than a server may run."""
        now = self.clock.monotonic()
        if now < self._renew_at or not self.trust.needs_renewal():
            return
        try:
            await asyncio.to_thread(self.trust.renew)
            self.trust.use_renewed(self._tls)
            _log.info("the serving certificate was renewed")
        except Exception:
            _log.exception("the serving certificate could not be renewed; clients fail once it has ended")
            self._renew_at = now + _RENEW_AGAIN


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def serve(home: Home, settings: Settings, ready: Callable[[ControlPlane], None]) -> None:
    """Runs until SIGINT or SIGTERM; ends with words where the controllers could not be started."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with ControlPlane(home, settings) as plane:
        ready(plane)
        ends = {asyncio.ensure_future(each.wait()) for each in (stop, plane.broken)}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        plane.server.ready = False
        for each in ends:
            each.cancel()
        if plane.broken.is_set():
            raise Unusable("the controllers did not start (see above); nothing would have happened to any job")
