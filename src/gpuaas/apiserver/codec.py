"""Bodies and their formats: what a client sent, and the form in which it wants its answer.

JSON and YAML are spoken; a client that prefers protobuf but also takes JSON gets JSON, one that takes nothing else
gets 406. Headers are few and repeat, so what they mean is kept.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from gpuaas.api.kubernetes.schemas import schema_source
from gpuaas.api.kubernetes.wire import wire_numbers, wire_type
from gpuaas.base.errors import BadRequest, NotAcceptable, UnsupportedMediaType
from gpuaas.machinery.protobuf import ProtobufError, ProtobufReader, unwrap
from gpuaas.machinery.schema.model import SchemaSet
from gpuaas.machinery.yamltext import YamlError, dump_yaml, load_yaml

JSON_TYPE: Final = "application/json"
YAML_TYPE: Final = "application/yaml"
PATCH_TYPES: Final = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
encode = _encoder.encode


@dataclass(frozen=True, slots=True)
class Wanted:
    """The form of the answer: a serializer, and whether objects become tables or metadata alone."""

    media: str  # json or yaml
    form: str = ""  # "", Table, PartialObjectMetadata, PartialObjectMetadataList, APIGroupDiscoveryList
    version: str = "v1"  # of that form


PLAIN: Final = Wanted("json")


@lru_cache(maxsize=256)
def negotiate(
    accept: str, forms: tuple[str, ...] = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
) -> Wanted:
    """The first form the client accepts and we speak, by its order of preference."""
    if not accept:
        return PLAIN
    choices: list[tuple[float, int, Wanted]] = []
    for position, part in enumerate(accept.split(",")):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        wanted = _wanted(media, options, forms)
        if wanted is not None:
            choices.append((-_quality(options.get("q", "1")), position, wanted))
    if not choices:
        raise NotAcceptable(
            "only the following media types are accepted: application/json, application/yaml, application/json;stream=watch"
        )
    return min(choices, key=lambda choice: choice[:2])[2]


def _wanted(media: str, options: dict[str, str], forms: tuple[str, ...]) -> Wanted | None:
    match media:
        case "application/json" | "application/*" | "*/*" | "text/json":
            serializer = "json"
        case "application/yaml" | "text/yaml":
            serializer = "yaml"
        case _:
            return None
    form = options.get("as", "")
    if not form:
        return Wanted(serializer)
    if form not in forms:
        return None
    return Wanted(serializer, form, options.get("v", "v1"))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def encode_as(wanted: Wanted, obj: Any, *, pretty: bool = False) -> bytes:
    if wanted.media == "yaml":
        return dump_yaml(obj).encode()
    if pretty:
        return msgspec.json.format(encode(obj), indent=2) + b"\n"
    return encode(obj)


def content_type(wanted: Wanted) -> bytes:
    return b"application/json" if wanted.media == "json" else b"application/yaml"


PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"


def decode_body(body: bytes, media: str) -> Any:
    """A body that must be an object of some kind; what is none is a bad request with words."""
    media = media.partition(";")[0].strip().lower()
    match media:
        case "application/vnd.kubernetes.protobuf":
            return decode_protobuf(body)
        case "" | "application/json" | "text/json":
            return decode_json(body)
        case "application/yaml" | "text/yaml" | "application/x-yaml":
            return decode_yaml(body)
        case _:
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            )


def decode_json(body: bytes) -> Any:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the request body is not valid JSON: {error}") from None


def decode_yaml(body: bytes) -> Any:
    try:
        return load_yaml(body)
    except YamlError as error:
        raise BadRequest(f"error parsing YAML: {error}") from None


# Built-in types are the same for every cluster, so one reader serves all.
_protobuf = ProtobufReader(SchemaSet(schema_source).named, wire_numbers)


def decode_protobuf(body: bytes) -> Any:
    try:
        api_version, kind, raw = unwrap(body)
        name = wire_type(api_version, kind)
        if name is None:
            raise UnsupportedMediaType(
                f"{kind or 'this kind'} in {api_version or 'no version'} is not read as protobuf here: send JSON"
            )
        return {"kind": kind, "apiVersion": api_version, **_protobuf.read(name, raw)}
    except ProtobufError as error:
        raise BadRequest(f"the request body is not valid protobuf: {error}") from None
