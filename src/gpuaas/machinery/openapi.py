"""OpenAPI documents of what the server offers: one v3 document per group and version, their index, and a v2 document.

They are made from `Kind`s and the schemas they name; `kubectl explain`, `apply`, `diff` and field validation read them.
Each document holds the schemas it refers to and nothing else, and none of our own `x-gpuaas-*` notes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from gpuaas.api.kinds import Kind
from gpuaas.machinery.openapi_paths import META, kind_paths, root_path
from gpuaas.machinery.schema.model import REF_PREFIX

# Gives the OpenAPI v3 dictionary of a named schema; KeyError if there is none.
SchemaSource = Callable[[str], Mapping[str, Any]]

_SECURITY: Final = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}
_OUR_NOTES: Final = "x-gpuaas-"
_KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
# Of Kubernetes' own types these are not said: what they hold is known by their names.
_UNPUBLISHED: Final = ((_KEEPS_UNKNOWN, True), ("format", "quantity"))
_V2_PREFIX: Final = "#/definitions/"
# Where Kubernetes' own types live: these kinds take strategic merge patches, custom resources do not.
_BUILT_IN: Final = ("io.k8s.api.", "io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.", "io.k8s.apimachinery.")


def schema_name(group: str, version: str, kind: str) -> str:
    """How the schema of a custom resource is called: io.x-k8s.kueue.v1beta1.Workload."""
    return ".".join([*reversed(group.split(".")), version, kind])


def group_version_path(group: str, version: str) -> str:
    """The key of a document in the index: apis/batch/v1."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def v3_document(kinds: Iterable[Kind], schema_of: SchemaSource, *, version: str = "1.36") -> dict[str, Any]:
    """The document of one group and version; `kinds` are its kinds."""
    served = list(kinds)
    paths = _paths(served)
    schemas = _schemas(served, paths, schema_of)
    named = {"schemas": dict(sorted(schemas.items()))} if schemas else {}  # Go reads an empty map and writes none
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": dict(sorted(paths.items())),
        "components": {**named, "securitySchemes": _SECURITY},
    }


def v3_index(hashes: Mapping[str, str], *, prefix: str = "") -> dict[str, Any]:
    """What /openapi/v3 answers. `hashes` are those of the encoded documents by their path (`apis/batch/v1`); `prefix`
    is what stands before /openapi in the URLs of this server."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"{prefix}/openapi/v3/{path}?hash={value}"}
            for path, value in sorted(hashes.items())
        }
    }


def v2_document(
    kinds: Iterable[Kind], schema_of: SchemaSource, *, by_name: Iterable[Kind] = (), version: str = "1.36"
) -> dict[str, Any]:
    """Everything in one Swagger 2.0 document. kubectl reads all of it with each apply of a custom resource, so those of
    `by_name` are only named, as Kubernetes does with kinds that keep what it does not know."""
    served = list(kinds)
    paths = {**_paths(served), **dict(_roots({kind.group for kind in served if _built_in(kind)}))}
    schemas = _schemas(served, paths, schema_of)
    for kind in (one for one in served if not _built_in(one) and one.schema in schemas):
        known = schemas[kind.schema]
        schemas[kind.schema] = _named_only(kind) if known.get(_KEEPS_UNKNOWN) else _v2_custom(known)
    schemas |= {kind.schema: _named_only(kind) for kind in by_name}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {path: _v2_path(item) for path, item in sorted(paths.items())},
        "definitions": {name: _v2_schema(schema) for name, schema in sorted(schemas.items())},
        "securityDefinitions": _SECURITY,
        "security": [{"BearerToken": []}],
    }


def _paths(kinds: list[Kind]) -> dict[str, Any]:
    paths = {path: item for kind in kinds for path, item in kind_paths(kind, strategic=_built_in(kind))}
    for group, version in {(kind.group, kind.version) for kind in kinds if _built_in(kind)}:
        root = f"/{group_version_path(group, version)}/"
        paths |= dict([root_path(root, f"{META}APIResourceList", "the resources of this group and version")])
    return paths


def _roots(groups: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The paths above the groups' versions; without groups there are none."""
    if not groups:
        return
    yield root_path("/api/", f"{META}APIVersions", "the versions of the core group")
    yield root_path("/apis/", f"{META}APIGroupList", "the groups")
    yield root_path("/version/", "io.k8s.apimachinery.pkg.version.Info", "the version of this server")
    for group in groups - {""}:
        yield root_path(f"/apis/{group}/", f"{META}APIGroup", "the versions of this group")


def _built_in(kind: Kind) -> bool:
    return kind.schema.startswith(_BUILT_IN)


def _schemas(kinds: list[Kind], paths: Mapping[str, Any], schema_of: SchemaSource) -> dict[str, Any]:
    """The named schemas the paths refer to, and those they refer to in turn."""
    by_name = {kind.schema: kind for kind in kinds}
    lists = {f"{kind.schema}List": kind for kind in kinds}
    places = sorted({("", "v1"), *((kind.group, kind.version) for kind in kinds if _built_in(kind))})
    found: dict[str, Any] = {}
    waiting = list(dict.fromkeys(_references(paths)))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _published(name, by_name.get(name), lists.get(name), schema_of, places)
        waiting.extend(_references(found[name]))
    return found


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(REF_PREFIX)
            else:
                yield from _references(value)
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _references(item)


