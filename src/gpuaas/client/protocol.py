"""The one small protocol every part of the product speaks to a Kubernetes API: ours in process, or any over HTTPS.

Objects are plain dicts. What a client returns may be shared with the server's own memory, so callers never change it; what
is handed to a client may be kept by it, so callers do not change that afterwards either. Everything the API refuses is
raised as a member of `gpuaas.base.errors.ApiError`. The HTTPS implementation is module http; the in-process one
belongs to the API server.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from gpuaas.base.errors import qualified

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of one resource type; enough to build its URL and to name it in a message."""

    group: str
    version: str
    plural: str
    namespaced: bool = True
    kind: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        """`/api/v1` or `/apis/batch/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path; no namespace means all of them (or a cluster-scoped resource)."""
        parts = [self.prefix]
        if namespace and self.namespaced:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return qualified(self.group, self.plural)


class PatchKind(StrEnum):
    """How a patch is meant; the value is its media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(StrEnum):
    """What a deletion does to dependents."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class Listing(NamedTuple):
    items: list[Object]
    resource_version: str
    continue_: str = ""  # the token of the next page, "" on the last


class WatchEvent(NamedTuple):
    type: str  # ADDED, MODIFIED, DELETED or BOOKMARK; an ERROR event is raised as the ApiError it carries
    object: Object


class Client(Protocol):
    """All the verbs. `namespace=""` is a cluster-scoped object, or all namespaces for list and watch.

    `resource_version` has Kubernetes' meaning: for list "" is the newest state; for watch "" is "now, with the
    existing objects as ADDED first". `labels` and `fields` are selectors in their query form.
    """

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object: ...

    def under_way(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object as the writes now under way leave it; a write begun from here on comes after them. None where that
        cannot be known without asking a server."""
        ...

    def hasten(self) -> None:
        """Others wait for the writes now under way: let them be committed before anything else, where that can be had."""
        ...

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        outline: bool = False,
    ) -> Listing:
        """`outline`: the caller reads only metadata; the answer may leave out the rest and the managed fields."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        outline: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Ends quietly when the server ends it; raises Expired when the revision is gone (then list again).

        A DELETED event has name, namespace and revision, and not always more.
        """
        ...

    async def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        """`name` and `subresource` go together: a POST to `pods/NAME/eviction`, `serviceaccounts/NAME/token`."""
        ...

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        namespace: str = "",
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object: ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """`uid` and `resource_version` are preconditions: another object under the name is a Conflict."""
        ...

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None: ...

    def log(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        """A pod's log, in pieces as they come."""
        ...


@dataclass(frozen=True, slots=True)
class Served:
    """A resource as discovery tells of it: its preferred version and what may be done with it."""

    resource: Resource
    verbs: frozenset[str]

    def allows(self, *verbs: str) -> bool:
        return self.verbs.issuperset(verbs)


class Discovery(Protocol):
    """Which resources there are now, and word of changes: definitions of custom resources come and go."""

    async def resources(self) -> Sequence[Served]:
        """Every resource once, in its preferred version, without subresources."""
        ...

    def subscribe(self, changed: Callable[[], None]) -> None:
        """`changed` is called, from the event loop, after the set of resources became another one."""
        ...
