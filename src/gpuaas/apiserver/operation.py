"""One request on a resource, with everything a verb needs to know: what, where, who, how.

Verbs are plain functions on an `Operation`. Until the store is asked to write they never wait, so that read, decide
and write are one step on the event loop and no two requests can interleave.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuaas.api.kinds import Kind, Object
from gpuaas.apiserver.catalogue import Resource, Version
from gpuaas.base.errors import BadRequest, NotFound

Converter = Callable[[Object, str], "tuple[Object, Schema] | None"]

if TYPE_CHECKING:
    from gpuaas.apiserver.cluster import Cluster
    from gpuaas.apiserver.security.identity import User
    from gpuaas.machinery.schema.model import Schema
    from gpuaas.store import Entry


@dataclass(slots=True)
class Operation:
    cluster: "Cluster"
    resource: Resource
    version: Version
    verb: str
    user: "User"
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    manager: str = "unknown"
    field_validation: str = "Warn"
    force: bool = False
    in_process: bool = False  # a part of the server asks, not a client
    body: bytes = b""  # as sent, for what the decoded object no longer shows (keys that came twice)
    media: str = ""  # its media type
    pretty: bool = False  # whether the answer is indented
    warnings: list[str] = field(default_factory=list)
    answers: dict[Any, Any] | None = None  # of webhooks, where some may be asked (module webhook_retry)

    @property
    def kind(self) -> Kind:
        return self.version.kind

    @property
    def hub(self) -> Kind:
        return self.resource.hub.kind

    @property
    def key(self) -> str:
        return self.resource.key(self.namespace, self.name)

    def converter(self) -> "Converter | None":
        """For who owns what in another version of the kind; most kinds have only one."""
        if len(self.resource.versions) == 1:
            return None

        def convert(obj: Object, api_version: str) -> "tuple[Object, Schema] | None":
            version = self.resource.versions.get(api_version.rpartition("/")[2])
            if version is None or version.kind.api_version != api_version:
                return None
            return self.resource.convert(obj, version), version.schema

        return convert

    def not_found(self) -> NotFound:
        return NotFound(self.resource.group, self.resource.plural, self.name)

    def latest(self) -> "Entry":
        """The object to change, including writes in flight; NotFound if there is none."""
        entry = self.cluster.store.latest(self.key)
        if entry is None:
            raise self.not_found()
        return entry

    def complain(self, unknown: list[str]) -> None:
        """Unknown and duplicate fields: an error, a warning or nothing, as the client asked."""
        if not unknown or self.field_validation == "Ignore":
            return
        if self.field_validation == "Strict":
            version = self.kind.version
            raise BadRequest(
                f'{self.kind.kind} in version "{version}" cannot be handled as a {self.kind.kind}: '
                f"strict decoding error: {', '.join(unknown)}"
            )
        self.warnings.extend(unknown)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The object after a verb, in its hub version; `raw` are its stored bytes where nothing was changed for the client."""

    obj: Mapping[str, Any]
    raw: bytes | None = None
    status: int = 200
    converted: bool = False  # already in the requested version (subresources such as scale)
