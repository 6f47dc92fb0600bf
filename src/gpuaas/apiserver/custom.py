"""Custom resources: a definition becomes a resource that is served like any other.

The kinds we ship and a user's own take this same way; ours also bring a behaviour (rules a schema cannot say) and a
conversion between versions. Schemas are compiled when first used: most of what is defined is never asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

import gpuaas
from gpuaas.api.crds import Bundled
from gpuaas.api.kinds import Behaviour, Column, Kind, Object, Scale
from gpuaas.apiserver import validation_cache
from gpuaas.apiserver.catalogue import Convert, Resource, Version
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.discovery import version_priority
from gpuaas.apiserver.known_statuses import KnownStatuses
from gpuaas.base.fielderrors import FieldError
from gpuaas.base.memo import FoundRight
from gpuaas.machinery.jsonpath import parse_path
from gpuaas.machinery.openapi import schema_name
from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.schema.structural import has_embedded, prune, read
from gpuaas.machinery.schema.subresources import said_of_status, scale_errors
from gpuaas.machinery.tables import AGE

_parse = msgspec.json.Decoder().decode
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ANYTHING: Mapping[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRING: Mapping[str, Any] = {"type": "string"}
# All of them, in the order Kubernetes lists them for custom resources.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class CustomVersion:
    def __init__(self, kind: Kind, openapi: Callable[[], Mapping[str, Any]], schemas: SchemaSet) -> None:
        self.kind = kind
        self._openapi = openapi
        self._schemas = schemas
        self._schema: Schema | None = None
        self._checked = FoundRight[FieldError]()
        self._empty_status = b""

    @property
    def openapi(self) -> Mapping[str, Any]:
        return self._openapi() or _ANYTHING

    @property
    def schema(self) -> Schema:
        """The schema with what every object has: a definition need not say it, an apply sends it all the same."""
        if self._schema is None:
            schema = self._schemas.inline(self.openapi)
            for key in ("apiVersion", "kind"):
                schema.properties.setdefault(key, self._schemas.inline(_STRING))
            metadata = schema.properties["metadata"] = self._schemas.named(OBJECT_META)
            if has_embedded(schema):
                _name_metadata(schema, metadata)
            self._schema = schema
        return self._schema

    def read(self, obj: Object) -> tuple[Object, list[str]]:
        decoded = read(self.schema, obj, metadata=self._schemas.named(OBJECT_META))
        return decoded.obj, decoded.unknown

    def read_applied(self, obj: Object) -> Object:
        return read(self.schema, obj, metadata=self._schemas.named(OBJECT_META), applied=True).obj

    def check(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None,
        subresource: str = "",
        *,
        found: Sequence[FieldError] = (),
    ) -> list[FieldError]:
        if found or self._speaks_of_metadata or (subresource == "status" and self.statuses is not None):
            return self._check(obj, old, subresource, found)
        if self._asks_no_words:
            said = validation_cache.outline(obj, old)
        else:
            said = (validation_cache.content(obj), None if old is None else validation_cache.content(old))
        return self._checked.of((said, subresource), lambda: self._check(obj, old, subresource))

    @cached_property
    def statuses(self) -> KnownStatuses | None:
        if self._speaks_of_metadata or not self._asks_no_words:
            return None
        return KnownStatuses(validation_cache.free_numbers(self.openapi, self.kind.behaviour.free_numbers))

    @cached_property
    def _asks_no_words(self) -> bool:
        return validation_cache.asks_no_words(self.openapi)

    @cached_property
    def _speaks_of_metadata(self) -> bool:
        """Whether what is asked of an object may depend on its name."""
        said = self.openapi.get("properties", {}).get("metadata") or {}
        rules = self.openapi.get("x-kubernetes-validations") or ()
        return bool(said.keys() - {"type", "description"}) or any("metadata" in str(rule) for rule in rules)

    def _check(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None,
        subresource: str = "",
        found: Sequence[FieldError] = (),
    ) -> list[FieldError]:
        from gpuaas.machinery.schema.rules import validate_custom  # CEL is loaded with the first custom resource

        errors = validate_custom(self.schema, obj, old, found=found)
        if subresource == "status" and errors:
            errors = [said_of_status(error) for error in errors]
        return errors + scale_errors(self.kind.scale, obj, subresource) if self.kind.scale is not None else errors

    def empty_status(self) -> Object | None:
        """Whatever the definition says a status is from the start."""
        if not self._empty_status:
            self._empty_status = encode(self.read({"metadata": {}})[0].get("status"))
        status: Object | None = _parse(self._empty_status)
        return status

    def shown(self, obj: Object) -> Object:
        return prune(self.schema, obj)[0]


def _name_metadata(schema: Schema, metadata: Schema) -> None:
    """Objects inside of others have metadata as well: who owns which part of it is known by its type."""
    for place in (*schema.properties.values(), schema.items, schema.additional):
        if place is None or place is metadata or not has_embedded(place):
            continue
        if place.embedded:
            place.properties["metadata"] = metadata
        _name_metadata(place, metadata)


class _SelectableFields(Behaviour):
    """A custom kind without rules of ours: what its definition says can be selected by, can be."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.field_selectors = tuple(path.lstrip(".") for path in paths)
        self._paths = {path.lstrip("."): parse_path(path) for path in paths}

    def fields(self, obj: Mapping[str, Any]) -> Mapping[str, str]:
        return {name: _text(path.find(obj)) for name, path in self._paths.items()}


