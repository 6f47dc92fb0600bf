"""The string formats that custom resource schemas may ask for (`date-time`, `ipv4`, `uuid`, …).

Names are compared without dashes, as kube-apiserver does; a format it does not know is ignored and can be reported to the
author with `unrecognized_formats`. `isbn`, `creditcard`, `ssn`, `rgbcolor` and `bsonobjectid` are known names whose
values are checked by their shape only.
"""

import ipaddress
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gpuaas.machinery.schema.gourl import check_request
from gpuaas.machinery.schema.scalars import Unreadable, parse_time

_UUID: Final = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_HOST_LABEL: Final = r"[^\W_]([^\W_]|-){0,62}"
_DURATION: Final = re.compile(r"[+-]?(0|(([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_SCALA_DURATION: Final = re.compile(r"([0-9]+)\s*([A-Za-zµ]+)")
_SCALA_UNIT: Final = re.compile(
    r"ns|us|µs|ms|s|m|h|d|w|wks?|hrs?|(nano|micro|milli)(s|seconds?)?|secs?|seconds?|mins?|minutes?|hours?|days?|weeks?"
)


def format_check(kind: str, name: str) -> Callable[[str], bool] | None:
    """The check of a format on strings; None where the format says nothing about them."""
    return _CHECKS.get(name.replace("-", "")) if kind in ("", "string") else None


def is_recognized(kind: str, name: str) -> bool:
    match kind:
        case "" | "string":
            return name.replace("-", "") in _CHECKS
        case "integer":
            return name in ("int32", "int64")
        case "number":
            return name in ("float", "double")
        case _:
            return False


def unrecognized_formats(openapi: Mapping[str, Any]) -> list[str]:
    """Texts of the warnings an author gets for unchecked formats."""
    return [f'unrecognized format "{name}"' for name in sorted(set(_unrecognized(openapi)))]


def _unrecognized(openapi: Mapping[str, Any]) -> Iterator[str]:
    name, kind = openapi.get("format", ""), openapi.get("type", "")
    if name and not is_recognized(kind, name):
        yield name
    children = [*openapi.get("properties", {}).values(), openapi.get("items"), openapi.get("additionalProperties")]
    for child in children:
        if isinstance(child, Mapping):
            yield from _unrecognized(child)


def _shape(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.fullmatch(text) is not None


def _is_date_time(text: str) -> bool:
    try:
        parse_time(text.upper())
    except Unreadable:
        return False
    return True


def _is_date(text: str) -> bool:
    return len(text) == 10 and _is_date_time(f"{text}T00:00:00Z")


def _is_duration(text: str) -> bool:
    if _DURATION.fullmatch(text):
        return True
    return any(_SCALA_UNIT.fullmatch(unit.lower()) for _, unit in _SCALA_DURATION.findall(text))


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return bool(text)


def _is_uri(text: str) -> bool:
    """An absolute URI or an absolute path: what may stand in a request."""
    try:
        check_request(text)
    except ValueError:
        return False
    return True


def _is_hostname(text: str) -> bool:
    labels = text.split(".")
    if len(text) > 255 or not all(re.fullmatch(_HOST_LABEL, label) and label[-1] != "-" for label in labels):
        return False
    return len(labels) == 1 or re.fullmatch(r"[^\W0-9_]{2,63}", labels[-1]) is not None


def _is_address(kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return isinstance(ipaddress.ip_address(text), kind) and "%" not in text
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _is_short_name(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", text) is not None


def _is_long_name(text: str) -> bool:
    label = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    return len(text) <= 253 and re.fullmatch(rf"{label}(\.{label})*", text) is not None


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _shape(r"[0-9a-f]{24}"),
    "uri": _is_uri,
    "email": _shape(r"(.*<)?[^\s@<>]+@[^\s@<>]+>?"),
    "hostname": _is_hostname,
    "ipv4": _is_address(ipaddress.IPv4Address),
    "ipv6": _is_address(ipaddress.IPv6Address),
    "cidr": _is_cidr,
    "mac": _shape(
        r"([0-9a-f]{2}([:-])[0-9a-f]{2}(\2[0-9a-f]{2}){4}((\2[0-9a-f]{2}){2})?)|([0-9a-f]{4}\.){2,3}[0-9a-f]{4}"
    ),
    "uuid": _shape(_UUID),
    "uuid3": _shape(r"[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}"),
    "uuid4": _shape(r"[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"),
    "uuid5": _shape(r"[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}"),
    "isbn": _shape(r"([0-9- ]{10,17}|[0-9- ]{9,12}X)"),
    "isbn10": _shape(r"[0-9- ]{9,12}[0-9X]"),
    "isbn13": _shape(r"[0-9- ]{13,17}"),
    "creditcard": _shape(r"[0-9 -]{12,23}"),
    "ssn": _shape(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _shape(r"#?([0-9a-f]{3}|[0-9a-f]{6})"),
    "rgbcolor": _shape(r"rgb\(\s*[0-9]{1,3}\s*,\s*[0-9]{1,3}\s*,\s*[0-9]{1,3}\s*\)"),
    "byte": _is_base64,
    "password": lambda _: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": _is_short_name,
    "k8slongname": _is_long_name,
}
