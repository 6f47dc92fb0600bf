"""What a client sent: JSON, YAML or protobuf becomes a tree; what is none of them is refused in Kubernetes' words.

The words depend on what was expected (an object, a patch, the options of a delete), so each has its function. The
form of answers is module codec's. What is long has been read elsewhere when it comes here (module prepared).
"""

import json
from typing import Any, Final

import msgspec

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes.schemas import schema_source
from gpuaas.api.kubernetes.wire import wire_numbers, wire_type
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.prepared import OFF_LOOP, Prepared
from gpuaas.base.errors import ApiError, BadRequest, MethodNotAllowed, TooLarge, UnsupportedMediaType
from gpuaas.machinery.gojson import json_problem, whole_characters
from gpuaas.machinery.jsonpatch import json_kind
from gpuaas.machinery.protobuf import ProtobufError, ProtobufReader, unwrap
from gpuaas.machinery.schema.model import SchemaSet
from gpuaas.machinery.schema.strict import duplicate_fields
from gpuaas.machinery.yamltext import BODY, YamlError, read_yaml

PATCH_TYPES: Final = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
YAML_TYPES: Final = frozenset(("application/yaml",))
_UNSUPPORTED: Final = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
SCHEME: Final = "pkg/runtime/scheme.go:111"  # what the real server calls its table of types
_MAX_DEPTH: Final = BODY.depth  # objects in objects; schemas of whole workloads have 50
_MAX_VALUES: Final = (
    BODY.values
)  # keys and values: each costs microseconds on its way to the store, however short it is
_MAX_KEY: Final = BODY.key  # characters: no name, label or path in use has a tenth of that
_SUMMARY: Final = 30  # bytes of a body that are repeated in the answer

_decoder = msgspec.json.Decoder()
# Built-in types are the same for every cluster, so one reader serves all.
_protobuf = ProtobufReader(SchemaSet(schema_source).named, wire_numbers)
# The worker thread has one of its own: a reader learns a type when it first meets it, which two threads cannot do at once.
_protobuf_of_worker = ProtobufReader(SchemaSet(schema_source).named, wire_numbers)


class Unreadable(ValueError):
    """Not the format it says it is; the text says why."""


def read_object(body: bytes, media: str, kind: str, api_version: str = "") -> Object:
    """The object in a body. A body that says nothing (`null`) is an empty object."""
    try:
        obj = _decoded(body, media_type(media), (api_version, kind))
        _check_type_meta(obj)
    except Unreadable as problem:
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind}): {problem} ({summary(body)})"
        ) from None
    return {} if obj is None else obj


def prepare(body: bytes, media: str, kind: tuple[str, str]) -> Prepared:
    """The body with all that reading it brings, for a worker thread: nothing here touches the server's state."""
    made = Prepared(body)
    form = media_type(media)
    try:
        if form in YAML_TYPES:
            document = read_yaml(body)
            made.keep(document.value, encode(document.value), document.repeats)
        elif form == "application/vnd.kubernetes.protobuf":
            tree = _parse_protobuf(body, kind, _protobuf_of_worker)
            made.keep(tree, encode(tree), [])
        elif PATCH_TYPES.get(form) == "apply":
            tree = _configured(body)
            made.keep(tree, encode(tree), repeats_applied(body, tree))
        else:
            tree = parse_json(body)
            made.keep(tree, encode(tree), repeated_fields(body, tree))
    except (Unreadable, YamlError, ApiError) as problem:
        made.problem = problem
    return made


def read_options(body: bytes, media: str) -> Object | None:
    """The options of a delete; None where the body is empty."""
    if not body:
        return None
    try:
        obj = _decoded(body, media_type(media))
        _check_type_meta(obj)
    except Unreadable as problem:
        raise BadRequest(str(problem)) from None
    if obj and obj.get("kind", "DeleteOptions") != "DeleteOptions":
        version = obj.get("apiVersion", "")
        raise BadRequest(f'no kind "{obj["kind"]}" is registered for version "{version}" in scheme "{SCHEME}"')
    return obj or {}


def read_patch(body: bytes, media: str, *, custom: bool = False) -> tuple[str, Any]:
    """The form of a patch and what it says. Custom resources have no types to merge strategically by."""
    form = PATCH_TYPES.get(media_type(media))
    if form is None:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    if form == "strategic" and custom:
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )
    if form == "apply":
        return form, _configuration(body)
    try:
        return form, parse_json(body)
    except Unreadable as problem:
        raise BadRequest(str(problem) if form == "strategic" else f"error decoding patch: {problem}") from None


def read_write(op: Operation, body: bytes, media: str, kind: str = "") -> tuple[str, Any]:
    """What a subresource that can be put and patched is to become: "update" and an object, or a patch's form and it."""
    match op.verb:
        case "update":
            return "update", read_object(body, media, kind or op.kind.kind)
        case "patch":
            return read_patch(body, media, custom=op.resource.custom)
        case _:
            raise MethodNotAllowed


def repeated_fields(body: bytes, obj: Any) -> list[str]:
    """The paths of JSON keys that came twice. A tree shows that nothing did by having as many keys as the text."""
    if isinstance(body, Prepared):
        return body.repeats
    text = encode(obj)
    if body.rstrip() == text:  # as programs write it
        return []
    # What the object does not say of itself was added to the tree by now, and would make up for what came twice.
    if b'"kind"' in body and b'"apiVersion"' in body and body.count(b'":') == text.count(b'":'):
        return []
    try:
        return duplicate_fields(whole_characters(body))
    except ValueError:
        return []


