"""The types of the built-in kinds, read from tables of facts into OpenAPI schemas, each when first asked for.

A table (`types/<group>.<version>.types`) has one block for a type and one line for a field:

    Container atomic                                          the type, marks of the type, `# ` its description
      name!      string                                       `!` required; without `?` Go always writes the field
      ports?     []ContainerPort  map(name) merge(name)       `?` left out when empty (omitempty), `??` when zero
      image?     *string:PullPolicy  enum(A,B) =A             `*` pointer, `:` Go's name, enum values, default

`[]T` is a list and `{}T` a map by string; `core.Pod` is a type of another table. Marks of a type: `kind` (has a kind and
an apiVersion), `listed` (and a list kind), `everywhere` (belongs to every group), `atomic`, `union(...)`. Marks of a
field: the list or map type (`atomic`, `set`, `map(keys)`, `granular`), the patch strategy (`merge(key)`,
`retainKeys`), `in(Struct)` for what Go embeds. How Go writes zero values follows from all this (`_zero`); the schema
says it as `x-gpuaas-zero` for module gpuaas.machinery.schema.decode.
"""

import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from gpuaas.base.errors import qualified

REF_PREFIX: Final = "#/components/schemas/"

# The first part of a schema's name: its table, and the group and version of its kinds.
TABLES: Final[Mapping[str, tuple[str, str, str]]] = {
    "io.k8s.apimachinery.pkg.apis.meta.v1": ("meta.v1", "", "v1"),
    "io.k8s.apimachinery.pkg.version": ("version", "", ""),
    "io.k8s.api.core.v1": ("core.v1", "", "v1"),
    "io.k8s.api.admissionregistration.v1": ("admissionregistration.v1", "admissionregistration.k8s.io", "v1"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1": ("apiextensions.v1", "apiextensions.k8s.io", "v1"),
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1": ("apiregistration.v1", "apiregistration.k8s.io", "v1"),
    "io.k8s.api.apps.v1": ("apps.v1", "apps", "v1"),
    "io.k8s.api.authentication.v1": ("authentication.v1", "authentication.k8s.io", "v1"),
    "io.k8s.api.authorization.v1": ("authorization.v1", "authorization.k8s.io", "v1"),
    "io.k8s.api.autoscaling.v1": ("autoscaling.v1", "autoscaling", "v1"),
    "io.k8s.api.autoscaling.v2": ("autoscaling.v2", "autoscaling", "v2"),
    "io.k8s.api.batch.v1": ("batch.v1", "batch", "v1"),
    "io.k8s.api.certificates.v1": ("certificates.v1", "certificates.k8s.io", "v1"),
    "io.k8s.api.coordination.v1": ("coordination.v1", "coordination.k8s.io", "v1"),
    "io.k8s.api.discovery.v1": ("discovery.v1", "discovery.k8s.io", "v1"),
    "io.k8s.api.events.v1": ("events.v1", "events.k8s.io", "v1"),
    "io.k8s.api.flowcontrol.v1": ("flowcontrol.v1", "flowcontrol.apiserver.k8s.io", "v1"),
    "io.k8s.api.networking.v1": ("networking.v1", "networking.k8s.io", "v1"),
    "io.k8s.api.node.v1": ("node.v1", "node.k8s.io", "v1"),
    "io.k8s.api.policy.v1": ("policy.v1", "policy", "v1"),
    "io.k8s.api.rbac.v1": ("rbac.v1", "rbac.authorization.k8s.io", "v1"),
    "io.k8s.api.resource.v1": ("resource.v1", "resource.k8s.io", "v1"),
    "io.k8s.api.scheduling.v1": ("scheduling.v1", "scheduling.k8s.io", "v1"),
    "io.k8s.api.storage.v1": ("storage.v1", "storage.k8s.io", "v1"),
}
_NAMES_OF: Final = {table: prefix for prefix, (table, _, _) in TABLES.items()}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

_ANYTHING: Final = {"x-kubernetes-preserve-unknown-fields": True}
_SCHEMA: Final = {"x-gpuaas-objects": {"$ref": f"#/components/schemas/{_EXTENSIONS}JSONSchemaProps"}}
# Types with a spelling of their own: how tables call them, their full name, their schema.
_SPECIAL: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "Time": (_META + "Time", {"type": "string", "format": "date-time"}),
    "MicroTime": (_META + "MicroTime", {"type": "string", "format": "date-time", "x-gpuaas-micro": True}),
    "FieldsV1": (_META + "FieldsV1", {"type": "object", **_ANYTHING}),
    "Quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"format": "quantity", "oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "Raw": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object", **_ANYTHING}),
    "JSON": (_EXTENSIONS + "JSON", _ANYTHING),
    "JSONSchemaPropsOrArray": (_EXTENSIONS + "JSONSchemaPropsOrArray", {**_ANYTHING, **_SCHEMA}),
    "JSONSchemaPropsOrBool": (_EXTENSIONS + "JSONSchemaPropsOrBool", {**_ANYTHING, **_SCHEMA}),
    "JSONSchemaPropsOrStringArray": (_EXTENSIONS + "JSONSchemaPropsOrStringArray", {**_ANYTHING, **_SCHEMA}),
}
_SPECIAL_BY_NAME: Final = dict(_SPECIAL.values())
_SCALARS: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
}
_TYPE_META: Final = ("  kind?  string", "  apiVersion?  string")
_DESCRIBED: Final = {
    "kind": "The kind of this object, such as Pod.",
    "apiVersion": "The group and version of the kind, such as apps/v1.",
    "metadata": "Name, labels, owners and other things every object has.",
    "spec": "What is wanted.",
    "status": "What is; written by the system.",
}
_MARK: Final = re.compile(r"=(\S+)|([\w+]+)(?:\(([^)]*)\))?")


