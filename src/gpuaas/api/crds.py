"""From Python types to CustomResourceDefinitions: the custom kinds we ship go the way a user's own CRD goes.

A kind is a msgspec Struct; what a type cannot say (limits, list keys, rules) stands beside it in `Annotated[..., says(...)]`.
`schema_of` turns that into a structural OpenAPI v3 schema, `Bundled.definition` into the CRD object. The same Structs
are the read-only views controllers take with `msgspec.convert`. Types of Kubernetes itself inside a custom kind (a pod
template, say) are `builtin(...)` places, filled in by module expansion.

Invariant: the same types give the same object, key for key. Results share parts; treat them as read-only.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, dataclass_transform, get_args, get_origin

import msgspec
from msgspec import field, structs

from gpuaas.api.expansion import QUANTITY_PATTERN, expanded
from gpuaas.api.kinds import Behaviour, Column, Object, Scale

_WORDS = {str: "string", bool: "boolean", float: "number", int: "integer"}


# -- what types say ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)  # by identity: typing wants to hash what stands in Annotated
class Says:
    """OpenAPI keywords beside a type. `required` overrules "a field without a Python default is required"."""

    keywords: Mapping[str, Any]
    required: bool | None = None
    builtin: str = ""  # the name of a Kubernetes type that stands here


def says(
    description: str = "",
    *,
    list_type: str = "",
    keys: Iterable[str] = (),
    map_type: str = "",
    rules: Iterable[tuple[str, str]] = (),
    preserve: bool = False,
    required: bool | None = None,
    **keywords: Any,
) -> Says:
    """`says(maxLength=63)`, `says(keys=["name"])` for a keyed list, `says(rules=[(rule, message)])` for CEL."""
    said = dict(keywords)
    if description:
        said["description"] = description
    if keys:
        said |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    if list_type:
        said["x-kubernetes-list-type"] = list_type
    if map_type:
        said["x-kubernetes-map-type"] = map_type
    if preserve:
        said["x-kubernetes-preserve-unknown-fields"] = True
    if rules:
        said["x-kubernetes-validations"] = [
            {"message": message, "rule": rule} if message else {"rule": rule} for rule, message in rules
        ]
    return Says(said, required)


def builtin(name: str) -> Says:
    """A type of Kubernetes itself, by its OpenAPI name without the `io.k8s.` in front."""
    return Says({}, builtin=f"io.k8s.{name}")


class _KeywordOnly(type(msgspec.Struct)):  # type: ignore[misc]
    """msgspec wants `kw_only` said again for every class; here it holds for all, so fields stand in order of meaning."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return super().__new__(cls, *args, **{"kw_only": True, **options})


if TYPE_CHECKING:  # type checkers do not see that msgspec hands frozen and rename down to subclasses

    @dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
    class Part:
        SCHEMA: ClassVar[Says]

else:

    class Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, metaclass=_KeywordOnly):
        """A part of an object. `SCHEMA` speaks for the part as a whole; the docstring becomes the description."""

        SCHEMA: ClassVar[Says] = Says({})


Int32 = Annotated[int, says(format="int32")]
Int64 = Annotated[int, says(format="int64")]
Time = Annotated[str, says(format="date-time")]
IntOrString = Annotated[
    int | str, says(anyOf=[{"type": "integer"}, {"type": "string"}], **{"x-kubernetes-int-or-string": True})
]
Quantity = Annotated[IntOrString, says(pattern=QUANTITY_PATTERN)]
StringMap = dict[str, str]

LabelSelector = Annotated[dict[str, Any], builtin("apimachinery.pkg.apis.meta.v1.LabelSelector")]
PodTemplate = Annotated[dict[str, Any], builtin("api.core.v1.PodTemplateSpec")]
PodSpec = Annotated[dict[str, Any], builtin("api.core.v1.PodSpec")]
Toleration = Annotated[dict[str, Any], builtin("api.core.v1.Toleration")]


