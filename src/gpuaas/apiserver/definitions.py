"""CustomResourceDefinitions at work: what is defined is served at once, what is deleted is emptied first.

Follows the definitions in the store. Each new or changed one becomes a resource of the catalogue, gets its status
(module `definition_status`), and its watchers are asked to come again when its shape changed. The
kinds we ship are in the catalogue from the start, before their definitions are written; who asks for definitions waits
until all are. One of ours that a user has not changed is renewed when a newer version of us brings another; one that a
user has changed is the user's from then on.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gpuaas
from gpuaas import api
from gpuaas.api.crds import Bundled
from gpuaas.api.kinds import Object
from gpuaas.apiserver.catalogue import BuiltinVersion, Resource
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.custom import bundled_resource, custom_resource
from gpuaas.apiserver.definition_status import Taken, accepted_names, is_established, status_of, taken_by
from gpuaas.apiserver.delete import CRD_CLEANUP, CRD_PREFIX
from gpuaas.apiserver.operation import Operation
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.base.fielderrors import FieldError
from gpuaas.client.protocol import Client, Propagation
from gpuaas.client.protocol import Resource as Target
from gpuaas.machinery.schema.model import SharedSchemas
from gpuaas.store import Entry, Event

BUNDLED = "gpuaas.dev/bundled"  # annotation: the digest of the definition as we wrote it, and of the code that did
_CHANGED = "changed"  # what it says once a user has changed the definition
_MARK = BUNDLED.encode()
_CHANGED_MARK = f'"{BUNDLED}":"{_CHANGED}"'.encode()
_NOT_CONVERTED = "conversion webhooks are not called: versions of the kind differ by their schemas only"
_COMPONENT = "apiextensions-apiserver"
_TOGETHER = 2  # definitions written at once: no heap of trees that are not needed later
_ours: set[str] = set()  # digests of definitions this process wrote itself; anybody can write the annotation
DEFINITIONS = Target("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, "CustomResourceDefinition")


class DefinitionVersion(BuiltinVersion):
    """The CustomResourceDefinition kind itself: its schemas are checked as schemas."""

    __slots__ = ()

    def check(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None,
        subresource: str = "",
        *,
        found: Sequence[FieldError] = (),
    ) -> list[FieldError]:
        if old is not None and old.get("spec") == obj.get("spec"):
            return []
        if BUNDLED in (obj["metadata"].get("annotations") or {}) and _digest(obj["spec"]) in _ours:
            return []  # checked when the product is built, by its tests
        from gpuaas.machinery.schema.definition import check_structural  # CEL is loaded with the first definition

        versions = (obj.get("spec") or {}).get("versions") or []
        schemas = [(each.get("schema") or {}).get("openAPIV3Schema") for each in versions]
        alike = all(schema == schemas[0] for schema in schemas[1:]) if schemas else True
        errors: list[FieldError] = []
        for index, (each, schema) in enumerate(zip(versions, schemas, strict=True)):
            path = "spec.validation.openAPIV3Schema" if alike else f"spec.versions[{index}].schema.openAPIV3Schema"
            if schema is not None:
                errors += check_structural(schema, path, status="status" in (each.get("subresources") or {}))
            if alike:
                break
        return errors


def leave_to_the_user(_op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
    """A bundled definition that a client changes is the client's from then on."""
    annotations = obj["metadata"].get("annotations") or {}
    if old is None or BUNDLED not in annotations or old["spec"] == obj["spec"] or _digest(obj["spec"]) in _ours:
        return
    obj["metadata"]["annotations"] = {**annotations, BUNDLED: _CHANGED}