def schema_source(name: str) -> Mapping[str, Any]:
    """The OpenAPI v3 schema of a type such as `io.k8s.api.core.v1.PodSpec`; KeyError if there is none."""
    special = _SPECIAL_BY_NAME.get(name)
    if special is not None:
        return special
    prefix, _, short = name.rpartition(".")
    if prefix not in TABLES:
        raise KeyError(name)
    blocks = _blocks(TABLES[prefix][0])
    if short in blocks:
        return _type_schema(prefix, blocks[short])
    item = short.removesuffix("List")
    if item in blocks and "listed" in _marks_of_type(blocks[item]):
        return _list_schema(prefix, item)
    raise KeyError(name)


def schema_names(group: str, version: str) -> list[str]:
    """The names of all types of one group and version, lists included; [] for a group that is not built in."""
    for prefix, (table, its_group, its_version) in TABLES.items():
        if (its_group, its_version) == (group, version) and table not in ("meta.v1", "version"):
            return [f"{prefix}.{short}" for short in _shorts(table)]
    return []


def meta_schema_names() -> list[str]:
    """The types every group shares."""
    versions = (f"io.k8s.apimachinery.pkg.version.{short}" for short in _shorts("version"))
    return [*(f"{_META}{short}" for short in _shorts("meta.v1")), *versions, *_SPECIAL_BY_NAME]


def _shorts(table: str) -> Iterator[str]:
    for short, block in _blocks(table).items():
        yield short
        if "listed" in _marks_of_type(block):
            yield f"{short}List"


@cache
def _blocks(table: str) -> dict[str, str]:
    data = pkgutil.get_data(__package__, f"types/{table}.types")
    if data is None:
        raise KeyError(table)
    return {block.split(None, 1)[0]: block for block in data.decode().rstrip().split("\n\n")}


def _marks_of_type(block: str) -> dict[str, str]:
    head = block.partition("\n")[0].partition("  # ")[0]
    return {found[2]: found[3] or "" for found in _MARK.finditer(head, head.find(" ") + 1 or len(head))}


def _type_schema(prefix: str, block: str) -> dict[str, Any]:
    head, _, body = block.partition("\n")
    marks = _marks_of_type(block)
    _, group, version = TABLES[prefix]
    short = head.split(" ", 1)[0]
    is_kind = "kind" in marks or "listed" in marks
    lines = [*(_TYPE_META if is_kind else ()), *body.splitlines()]
    schema: dict[str, Any] = {"type": "object"}
    description = head.partition("  # ")[2]
    if description:
        schema["description"] = description
    properties: dict[str, Any] = {}
    required: list[str] = []
    for line in lines:
        words = line.split(None, 2)
        key = words[0].rstrip("?").rstrip("!")
        properties[key] = _field_schema(prefix, words)
        if is_kind and key in _DESCRIBED:
            properties[key]["description"] = _DESCRIBED[key]
        if "!" in words[0]:
            required.append(key)
    if required:
        schema["required"] = required
    if properties:
        schema["properties"] = properties
    if "atomic" in marks:
        schema["x-kubernetes-map-type"] = "atomic"
    if "union" in marks:
        schema["x-kubernetes-unions"] = [_union(marks["union"])]
    if "everywhere" in marks:
        schema["x-gpuaas-everywhere"] = True  # every group and version has it: the publisher knows them
    if is_kind:
        schema["x-kubernetes-group-version-kind"] = [{"group": group, "kind": short, "version": version}]
    return schema