class Meta(Part):
    """The metadata controllers read; the server owns the rest."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: StringMap = field(default_factory=dict)
    annotations: StringMap = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[dict[str, Any], ...] = ()


class Resource(Part):
    """A whole object: what every kind has; its own parts come in the subclass."""

    api_version: str = ""
    kind: str = ""
    metadata: Annotated[Meta, Says({})] = Meta()


class Condition(Part):
    """One observation about the state of an object."""

    last_transition_time: Time
    message: Annotated[str, says(maxLength=32768)]
    reason: Annotated[str, says(minLength=1, maxLength=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    status: Literal["True", "False", "Unknown"]
    type: Annotated[
        str,
        says(
            maxLength=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    observed_generation: Annotated[Int64, says(minimum=0)] = 0


Conditions = Annotated[tuple[Condition, ...], says(keys=["type"])]


# -- types to schemas -------------------------------------------------------------------------------------------------


def schema_of(kind: type[Part]) -> Object:
    """The structural schema of a kind or a part."""
    schema: Object = _struct(kind)  # type: ignore[arg-type]  # mypy takes a class with fields for unhashable
    return whole_object(schema) if issubclass(kind, Resource) else schema


def whole_object(schema: Object) -> Object:
    """The schema with what every object has."""
    properties = schema["properties"] | {
        "apiVersion": {"type": "string", "description": "The group and version this form of the object belongs to."},
        "kind": {"type": "string", "description": "The name of the kind."},
        "metadata": {"type": "object"},
    }
    return schema | {"properties": dict(sorted(properties.items()))}


@cache
def _struct(struct: Any) -> Object:
    properties: Object = {}
    required: list[str] = []
    for entry in structs.fields(struct):
        schema, must = _type(entry.type)
        properties[entry.encode_name] = schema
        if must if must is not None else entry.required:
            required.append(entry.encode_name)
    whole: Object = {"type": "object"}
    if struct.__doc__:
        whole["description"] = " ".join(struct.__doc__.split())
    if properties:
        whole["properties"] = dict(sorted(properties.items()))
    if required:
        whole["required"] = sorted(required)
    return whole | dict(struct.SCHEMA.keywords)


def _type(annotation: Any) -> tuple[Object, bool | None]:
    """The schema at a place, and whether the annotation itself says that it is required."""
    origin = get_origin(annotation)
    if origin is Annotated:
        schema, required = _type(annotation.__origin__)
        for said in annotation.__metadata__:
            if isinstance(said, Says):
                schema = expanded(said.builtin) if said.builtin else {**schema, **said.keywords}
                required = required if said.required is None else said.required
        return schema, required
    if origin in (UnionType, Union):
        choices = [choice for choice in get_args(annotation) if choice is not NoneType]
        return _type(choices[0]) if len(choices) == 1 else ({}, None)
    return _plain(annotation, origin), None


def _plain(annotation: Any, origin: Any) -> Object:
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(annotation))}
    if origin in (tuple, list):
        return {"type": "array", "items": _type(get_args(annotation)[0])[0]}
    if origin is dict:
        inner = get_args(annotation)[1]
        return {"type": "object"} if inner is Any else {"type": "object", "additionalProperties": _type(inner)[0]}
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return _struct(annotation)  # type: ignore[arg-type]
    return {"type": _WORDS[annotation]} if annotation in _WORDS else {}


# -- definitions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a kind. `schema` gives its OpenAPI when asked; nothing is built before."""

    name: str
    schema: Callable[[], Object]
    storage: bool = True
    served: bool = True
    deprecated: str = ""  # the warning every use of this version gets
    columns: tuple[Column, ...] = ()
    status: bool = False
    scale: Scale | None = None
    selectable: tuple[str, ...] = ()  # JSON paths offered as field selectors

    def definition(self) -> Object:
        return {**self.said(), "schema": {"openAPIV3Schema": self.schema()}}

    def said(self) -> Object:
        """The version as the definition has it, but for the schema, which takes the time."""
        version: Object = {"name": self.name, "served": self.served, "storage": self.storage}
        if self.deprecated:
            version |= {"deprecated": True, "deprecationWarning": self.deprecated}
        subresources: Object = {"status": {}} if self.status else {}
        if self.scale:
            subresources["scale"] = _scale(self.scale)
        if subresources:
            version["subresources"] = subresources
        if self.columns:
            version["additionalPrinterColumns"] = [_column(column) for column in self.columns]
        if self.selectable:
            version["selectableFields"] = [{"jsonPath": path} for path in self.selectable]
        return version


@dataclass(frozen=True, slots=True)
class Bundled:
    """A custom kind that comes with the product. `convert(object, version)` is absent where versions differ in name only."""

    group: str
    kind: str
    plural: str
    namespaced: bool
    versions: tuple[Version, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    annotations: Mapping[str, str] | None = None
    behaviour: Behaviour | None = None
    convert: Callable[[Object, str], Object] | None = None

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    @property
    def storage_version(self) -> str:
        return next(version.name for version in self.versions if version.storage)

    def names(self) -> Object:
        names: Object = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.kind.lower(),
        }
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        if self.categories:
            names["categories"] = list(self.categories)
        return names

    def definition(self) -> Object:
        """The CustomResourceDefinition, built from shared parts."""
        metadata: Object = {"name": self.name}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": self.group,
                "names": self.names(),
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "versions": [version.definition() for version in self.versions],
                "conversion": {"strategy": "None"},
            },
        }


def _column(column: Column) -> Object:
    said: Object = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.format:
        said["format"] = column.format
    if column.description:
        said["description"] = column.description
    if column.priority:
        said["priority"] = column.priority
    return said


def _scale(scale: Scale) -> Object:
    said: Object = {"specReplicasPath": scale.spec_path, "statusReplicasPath": scale.status_path}
    if scale.selector_path:
        said["labelSelectorPath"] = scale.selector_path
    return said
