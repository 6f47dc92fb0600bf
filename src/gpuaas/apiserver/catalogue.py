"""What this cluster serves: every resource with its versions, found by the path a client uses.

A `Resource` is one stored thing (group and plural); its `Version`s are the shapes clients may speak, one of them the
hub in which it is stored. Built-in versions decode as Go would, custom ones by their structural schema; both give a
fresh tree, and both convert through the hub. Definitions come and go at run time (module crds).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

import gpuaas
from gpuaas.api.kinds import Kind, Object
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.known_owners import KnownOwners
from gpuaas.apiserver.known_statuses import KnownStatuses
from gpuaas.base.errors import BadRequest
from gpuaas.base.fielderrors import FieldError
from gpuaas.base.memo import Repeats
from gpuaas.machinery.schema.decode import normalize
from gpuaas.machinery.schema.model import Schema

_parse = msgspec.json.Decoder().decode
Convert = Callable[[Object, str], Object]  # to a version, by its name


class Version(Protocol):
    kind: Kind

    @property
    def schema(self) -> Schema: ...

    @property
    def openapi(self) -> Mapping[str, Any]:
        """The schema as it is published."""

    def read(self, obj: Object) -> tuple[Object, list[str]]:
        """A fresh, well-typed, defaulted tree and the paths of fields that do not exist."""

    def read_applied(self, obj: Object) -> Object:
        """The same of what a server-side apply leaves, where nulls of custom kinds have not been dropped."""

    def check(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None,
        subresource: str = "",
        *,
        found: Sequence[FieldError] = (),
    ) -> list[FieldError]:
        """What the schema itself forbids. `found`: what is wrong with its metadata, which may keep rules from being asked."""

    @property
    def statuses(self) -> KnownStatuses | None:
        """Those that were written, where what conditions say decides nothing about them."""

    def empty_status(self) -> Object | None:
        """The status of a new object: a fresh tree, or None where there is none."""

    def shown(self, obj: Object) -> Object:
        """An object that is kept in another version, without what this one does not know."""


class BuiltinVersion:
    __slots__ = ("_empty_status", "_find", "_schema", "_specs", "kind")
    statuses = None

    def __init__(self, kind: Kind, find: Callable[[str], Schema]) -> None:
        self.kind = kind
        self._find = find
        self._schema: Schema | None = None
        self._specs = Repeats[bytes]()
        self._empty_status = b""

    @property
    def schema(self) -> Schema:
        if self._schema is None:
            self._schema = self._find(self.kind.schema)
        return self._schema

    @property
    def openapi(self) -> Mapping[str, Any]:
        return self.schema.source

    def read(self, obj: Object) -> tuple[Object, list[str]]:
        """A spec like one that came before is made of bytes: several times faster than reading it by its type."""
        spec = obj.get("spec")
        known = self._specs.of(spec, lambda: self._read_spec(spec)) if spec.__class__ is dict else b""
        if not known:
            decoded = normalize(self.schema, obj, keep_unknown=self.kind.stored_only)
            return decoded.obj, decoded.unknown
        decoded = normalize(self.schema, {**obj, "spec": {}}, keep_unknown=self.kind.stored_only)
        decoded.obj["spec"] = _parse(known)
        return decoded.obj, decoded.unknown

    def read_applied(self, obj: Object) -> Object:
        return self.read(obj)[0]

    def _read_spec(self, spec: Object) -> bytes:
        """As it is kept; nothing if there is something to complain of."""
        schema = self.schema.properties.get("spec")
        if schema is None or not schema.properties:
            return b""
        try:
            decoded = normalize(schema, spec, keep_unknown=self.kind.stored_only)
        except BadRequest:
            return b""
        return b"" if decoded.unknown else encode(decoded.obj)

    def check(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None,
        subresource: str = "",
        *,
        found: Sequence[FieldError] = (),
    ) -> list[FieldError]:
        return []

    def empty_status(self) -> Object | None:
        if not self._empty_status:
            fresh, _ = self.read({})
            self._empty_status = encode(fresh.get("status"))
        status: Object | None = _parse(self._empty_status)
        return status

    def shown(self, obj: Object) -> Object:
        return obj


class Resource:
    """One stored resource. `hub` is the version objects are kept in."""

    __slots__ = (
        "_convert",
        "custom",
        "group",
        "hub",
        "name",
        "namespaced",
        "owners",
        "plural",
        "prefix",
        "raw_prefix",
        "since",
        "stamp",
        "versions",
    )

    def __init__(
        self,
        versions: Mapping[str, Version],
        hub: str,
        *,
        prefix: str = "",
        convert: Convert | None = None,
        custom: bool = False,
        stamp: str = "",
        hub_version: Version | None = None,
    ) -> None:
        """`hub_version`: the version objects are kept in, where it is another group's (events)."""
        first = versions[hub].kind
        self.group = first.group
        self.plural = first.plural
        self.name = first.kind
        self.namespaced = first.namespaced
        self.versions = dict(versions)
        self.hub = hub_version or versions[hub]
        self.prefix = prefix or f"{first.group}/{first.plural}/"
        kept = self.hub.kind
        # How the bytes of a stored object begin; lists of built-in kinds leave it out, as the real server does.
        self.raw_prefix = f'{{"kind":"{kept.kind}","apiVersion":"{kept.api_version}",'.encode()
        self.custom = custom
        self.stamp = stamp  # of the definition it was made from: another one, another shape
        self.since = 0  # objects not written after this revision may lack what the definition says by now
        self._convert = convert
        self.owners = KnownOwners()  # after writes of a status (module ownership)

    @property
    def bundled(self) -> bool:
        """A custom kind we ship, as we ship it: its definition does not change while we run."""
        return self.custom and self.stamp == gpuaas.__version__

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}"

    def range(self, namespace: str) -> str:
        """The prefix of all objects of a namespace, or of everywhere."""
        return f"{self.prefix}{namespace}/" if namespace else self.prefix

    @property
    def relabels(self) -> bool:
        """A user's kind: its versions differ in their schemas, and nothing but the name is converted."""
        return self.custom and self._convert is None

    def judge(self, version: Version) -> Version:
        """Whose schema a new object must fulfil: the one its writer speaks, unless we convert before we look."""
        return version if self.relabels else self.hub

    def kept(self, obj: Object, version: Version) -> Object:
        """As it will be read again: without what the version it is kept in does not know, with what that defaults."""
        return obj if version is self.hub or not self.relabels else self.hub.read(obj)[0]

    def now(self, obj: Object) -> Object:
        """An object as its definition wants it now, whenever it was written."""
        return self.hub.read(obj)[0]

    def to_hub(self, obj: Object, version: Version) -> Object:
        if version is self.hub:
            return obj
        return _relabelled(obj, self.hub) if self.relabels else self.convert(obj, self.hub)

    def from_hub(self, obj: Object, version: Version) -> Object:
        return obj if version is self.hub else self.convert(obj, version)

    def seen(self, obj: Object, version: Version) -> Object:
        """For readers: one that cannot be converted is shown as it is kept, so that it spoils no list of others."""
        try:
            return self.from_hub(obj, version)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return _relabelled(obj, version)

    def convert(self, obj: Object, version: Version) -> Object:
        kind = version.kind
        if obj.get("apiVersion") == kind.api_version:
            return obj
        if self._convert is not None:
            return self._convert(obj, kind.version)
        return version.shown(_relabelled(obj, version))