def repeated_keys(body: bytes) -> list[str]:
    """The same for YAML, in the words of its strict reader."""
    if isinstance(body, Prepared):
        return body.repeats
    try:
        return read_yaml(body).repeats
    except YamlError:  # JSON that is no YAML
        return []


def repeats_applied(body: bytes, tree: Any) -> list[str]:
    """An apply is read as YAML, so what came twice is said in YAML's words."""
    if isinstance(body, Prepared):
        return body.repeats
    if body.lstrip().startswith(b"{") and not repeated_fields(body, tree):
        return []  # it is JSON, of which that is known quickly
    return repeated_keys(body)


def media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower() or header if header else ""


def parse_json(body: bytes) -> Any:
    if isinstance(body, Prepared):
        return body.tree()
    try:
        return _within_limits(_decoder.decode(whole_characters(body)), body)
    except RecursionError:
        raise Unreadable(f"exceeded max depth: the limit is {_MAX_DEPTH}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = json_problem(body)
    if problem:
        raise Unreadable(problem)
    try:
        # Broken UTF-8 in a string is no mistake to Go.
        return _within_limits(json.loads(whole_characters(body).decode(errors="replace")), body)
    except Unreadable:
        raise
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def _within_limits(value: Any, body: bytes) -> Any:
    """Bound the depth, because this module and later readers walk the tree by recursion; the number of values, because
    each of them costs time; and the length of keys, because every path through a key repeats it.
    """
    containers = body.count(b"{") + body.count(b"[")
    if containers <= _MAX_DEPTH and len(body) <= OFF_LOOP:
        return value  # it has no more of anything than the text has marks
    count, level = 1, [value] if isinstance(value, dict | list) else []
    for _ in range(_MAX_DEPTH + 1):
        count += sum(2 * len(node) if node.__class__ is dict else len(node) for node in level)
        if count > _MAX_VALUES:
            found = f"found {count} or more"
            raise TooLarge(f"Request entity too large: the limit is {_MAX_VALUES} keys and values, {found}")
        longest = max((len(key) for node in level if node.__class__ is dict for key in node), default=0)
        if longest > _MAX_KEY:
            raise Unreadable(f"a key of an object has {longest} characters, the limit is {_MAX_KEY}")
        level = [
            part
            for node in level
            for part in (node.values() if node.__class__ is dict else node)
            if part.__class__ is dict or part.__class__ is list
        ]
        if not level:
            return value
    raise Unreadable(f"exceeded max depth: the limit is {_MAX_DEPTH}")


def _decoded(body: bytes, media: str, kind: tuple[str, str] = ("", "")) -> Any:
    """`kind`: the version and kind of who does not say what it is, in protobuf, where only that tells how to read it."""
    match media:
        case "" | "application/json":
            try:
                return parse_json(body)
            except Unreadable as problem:
                raise Unreadable(f"couldn't get version/kind; json parse error: {problem}") from None
        case _ if media in YAML_TYPES:
            return _parse_yaml(body)
        case "application/vnd.kubernetes.protobuf":
            return _parse_protobuf(body, kind)
        case _:
            raise UnsupportedMediaType(_UNSUPPORTED)


def _parse_yaml(body: bytes) -> Any:
    try:
        return body.tree() if isinstance(body, Prepared) else read_yaml(body).value
    except YamlError as error:
        raise Unreadable(str(error)) from None


def _configuration(body: bytes) -> Any:
    """An apply's body is YAML, and nearly always the JSON that YAML contains."""
    try:
        config = body.tree() if isinstance(body, Prepared) else _configured(body)
    except (YamlError, Unreadable) as error:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if config is not None and not isinstance(config, dict):
        what = f"json: cannot unmarshal {json_kind(config)} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {what}")
    return config or {}


def _configured(body: bytes) -> Any:
    try:
        return _within_limits(_decoder.decode(whole_characters(body)), body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_yaml(body).value


def _parse_protobuf(body: bytes, expected: tuple[str, str], reader: ProtobufReader = _protobuf) -> Any:
    if isinstance(body, Prepared):
        return body.tree()
    try:
        api_version, kind, raw = unwrap(body)
    except ProtobufError as error:
        raise Unreadable(str(error)) from None
    api_version, kind = api_version or expected[0], kind or expected[1]
    name = wire_type(api_version, kind)
    if name is None:
        raise UnsupportedMediaType(
            f"{kind or 'this kind'} in {api_version or 'no version'} is not read as protobuf here: send JSON"
        )
    try:
        obj = {"kind": kind, "apiVersion": api_version, **reader.read(name, raw)}
        return _within_limits(obj, body) if len(body) > OFF_LOOP else obj
    except ProtobufError as error:
        version = api_version.rpartition("/")[2]
        why = f'{kind} in version "{version}" cannot be handled as a {expected[1] or kind}: {error}'
        raise BadRequest(why) from None


def _check_type_meta(obj: Any) -> None:
    """What the object is must be readable before anything else is."""
    if obj is None:
        return
    if not isinstance(obj, dict):
        what = f"json: cannot unmarshal {json_kind(obj)} into Go value of type {_TYPE_META}"
        raise Unreadable(f"couldn't get version/kind; json parse error: {what}")
    for key in ("apiVersion", "kind"):
        value = obj.get(key)
        if value is not None and not isinstance(value, str):
            what = f"json: cannot unmarshal {json_kind(value)} into Go struct field .{key} of type string"
            raise Unreadable(f"couldn't get version/kind; json parse error: {what}")


def summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SUMMARY else ""
    head = body[:_SUMMARY]
    return (head.decode(errors="replace") if head.startswith(b"{") else head.hex()) + more