def _text(found: list[Any]) -> str:
    if not found:
        return ""
    value = found[0]
    return str(value).lower() if isinstance(value, bool) else str(value)


def custom_resource(
    definition: Mapping[str, Any],
    schemas: SchemaSet,
    behaviour: Behaviour | None = None,
    convert: Convert | None = None,
    stamp: str = "",
) -> Resource | None:
    """The resource a CustomResourceDefinition defines; None if it serves no version."""
    spec = definition["spec"]
    versions: dict[str, Version] = {}
    hub = ""
    for said in spec["versions"]:
        if said.get("storage"):
            hub = said["name"]
        if not said.get("served") and not said.get("storage"):
            continue
        kind = _kind(spec, said, behaviour)
        versions[said["name"]] = CustomVersion(kind, _schema_of(said), schemas)
    if hub not in versions:
        return None
    resource = Resource(versions, hub, convert=convert, custom=True, stamp=stamp)
    for said in spec["versions"]:
        if not said.get("served"):
            resource.versions.pop(said["name"], None)
    return resource if resource.versions else None


def bundled_resource(ours: Bundled, schemas: SchemaSet) -> Resource:
    """A resource we ship, from its types: no schema is built before it is used."""
    spec = {
        "group": ours.group,
        "scope": "Namespaced" if ours.namespaced else "Cluster",
        "names": ours.names(),
    }
    versions = {
        each.name: CustomVersion(_kind(spec, each.said(), ours.behaviour), each.schema, schemas)
        for each in ours.versions
    }
    resource = Resource(versions, ours.storage_version, convert=ours.convert, custom=True, stamp=gpuaas.__version__)
    for each in ours.versions:
        if not each.served:
            del resource.versions[each.name]
    return resource


def _schema_of(said: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    schema: Mapping[str, Any] = (said.get("schema") or {}).get("openAPIV3Schema") or {}
    return lambda: schema


def _kind(spec: Mapping[str, Any], said: Mapping[str, Any], behaviour: Behaviour | None) -> Kind:
    names = spec["names"]
    subresources = said.get("subresources") or {}
    selectable = tuple(each["jsonPath"] for each in said.get("selectableFields") or ())
    group, version = spec["group"], said["name"]
    deprecated = ""
    if said.get("deprecated"):
        deprecated = said.get("deprecationWarning") or _deprecation(spec, version)
    return Kind(
        group=group,
        version=version,
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        schema=schema_name(group, version, names["kind"]),
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
        scale=_scale(subresources.get("scale")),
        verbs=_VERBS,
        columns=tuple(_column(each) for each in said.get("additionalPrinterColumns") or ()) or (AGE,),
        behaviour=behaviour or _SelectableFields(selectable),
        deprecated=deprecated,
    )


def _deprecation(spec: Mapping[str, Any], version: str) -> str:
    """With the best version to go to: the highest that is served and not deprecated."""
    group, kind = spec["group"], spec["names"]["kind"]
    others = {each["name"] for each in spec.get("versions") or () if each.get("served") and not each.get("deprecated")}
    best = max(others, key=version_priority, default="")
    newer = f"; use {group}/{best} {kind}" if best and version_priority(best) > version_priority(version) else ""
    return f"{group}/{version} {kind} is deprecated{newer}"


def _scale(said: Mapping[str, Any] | None) -> Scale | None:
    if not said:
        return None
    return Scale(said["specReplicasPath"], said["statusReplicasPath"], said.get("labelSelectorPath", ""))


def _column(said: Mapping[str, Any]) -> Column:
    return Column(
        said["name"],
        said["type"],
        said.get("format", ""),
        said.get("description", ""),
        said.get("priority", 0),
        said["jsonPath"],
    )