def _published(
    name: str, kind: Kind | None, of_list: Kind | None, schema_of: SchemaSource, places: list[tuple[str, str]]
) -> dict[str, Any]:
    """A schema as it is published. `places`: the groups and versions to which a type that is everywhere belongs."""
    try:
        source = schema_of(name)
        schema: dict[str, Any] = _without_notes(source)
        if source.get("x-gpuaas-everywhere"):
            spelled = name.rpartition(".")[2]
            schema["x-kubernetes-group-version-kind"] = [
                {"group": group, "kind": spelled, "version": version} for group, version in places
            ]
        if name.startswith(_BUILT_IN):
            schema = {key: value for key, value in schema.items() if (key, value) not in _UNPUBLISHED}
    except KeyError:
        schema = _list_schema(of_list) if of_list is not None else _stand_in(name)
    said = kind or of_list
    if said is None or "x-kubernetes-group-version-kind" in schema:
        return schema
    spelled = said.kind if kind is not None else said.list_kind
    schema["x-kubernetes-group-version-kind"] = [{"group": said.group, "kind": spelled, "version": said.version}]
    if kind is not None:
        schema["properties"] = _with_meta(schema.get("properties", {}))
    return schema


def _with_meta(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Every object has apiVersion, kind and metadata, said or not; custom resources mostly only say `type: object`."""
    made = {
        "apiVersion": {"type": "string", "description": "The group and version of this representation of the object."},
        "kind": {"type": "string", "description": "The kind of the object, in CamelCase."},
        **properties,
    }
    metadata = made.get("metadata")
    if not isinstance(metadata, Mapping) or not list(_references(metadata)):
        made["metadata"] = {
            "description": "The metadata every object has.",
            "allOf": [{"$ref": f"{REF_PREFIX}{META}ObjectMeta"}],
        }
    return made


def _list_schema(kind: Kind) -> dict[str, Any]:
    return {
        "description": f"{kind.list_kind} is a list of {kind.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The group and version of the list."},
            "items": {
                "description": "The objects.",
                "type": "array",
                "items": {"$ref": f"{REF_PREFIX}{kind.schema}"},
            },
            "kind": {"type": "string", "description": "The kind of the list."},
            "metadata": {
                "description": "The metadata of the list.",
                "allOf": [{"$ref": f"{REF_PREFIX}{META}ListMeta"}],
            },
        },
    }


def _named_only(kind: Kind) -> dict[str, Any]:
    said = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    return {"type": "object", "x-kubernetes-group-version-kind": [said]}


def _stand_in(name: str) -> dict[str, Any]:
    """An undescribed type: an object of which nothing is known, rather than a reference that leads nowhere."""
    return {"type": "object", "description": f"{name.rpartition('.')[2]}, without a description of its fields."}


def _without_notes(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {key: _without_notes(value) for key, value in part.items() if not str(key).startswith(_OUR_NOTES)}
    return [_without_notes(item) for item in part] if isinstance(part, list | tuple) else part


def _v2_custom(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a custom resource's schema that kubectl can hold against an object: it takes fields that are listed
    for all there are, and a type for one that excludes null. What may be more than that stays open."""
    nullable, unknown = schema.get("nullable"), schema.get(_KEEPS_UNKNOWN)
    made = {key: value for key, value in schema.items() if key not in ("oneOf", "anyOf", "not", "nullable")}
    if nullable or unknown:
        made = {key: value for key, value in made.items() if key not in ("properties", "items")}
    typed = made.get("type")
    if nullable or (unknown and typed == "object") or (typed == "array" and "items" not in made):
        made.pop("type", None)
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), Mapping):
            made[key] = _v2_custom(made[key])
    if "properties" in made:
        properties: Mapping[str, Any] = made["properties"]
        made["properties"] = {name: _v2_custom(part) for name, part in properties.items()}
        if "required" in made:
            made["required"] = [name for name in made["required"] if not properties.get(name, {}).get("nullable")]
    return made


def _v2_schema(schema: Any) -> Any:
    """Swagger 2.0 knows neither alternatives nor nullable, and a reference stands alone."""
    if isinstance(schema, list):
        return [_v2_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    only = schema.get("allOf", ())
    made: dict[str, Any] = {
        # the keys of properties are names, whatever they look like
        key: {name: _v2_schema(place) for name, place in value.items()} if key == "properties" else _v2_schema(value)
        for key, value in schema.items()
        if key not in ("oneOf", "anyOf", "not", "nullable", "allOf") and not (key == "default" and only)
    }
    if len(only) == 1 and "$ref" in only[0]:
        made["$ref"] = only[0]["$ref"]
    if "$ref" in made:
        made["$ref"] = made["$ref"].replace(REF_PREFIX, _V2_PREFIX)
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        made |= {"type": "string", "format": "int-or-string"}
    if ("oneOf" in schema or "anyOf" in schema) and "type" not in made and "properties" not in made:
        made["type"] = "string"
    return made


def _v2_path(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        method: [_v2_parameter(each) for each in part] if method == "parameters" else _v2_operation(part)
        for method, part in item.items()
    }


def _v2_parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parameter.items() if key != "schema"} | dict(parameter["schema"])


def _v2_operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody")
    parameters = [_v2_parameter(each) for each in operation.get("parameters", ())]
    consumes = ["*/*"]
    if body is not None:
        consumes = sorted(body["content"])
        schema = _v2_schema(next(iter(body["content"].values()))["schema"])
        place: dict[str, Any] = {"name": "body", "in": "body", "schema": schema}
        parameters.insert(0, {**place, "required": True} if body.get("required") else place)
    made = {key: value for key, value in operation.items() if key not in ("requestBody", "responses", "parameters")}
    made |= {"consumes": consumes, "produces": ["application/json", "application/yaml"], "schemes": ["https"]}
    if parameters:
        made["parameters"] = parameters
    made["responses"] = {code: _v2_answer(answer) for code, answer in operation["responses"].items()}
    return made


def _v2_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    content = answer.get("content")
    made: dict[str, Any] = {"description": answer["description"]}
    if content:
        made["schema"] = _v2_schema(next(iter(content.values()))["schema"])
    return made