def warn_of_what_nobody_checks(op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
    """Unknown formats, as Kubernetes warns; conversion webhooks, and rules with a function that is missing here, which are
    accepted as well."""
    if old is not None and old.get("spec") == obj.get("spec"):
        return
    if ((obj.get("spec") or {}).get("conversion") or {}).get("strategy") == "Webhook" and not _marked_ours(obj):
        op.warnings.append(f"spec.conversion: {_NOT_CONVERTED}")
    from gpuaas.machinery.schema.formats import unrecognized_formats
    from gpuaas.machinery.schema.rules import unevaluated_rules  # CEL is loaded with the first definition

    if BUNDLED not in (obj["metadata"].get("annotations") or {}):
        known = {text for schema in _schemas(old) for text in unrecognized_formats(schema)}
        new = [text for schema in _schemas(obj) for text in unrecognized_formats(schema)]
        op.warnings.extend(text for text in new if text not in known)
    for index, each in enumerate((obj.get("spec") or {}).get("versions") or ()):
        schema = (each.get("schema") or {}).get("openAPIV3Schema")
        if schema and BUNDLED not in (obj["metadata"].get("annotations") or {}):
            op.warnings.extend(unevaluated_rules(schema, f"spec.versions[{index}].schema.openAPIV3Schema"))


def _schemas(definition: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    for each in ((definition or {}).get("spec") or {}).get("versions") or ():
        yield (each.get("schema") or {}).get("openAPIV3Schema") or {}


class Definitions:
    def __init__(self, cluster: Cluster, client: Client, bundled: Iterable[Bundled]) -> None:
        self._cluster = cluster
        self._client = client
        self._bundled = {each.name: each for each in bundled}
        self._digests: dict[str, str] = {}  # of the definitions now in the catalogue
        self._names: dict[str, tuple[str, Taken]] = {}  # of users' definitions: their group and what they go by
        self._waiting: set[str] = set()  # definitions that want a name another one has
        self._tasks: set[asyncio.Task[None]] = set()
        self._reports: set[asyncio.Task[None]] = set()  # those of them that write a status

    def start(self) -> None:
        store = self._cluster.store
        self._cluster.admission.register(DEFINITIONS.group, DEFINITIONS.plural, leave_to_the_user)
        self._cluster.admission.register_check(DEFINITIONS.group, DEFINITIONS.plural, warn_of_what_nobody_checks)
        shared = SharedSchemas(self._cluster.schemas)
        for ours in self._bundled.values():
            self._cluster.catalogue.add(bundled_resource(ours, shared))
        theirs = [
            entry.obj
            for entry in store.list(CRD_PREFIX)
            if not _is_ours(entry) or entry.key.rpartition("/")[2] not in self._bundled
        ]
        readable = []
        for definition in theirs:
            with self._cluster.aside.guard(_COMPONENT, definition):
                self._claim(definition, (definition.get("status") or {}).get("acceptedNames") or {})
                readable.append(definition)
        for definition in readable:
            with self._cluster.aside.guard(_COMPONENT, definition):
                self._take_up(definition)
        self._watch = store.watch(CRD_PREFIX, store.revision, on_events=self._changed)
        self._watch.resume()

    def install(self) -> None:
        """Writes the definitions we ship that are missing or outdated, while the server already serves their kinds."""
        installing = self._spawn(self._install_all())
        self._cluster.arriving[CRD_PREFIX] = installing
        installing.add_done_callback(lambda _: self._cluster.arriving.pop(CRD_PREFIX))

    async def _install_all(self) -> None:
        outdated: list[tuple[Object, Entry | None]] = []
        stamp = _stamp()
        for ours in self._bundled.values():
            entry = self._cluster.store.latest(f"{CRD_PREFIX}/{ours.name}")
            if entry is not None and (not _is_ours(entry) or stamp.encode() in entry.raw):
                continue  # a user's own stays as it is, and what this very code wrote need not be made to be compared
            definition = _stamped(ours, stamp)
            mark = definition["metadata"]["annotations"][BUNDLED]
            if entry is not None and mark.partition(".")[0].encode() in entry.raw:
                await self._remark(entry, mark)
            else:
                outdated.append((definition, entry))
            if len(outdated) == _TOGETHER:
                await self._write_all(outdated)
                outdated.clear()
            await asyncio.sleep(0)  # requests come first
        await self._write_all(outdated)

    async def _write_all(self, definitions: list[tuple[Object, Entry | None]]) -> None:
        """Written, reported on and put away: all of them decoded at once would be a third of an empty server."""
        await asyncio.gather(*(self._write(*each) for each in definitions))
        await asyncio.gather(*self._reports)
        for definition, _ in definitions:
            self._cluster.store.drop_decoded(f"{CRD_PREFIX}/{definition['metadata']['name']}")

    async def _remark(self, entry: Entry, mark: str) -> None:
        """Other code brings the same definition: what a user changed about it stays."""
        name = entry.key.rpartition("/")[2]
        self._digests[name] = _digest(entry.obj["spec"])
        await self._client.patch(DEFINITIONS, name, {"metadata": {"annotations": {BUNDLED: mark}}})

    async def _write(self, definition: Object, entry: Entry | None) -> None:
        # What the store will hold is known beforehand, so that its own event does not look like a change.
        found = self._cluster.catalogue.find(DEFINITIONS.group, DEFINITIONS.version, DEFINITIONS.plural)
        assert found is not None
        fresh, _ = found[1].read(definition)
        found[1].kind.behaviour.default(fresh)
        self._digests[definition["metadata"]["name"]] = digest = _digest(fresh["spec"])
        _ours.add(digest)
        if entry is None:
            await self._client.create(DEFINITIONS, definition)
        else:
            await self._client.update(DEFINITIONS, definition)

    def stop(self) -> None:
        self._watch.close()
        for task in self._tasks:
            task.cancel()

    def _changed(self, events: list[Event]) -> None:
        for event in events:
            with self._cluster.aside.guard(_COMPONENT, event.entry.obj):
                self._follow(event)

    def _follow(self, event: Event) -> None:
        obj = event.entry.obj
        if event.type == "DELETED":
            self._withdraw(obj)
            self._waiting.discard(obj["metadata"]["name"])
            self._claim(obj, {})
        else:
            if event.previous is not None:
                self._notice(event.previous)
            self._take_up(obj)
            self._follow_up(obj)

    def _notice(self, entry: Entry) -> None:
        """One of ours that was in place when we started is looked at now that it changes."""
        name = entry.key.rpartition("/")[2]
        if name in self._bundled and name not in self._digests:
            self._digests[name] = _digest(entry.obj["spec"])

    def _take_up(self, definition: Mapping[str, Any]) -> None:
        """Serves it under the names that hold, once they all do."""
        names, conflict, _ = accepted_names(definition, self._taken(definition))
        self._claim(definition, names)
        if not conflict:
            self._waiting.discard(definition["metadata"]["name"])
            self._serve(definition)
            return
        self._waiting.add(definition["metadata"]["name"])
        if is_established(definition):
            self._serve({**definition, "spec": {**definition["spec"], "names": names}})

    def _taken(self, definition: Mapping[str, Any]) -> Taken:
        """By others of the group. Bundled definitions give way: a client that defines a kind of that name replaces ours."""
        if _marked_ours(definition):
            return Taken()
        group, name = definition["spec"]["group"], definition["metadata"]["name"]
        others = [taken for other, (of, taken) in self._names.items() if of == group and other != name]
        return Taken(*(frozenset().union(*parts) for parts in zip(*others, strict=True))) if others else Taken()

    def _claim(self, definition: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        """Notes who has which name; those who wait for one that is free by now get it."""
        name, group = definition["metadata"]["name"], definition["spec"]["group"]
        before, now = self._names.pop(name, ("", Taken()))[1], taken_by(names) if names else Taken()
        if names and not _marked_ours(definition):
            self._names[name] = group, now
        if not (before.resources - now.resources or before.kinds - now.kinds):
            return
        for other in self._waiting - {name}:
            entry = self._cluster.store.latest(f"{CRD_PREFIX}/{other}")
            if entry is not None and entry.obj["spec"]["group"] == group:
                self._take_up(entry.obj)
                self._follow_up(entry.obj)

    def _serve(self, definition: Mapping[str, Any]) -> None:
        spec = definition["spec"]
        name = f"{spec['names']['plural']}.{spec['group']}"
        digest = _digest(spec)
        if self._digests.get(name) == digest:
            return
        ours = self._bundled.get(name)
        resource = custom_resource(
            definition,
            self._cluster.schemas,
            ours.behaviour if ours is not None else None,
            ours.convert if ours is not None else None,
            digest,
        )
        if resource is not None and ours is None and definition["metadata"].get("generation", 1) > 1:
            resource.since = int(definition["metadata"]["resourceVersion"])
        before = self._cluster.catalogue.resource(spec["group"], spec["names"]["plural"])
        self._digests[name] = digest
        if resource is None:
            self._cluster.catalogue.remove(spec["group"], spec["names"]["plural"])
        else:
            self._cluster.catalogue.add(resource)
        if before is not None:
            self._cluster.end_watches(before)

    def _withdraw(self, definition: Mapping[str, Any]) -> None:
        spec = definition["spec"]
        before = self._cluster.catalogue.resource(spec["group"], spec["names"]["plural"])
        self._digests.pop(f"{spec['names']['plural']}.{spec['group']}", None)
        self._cluster.catalogue.remove(spec["group"], spec["names"]["plural"])
        if before is not None:
            self._cluster.end_watches(before)

    def _follow_up(self, definition: Mapping[str, Any]) -> None:
        if definition["metadata"].get("deletionTimestamp"):
            if CRD_CLEANUP in (definition["metadata"].get("finalizers") or ()):
                self._spawn(self._empty(definition))
            return
        status = status_of(definition, self._taken(definition), rfc3339(self._cluster.clock.now()))
        if status != definition.get("status"):
            report = self._spawn(self._report(definition, status))
            self._reports.add(report)
            report.add_done_callback(self._reports.discard)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _report(self, definition: Mapping[str, Any], status: Object) -> None:
        name = definition["metadata"]["name"]
        gone = ((definition.get("status") or {}).get("acceptedNames") or {}).keys() - status["acceptedNames"].keys()
        status = {**status, "acceptedNames": {**status["acceptedNames"], **dict.fromkeys(gone)}}
        try:
            await self._client.patch(
                DEFINITIONS, name, {"status": status}, subresource="status", field_manager="kube-apiserver"
            )
        except ApiError:
            return  # gone or changed meanwhile: the next event brings us here again

    async def _empty(self, definition: Mapping[str, Any]) -> None:
        """Deletes what the definition defined, then lets the definition go."""
        spec, name = definition["spec"], definition["metadata"]["name"]
        resource = self._cluster.catalogue.resource(spec["group"], spec["names"]["plural"])
        try:
            if resource is not None:
                await self._empty_resource(resource)
            entry = self._cluster.store.latest(f"{CRD_PREFIX}/{name}")
            if entry is None:
                return
            left = [each for each in entry.obj["metadata"].get("finalizers") or () if each != CRD_CLEANUP]
            await self._client.patch(DEFINITIONS, name, {"metadata": {"finalizers": left or None}})
        except ApiError:
            return  # another task was first

    async def _empty_resource(self, resource: Resource) -> None:
        store = self._cluster.store
        kind = resource.hub.kind
        target = Target(kind.group, kind.version, kind.plural, kind.namespaced, kind.kind)
        watch = store.watch(resource.prefix, store.revision)
        try:
            for entry in store.list(resource.prefix):
                meta = entry.obj["metadata"]
                await self._client.delete(
                    target, meta["name"], meta.get("namespace", ""), propagation=Propagation.BACKGROUND
                )
            while store.count(resource.prefix):  # finalizers: their owners remove them
                await watch.next()
        finally:
            watch.close()


def _is_ours(entry: Entry) -> bool:
    """Whether it is as we wrote it, without decoding it."""
    return _MARK in entry.raw and _CHANGED_MARK not in entry.raw


def _marked_ours(definition: Mapping[str, Any]) -> bool:
    mark: str = (definition["metadata"].get("annotations") or {}).get(BUNDLED, _CHANGED)
    return mark != _CHANGED


@cache
def _stamp() -> str:
    """Of the code that makes the definitions: another version of it, or a changed file, gives another."""
    digest = hashlib.sha256(gpuaas.__version__.encode())
    for path in sorted(Path(api.__path__[0]).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def _stamped(ours: Bundled, stamp: str) -> Object:
    definition = ours.definition()
    mark = f"{_digest(definition['spec'])}.{stamp}"
    annotations = {**(definition["metadata"].get("annotations") or {}), BUNDLED: mark}
    return {**definition, "metadata": {**definition["metadata"], "annotations": annotations}}


def _digest(spec: Mapping[str, Any]) -> str:
    return hashlib.sha256(encode(spec)).hexdigest()[:16]
