"""The form in which a client wants its answer, and answers in that form.

JSON and YAML are spoken; a client that prefers protobuf but also takes JSON gets JSON, one that takes nothing else
gets 406. Headers are few and repeat, so what they mean is kept. Reading what a client sent is module bodies'.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from gpuaas.apiserver.requestinfo import MOST_PARAMETERS
from gpuaas.base.errors import NotAcceptable
from gpuaas.machinery.yamltext import dump_yaml

LINE_END: Final = b"\n"  # of objects on one line, so that a terminal goes on below
_encoder = msgspec.json.Encoder()
encode = _encoder.encode


@dataclass(frozen=True, slots=True)
class Wanted:
    """The form of the answer: a serializer, and whether objects become tables or metadata alone."""

    media: str  # json or yaml
    form: str = ""  # "", Table, PartialObjectMetadata, PartialObjectMetadataList, APIGroupDiscoveryList
    version: str = "v1"  # of that form


PLAIN: Final = Wanted("json")
YAML: Final = Wanted("yaml")
_LONGEST_ACCEPT: Final = 8 * 1024
_LONGEST_QUALITY: Final = 8  # of a number between 0 and 1 with three places
_PRETTY_YAML: Final = 256 * 1024
_PEOPLE: Final = (b"curl", b"Wget", b"Mozilla/5.0")
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
# The forms an answer can be asked in, as (form, group, version).
Forms = frozenset[tuple[str, str, str]]
NO_FORMS: Final[Forms] = frozenset()
OBJECT_FORMS: Final[Forms] = frozenset(
    (form, "meta.k8s.io", version)
    for form in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
)


SPOKEN: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


@lru_cache(maxsize=256)
def negotiate(accept: str, forms: Forms = OBJECT_FORMS) -> Wanted:
    """The first form the client accepts and we speak, by its order of preference."""
    if not accept:
        return PLAIN
    if len(accept) > _LONGEST_ACCEPT:
        raise NotAcceptable(f"an Accept header of {len(accept)} bytes: limit is {_LONGEST_ACCEPT}")
    choices: list[tuple[float, int, Wanted]] = []
    known = False
    for position, part in enumerate(accept.split(",")):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        known = known or media in SPOKEN or media == "*/*"
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        wanted = _wanted(media, options, forms)
        if wanted is not None:
            choices.append((-_quality(options.get("q", "1")), position, wanted))
    if not known:
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(SPOKEN)}", details={})
    if not choices:
        raise NotAcceptable(f"only the following media types are accepted: {', '.join(SPOKEN)}")
    return min(choices, key=lambda choice: choice[:2])[2]


def _wanted(media: str, options: dict[str, str], forms: Forms) -> Wanted | None:
    match media:
        case "application/json" | "application/*" | "*/*" | "text/json":
            serializer = "json"
        case "application/yaml" | "text/yaml":
            serializer = "yaml"
        case _:
            return None
    form = options.get("as", "")
    if not form:
        return PLAIN if serializer == "json" else Wanted(serializer)
    if (form, options.get("g", ""), options.get("v", "")) not in forms:
        return None
    return Wanted(serializer, form, options["v"])


def _quality(text: str) -> float:
    try:
        return float(text[:_LONGEST_QUALITY]) if text.isascii() else 0.0
    except ValueError:
        return 0.0


def encode_as(wanted: Wanted, obj: Any, *, pretty: bool = False) -> bytes:
    if wanted.media == "yaml":
        raw = encode(obj)
        # All JSON is YAML: what is long is left at that, since writing it prettily would keep everybody else waiting.
        return dump_yaml(obj).encode() if len(raw) < _PRETTY_YAML else raw
    return indented(encode(obj)) if pretty else encode(obj) + LINE_END


def indented(body: bytes) -> bytes:
    return msgspec.json.format(body, indent=2)


def for_people(headers: Mapping[bytes, bytes], query: str) -> bool:
    """Whether JSON is indented: where the client asks for it, and for programs with which people look at answers."""
    if "pretty" in query and query.count("&") < MOST_PARAMETERS:
        said = parse_qs(query).get("pretty", [""])[0]
        if said:
            return said in _TRUE
    return headers.get(b"user-agent", b"").startswith(_PEOPLE) or b"pretty=1" in headers.get(b"accept", b"")


def content_type(wanted: Wanted) -> bytes:
    return b"application/json" if wanted.media == "json" else b"application/yaml"