def _relabelled(obj: Object, version: Version) -> Object:
    return {**obj, "apiVersion": version.kind.api_version, "kind": version.kind.kind}


class Catalogue:
    """Resources by (group, version, plural). `generation` moves with every change, so that what is derived can be kept."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], tuple[Resource, Version]] = {}
        self._resources: dict[tuple[str, str], Resource] = {}
        self.generation = 0
        self._listeners: list[Callable[[], None]] = []

    def find(self, group: str, version: str, plural: str) -> tuple[Resource, Version] | None:
        return self._by_path.get((group, version, plural))

    def resource(self, group: str, plural: str) -> Resource | None:
        return self._resources.get((group, plural))

    def resources(self) -> Iterator[Resource]:
        return iter(tuple(self._resources.values()))

    def for_kind(self, api_version: str, kind: str) -> tuple[Resource, Version] | None:
        """The resource that serves objects saying this of themselves."""
        group, _, version = api_version.rpartition("/")
        for resource in self._resources.values():
            found = resource.versions.get(version)
            if found is not None and resource.group == group and found.kind.kind == kind:
                return resource, found
        return None

    def add(self, resource: Resource) -> None:
        self.remove(resource.group, resource.plural, quietly=True)
        self._resources[resource.group, resource.plural] = resource
        for name, version in resource.versions.items():
            self._by_path[resource.group, name, resource.plural] = (resource, version)
        self._changed()

    def remove(self, group: str, plural: str, *, quietly: bool = False) -> None:
        resource = self._resources.pop((group, plural), None)
        if resource is None:
            return
        for name in resource.versions:
            self._by_path.pop((group, name, plural), None)
        if not quietly:
            self._changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _changed(self) -> None:
        self.generation += 1
        for listener in self._listeners:
            listener()
