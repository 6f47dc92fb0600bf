"""One cluster: its store, what it serves, and who watches what. The server may hold several."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from gpuaas.apiserver.admission import Admission
from gpuaas.apiserver.catalogue import Catalogue, Resource
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.discovery import Discovery
from gpuaas.apiserver.openapi import OpenApi
from gpuaas.apiserver.read import ListCache
from gpuaas.base.clock import Clock
from gpuaas.base.ids import IdSource
from gpuaas.machinery.schema.model import SchemaSet
from gpuaas.runtime.quarantine import Aside
from gpuaas.store import Store


class Cluster:
    def __init__(self, name: str, store: Store, schemas: SchemaSet, clock: Clock, ids: IdSource) -> None:
        self.name = name
        self.store = store
        self.schemas = schemas
        self.clock = clock
        self.ids = ids
        self.aside = Aside()  # stored objects that some part cannot handle
        self.catalogue = Catalogue()
        self.lists = ListCache()
        self.admission = Admission(self)
        self.discovery = Discovery(self.catalogue)
        self.openapi = OpenApi(self.catalogue, self.discovery, f"/clusters/{name}")
        self.logs: Any = None  # where pods' output is read; an executor brings it
        self.streams: Any = None  # exec, attach and port-forward of pods; an executor brings it
        self.metrics: list[Callable[[], Iterable[str]]] = []  # in Prometheus' text form; who has some brings them
        # By group and plural: reads older shapes of a body as the current one, and says in words what was moved.
        self.reshapers: dict[tuple[str, str], Callable[[Any], tuple[Any, list[str]]]] = {}
        self.extra_subresources: dict[tuple[str, str, str], Any] = {}  # (group, plural, name) -> handler
        # By the first part of a path: what answers it, given user, path and request, and decides who may.
        self.mounts: dict[str, Callable[..., Any]] = {}
        self.computed: dict[
            str, Any
        ] = {}  # by group: what answers its paths and decides who may see what (module views)
        # By prefix: what is being written, and shown only as a whole.
        self.arriving: dict[str, asyncio.Future[None]] = {}
        self._watchers: dict[Resource, set[Callable[[], None]]] = {}

    def put_quietly(self, key: str, obj: dict[str, Any]) -> None:
        """A write of the server's own that is not awaited; the store still has it before any later one."""
        meta = {**obj["metadata"]}
        changed = {**obj, "metadata": meta}

        def render(revision: int) -> tuple[bytes, dict[str, Any]]:
            meta["resourceVersion"] = str(revision)
            return encode(changed), changed

        asyncio.ensure_future(self.store.put(key, render)).add_done_callback(_say_if_failed)

    def watching(self, resource: Resource, end: Callable[[], None]) -> None:
        self._watchers.setdefault(resource, set()).add(end)

    def not_watching(self, resource: Resource, end: Callable[[], None]) -> None:
        watchers = self._watchers.get(resource)
        if watchers is not None:
            watchers.discard(end)
            if not watchers:
                del self._watchers[resource]

    def end_watches(self, resource: Resource) -> None:
        """The resource is no longer served as it was: its watchers have to ask again."""
        for end in tuple(self._watchers.get(resource, ())):
            end()


def _say_if_failed(done: "asyncio.Future[Any]") -> None:
    if not done.cancelled() and done.exception() is not None:
        logging.getLogger("gpuaas.apiserver").error("a write of the server's own failed: %s", done.exception())
