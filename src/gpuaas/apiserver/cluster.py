"""One cluster: its store, what it serves, and who watches what. The server may hold several."""

from collections.abc import Callable
from typing import Any

from gpuaas.apiserver.admission import Admission
from gpuaas.apiserver.catalogue import Catalogue, Resource
from gpuaas.apiserver.discovery import Discovery
from gpuaas.apiserver.read import ListCache
from gpuaas.base.clock import Clock
from gpuaas.base.ids import IdSource
from gpuaas.machinery.schema.model import SchemaSet
from gpuaas.store import Store


class Cluster:
    def __init__(self, name: str, store: Store, schemas: SchemaSet, clock: Clock, ids: IdSource) -> None:
        self.name = name
        self.store = store
        self.schemas = schemas
        self.clock = clock
        self.ids = ids
        self.catalogue = Catalogue()
        self.lists = ListCache()
        self.admission = Admission(self)
        self.discovery = Discovery(self.catalogue)
        self.logs: Any = None  # where pods' output is read; an executor brings it
        self.extra_subresources: dict[tuple[str, str, str], Any] = {}  # (group, plural, name) -> handler
        self._watchers: dict[Resource, set[Callable[[], None]]] = {}

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
