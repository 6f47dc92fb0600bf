"""Plain YAML scalars as Go's YAML library (goyaml v2, which kube-apiserver and kubectl use) resolves them.

The library knows YAML 1.1's words for yes and no and its prefixes of integers, but no integers in base 60: `1:59:59` is
text. Integers have 64 bits; a longer one in decimals is a float, any other is text. A float that is a whole number
becomes an integer, because the value passes through JSON, where Go writes it without a point. Every pattern takes time
by the length of the text, and no text longer than an integer can be is ever converted to one.
"""

import base64
import binascii
import re
from math import isfinite
from typing import Any, Final

_TAG: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, Any]] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
for _value, _words in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off"))):
    for _word in _words:
        _WORDS.update(dict.fromkeys((_word, _word.capitalize(), _word.upper()), _value))
_NOT_FINITE: Final = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), "NaN"),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), "+Inf"),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), "-Inf"),
}
_FIRST: Final = frozenset("+-.0123456789yYnNtTfFoO~")  # how everything begins that is not text
_NUMERIC: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[bB]([01]+)|0[oO]?([0-7]+)|0[xX]([0-9a-fA-F]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_LONGEST_INTEGER: Final = 80  # characters: 64 binary digits, a sign and a prefix
_WHOLE: Final = 1e21  # what is larger, Go writes with an exponent
_BASES: Final = (2, 8, 16, 10)


class BadScalar(ValueError):
    """A value that does not fit its tag, or that JSON cannot express."""


def resolve_plain(text: str) -> Any:
    """The value of a scalar without quotes and without a tag."""
    if text == "":
        return None
    if text[0] not in _FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return text
    if text in _NOT_FINITE:
        raise BadScalar(f"json: unsupported value: {_NOT_FINITE[text]}")
    return _number(text)


def resolve_tagged(tag: str, text: str) -> Any:
    """The value of a scalar with an explicit tag; tags that Go's library does not know leave text as it is."""
    kind = tag.removeprefix(_TAG)
    match kind:
        case "binary":
            try:
                return base64.b64decode(text).decode(errors="replace")
            except (binascii.Error, ValueError):
                raise BadScalar("!!binary value contains invalid base64 data") from None
        case "null" | "bool" | "int" | "float" | "timestamp":
            value = resolve_plain(text)
            found = _kind_of(value)
            if found == kind or (kind == "float" and found == "int") or (kind == "timestamp" and found == "str"):
                return value
            raise BadScalar(f"cannot decode !!{found} `{text[:64]}` as a !!{kind}")
        case _:
            return text


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "int" if isinstance(value, int) else "float" if isinstance(value, float) else "str"


def _number(text: str) -> Any:
    if text[0] == ".":
        return _float(text, text)
    plain = text.replace("_", "") if "_" in text else text
    if len(plain) <= _LONGEST_INTEGER and (found := _INTEGER.fullmatch(plain)):
        value = next(int(digits, base) for digits, base in zip(found.groups()[1:], _BASES, strict=True) if digits)
        value = -value if found[1] == "-" else value
        if -(1 << 63) <= value < (1 << 63) or (not found[1] and value < (1 << 64)):
            return value
    return _float(plain, text)


def _float(plain: str, text: str) -> Any:
    if not _FLOAT.fullmatch(plain):
        return text
    value = float(plain)
    if not isfinite(value):
        return text
    return int(value) if abs(value) < _WHOLE and value.is_integer() else value
