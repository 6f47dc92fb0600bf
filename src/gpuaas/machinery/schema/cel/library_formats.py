"""Kubernetes' named formats (`format.dns1123Label().validate(self)`) and semantic versions, put into module library's table."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

from gpuaas.base.names import (
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_value,
    is_qualified_name,
)
from gpuaas.base.numbers import is_digits, natural
from gpuaas.machinery.schema.cel.library import add
from gpuaas.machinery.schema.cel.types import BOOL, FORMAT, INT, SEMVER, STRING, list_of, optional_of
from gpuaas.machinery.schema.cel.values import NONE, CelError, NamedFormat, Opt, name_class
from gpuaas.machinery.schema.formats import format_check

Check = Callable[[str], list[str]]


def _of_prefix(check: Check) -> Check:
    """A prefix of a name may end with a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _plain(name: str, complaint: str) -> Check:
    holds = format_check("string", name)
    assert holds is not None
    return lambda text: [] if holds(text) else [complaint]


def _uri(text: str) -> list[str]:
    holds = format_check("string", "uri")
    assert holds is not None
    if holds(text):
        return []
    return [f'parse "{text}": {"empty url" if not text else "invalid URI for request"}']


_FORMATS: Final[dict[str, Check]] = {
    "dns1123Label": is_dns1123_label,
    "dns1123Subdomain": is_dns1123_subdomain,
    "dns1035Label": is_dns1035_label,
    "qualifiedName": is_qualified_name,
    "dns1123LabelPrefix": _of_prefix(is_dns1123_label),
    "dns1123SubdomainPrefix": _of_prefix(is_dns1123_subdomain),
    "dns1035LabelPrefix": _of_prefix(is_dns1035_label),
    "labelValue": is_label_value,
    "uri": _uri,
    "uuid": _plain("uuid", "does not match the UUID format"),
    "byte": _plain("byte", "invalid base64"),
    "date": _plain("date", "invalid date"),
    "datetime": _plain("datetime", "invalid datetime"),
}


def _validate(wanted: NamedFormat, text: str) -> Opt:
    complaints = _FORMATS[wanted.name](text)
    return Opt(True, complaints) if complaints else NONE


def _constant(name: str) -> Callable[[], NamedFormat]:
    value = NamedFormat(name)
    return lambda: value


def _formats() -> None:
    for name in _FORMATS:
        add(f"format.{name}", (), FORMAT, _constant(name))
    named = {name: Opt(True, NamedFormat(name)) for name in _FORMATS}
    add("format.named", (STRING,), optional_of(FORMAT), lambda name: named.get(name, NONE))
    add("validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate, method=True)


@total_ordering
@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; what follows a plus sign does not count when two are compared."""

    numbers: tuple[int, int, int]
    before: tuple[str, ...] = ()  # the parts of a pre-release

    def __lt__(self, other: "Semver") -> bool:
        if self.numbers != other.numbers:
            return self.numbers < other.numbers
        if not self.before or not other.before:
            return bool(self.before) and not other.before
        return [_rank(part) for part in self.before] < [_rank(part) for part in other.before]


def _rank(part: str) -> tuple[bool, int, str]:
    return (False, len(part), part) if is_digits(part) else (True, 0, part)  # no leading zeros: the longer is larger


_NUMBER: Final = r"(0|[1-9][0-9]*)"
_PART: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII
)


def read_semver(text: str, lenient: bool = False) -> Semver:
    found = _SEMVER.fullmatch(_normal(text) if lenient else text)
    if found is None:
        raise CelError(_complaint(text))
    major, minor, patch, before = found.groups()
    numbers = natural(major), natural(minor), natural(patch)
    if numbers[0] is None or numbers[1] is None or numbers[2] is None:
        raise CelError("a version number of more than 64 bits")
    return Semver((numbers[0], numbers[1], numbers[2]), tuple(before.split(".")) if before else ())


def _normal(text: str) -> str:
    """Without a leading v and leading zeros, with the numbers that were left out."""
    core, mark, rest = re.fullmatch(r"v?([^-+]*)([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    numbers = [part.lstrip("0") or "0" for part in core.split(".")]
    if len(numbers) < 3 and mark:
        return text
    return ".".join(numbers + ["0"] * (3 - len(numbers))) + mark + rest


def _complaint(text: str) -> str:
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    for name, part in zip(("major", "minor"), parts, strict=False):
        if not is_digits(part):
            return f'Invalid character(s) found in {name} number "{part}"'
        if part != "0" and part.startswith("0"):
            return f'{name.capitalize()} number must not contain leading zeroes "{part}"'
    return f'Invalid character(s) found in patch number "{parts[2]}"'


def _is_semver(text: str, lenient: bool = False) -> bool:
    try:
        read_semver(text, lenient)
    except CelError:
        return False
    return True


def _compare(first: Semver, second: Semver) -> int:
    return (first > second) - (first < second)


def _versions() -> None:
    name_class(Semver, SEMVER.name)
    pair = (SEMVER, SEMVER)
    for args in ((STRING,), (STRING, BOOL)):
        add("semver", args, SEMVER, read_semver)
        add("isSemver", args, BOOL, _is_semver)
    for place, name in enumerate(("major", "minor", "patch")):
        add(name, (SEMVER,), INT, lambda version, at=place: version.numbers[at], method=True)
    add("isGreaterThan", pair, BOOL, lambda a, b: a > b, method=True)
    add("isLessThan", pair, BOOL, lambda a, b: a < b, method=True)
    add("compareTo", pair, INT, _compare, method=True)


_formats()
_versions()