def _list_schema(prefix: str, item: str) -> dict[str, Any]:
    _, group, version = TABLES[prefix]
    return {
        "type": "object",
        "description": f"A list of {qualified(group, item)} objects.",
        "required": ["items"],
        "properties": {
            "kind": {"type": "string", "description": _DESCRIBED["kind"]},
            "apiVersion": {"type": "string", "description": _DESCRIBED["apiVersion"]},
            "metadata": {"$ref": f"{REF_PREFIX}{_META}ListMeta"},
            "items": {"type": "array", "items": {"$ref": f"{REF_PREFIX}{prefix}.{item}"}},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "kind": f"{item}List", "version": version}],
    }


def _union(text: str) -> dict[str, Any]:
    discriminator, _, pairs = text.partition(";")
    union: dict[str, Any] = {"discriminator": discriminator} if discriminator else {}
    union["fields-to-discriminateBy"] = dict(pair.split("=") for pair in pairs.split(","))
    return union


def _field_schema(prefix: str, words: list[str]) -> dict[str, Any]:
    pointer = words[1].startswith("*")
    kind, _, go_type = words[1].removeprefix("*").partition(":")
    schema = _place(prefix, kind)
    zero = _zero(kind, pointer, words[0])
    if zero:
        _add(schema, "x-gpuaas-zero", zero)
    if go_type.startswith("=") or (go_type and not kind.startswith("[")):  # "=": the list itself is called so
        qualifier = "" if "." in go_type else TABLES[prefix][2] + "."
        schema["x-gpuaas-go-type"] = qualifier + go_type.removeprefix("=")
    for found in _MARK.finditer(words[2] if len(words) > 2 else ""):
        _mark(schema, kind, found)
    return schema


def _place(prefix: str, kind: str) -> dict[str, Any]:
    if kind.startswith("[]"):
        return {"type": "array", "items": _place(prefix, kind[2:])}
    if kind.startswith("{}"):
        return {"type": "object", "additionalProperties": _place(prefix, kind[2:])}
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    return {"$ref": f"{REF_PREFIX}{_full_name(prefix, kind)}"}


def _full_name(prefix: str, kind: str) -> str:
    if kind in _SPECIAL:
        return _SPECIAL[kind][0]
    table, _, short = kind.rpartition(".")
    return f"{_NAMES_OF[f'{table}.v1']}.{short}" if table else f"{prefix}.{kind}"


def _zero(kind: str, pointer: bool, name: str) -> str:
    """How Go's encoder writes the field when it is empty, from its type and its json tag."""
    omit = name.endswith("?")
    if pointer:
        return "" if omit else "null"
    if name.endswith("??"):
        return "drop"
    is_scalar = kind in _SCALARS and kind != "bytes"
    is_struct = not is_scalar and kind[0] not in "[{" and kind != "bytes"
    if is_struct:  # omitempty means nothing for a struct
        return "always"
    return "drop" if omit else "always"


def _mark(schema: dict[str, Any], kind: str, found: re.Match[str]) -> None:
    default, name, inside = found.groups()
    if default is not None:
        _add(schema, "default", int(default) if kind.startswith("int") else default)
        return
    match name:
        case "map":
            schema["x-kubernetes-list-map-keys"] = inside.split(",")
            schema["x-kubernetes-list-type"] = "map"
        case "atomic" | "set" | "granular":
            _add(schema, f"x-kubernetes-{'list' if kind.startswith(('[]', 'bytes')) else 'map'}-type", name)
        case "enum":
            (schema.get("items") or schema.get("additionalProperties") or schema)["enum"] = inside.split(",")
        case "in":
            _add(schema, "x-gpuaas-embedded-in", inside)
        case _:
            if inside:
                _add(schema, "x-kubernetes-patch-merge-key", inside)
            _add(schema, "x-kubernetes-patch-strategy", name.replace("+", ","))


def _add(schema: dict[str, Any], key: str, value: Any) -> None:
    """Say something about a place; next to a bare reference OpenAPI would not hear it, so that becomes an allOf."""
    reference = schema.pop("$ref", None)
    if reference is not None:
        schema["allOf"] = [{"$ref": reference}]
    schema[key] = value
