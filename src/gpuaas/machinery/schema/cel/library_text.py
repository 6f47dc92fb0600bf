"""CEL's text functions, and Kubernetes' regular expressions: they are put into the table of module library."""

import re
from collections.abc import Sequence
from typing import Any, Final

from gpuaas.base.numbers import is_digits
from gpuaas.machinery.schema.cel.library import add
from gpuaas.machinery.schema.cel.types import BOOL, DYN, INT, STRING, list_of
from gpuaas.machinery.schema.cel.values import CelError, kind_of, show_double, show_span, show_time
from gpuaas.machinery.schema.gopattern import BadPattern, go_regex

TEXTS = list_of(STRING)


def _regex(pattern: str) -> Any:
    try:
        return go_regex(pattern)
    except BadPattern as problem:
        raise CelError(str(problem)) from None


def _at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text) and part:
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, limit: int | None = None) -> int:
    if limit is not None and not 0 <= limit <= len(text):
        raise CelError(f"index out of range: {limit}")
    return text.rfind(part) if limit is None else text.rfind(part, 0, limit + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        return list(text) if limit < 0 or limit >= len(text) else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _join(items: list[Any], separator: str = "") -> str:
    if any(item.__class__ is not str for item in items):
        raise CelError("no such overload")
    return separator.join(items)


def _lower(text: str) -> str:
    return "".join(char.lower() if char.isascii() else char for char in text)


def _upper(text: str) -> str:
    return "".join(char.upper() if char.isascii() else char for char in text)


def _find(text: str, pattern: str) -> str:
    found = _regex(pattern).search(text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in _regex(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _quote(text: str) -> str:
    escapes = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    body = "".join(escapes.get(char, "\\" + char if char in '"\\' else char) for char in text)
    return f'"{body}"'


def format_text(template: str, args: list[Any]) -> str:
    """`"%s has %d".format([…])`: the clauses %s, %d, %f, %e, %b, %o, %x and %X, with a precision."""
    out: list[str] = []
    at = used = 0
    while at < len(template):
        char = template[at]
        at += 1
        if char != "%":
            out.append(char)
            continue
        precision = -1
        if template[at : at + 1] == ".":
            end = at + 1
            while is_digits(template[end : end + 1]):
                end += 1
            precision, at = int(template[at + 1 : end] or 0), end
        clause = template[at : at + 1]
        at += 1
        if clause == "%":
            out.append("%")
            continue
        if used >= len(args):
            raise CelError(f"index {used} out of range")
        out.append(_clause(clause, args[used], precision))
        used += 1
    return "".join(out)


_CLAUSES: Final = {
    "s": (
        ("string", "bool", "bytes", "int", "uint", "double", "map", "list", "type", "duration", "timestamp", "null"),
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
        " timestamps",
    ),
    "d": (("int", "uint"), "decimal clause can only be used on integers"),
    "f": (("int", "uint", "double"), "fixed-point clause can only be used on doubles"),
    "e": (("int", "uint", "double"), "scientific clause can only be used on doubles"),
    "b": (("int", "uint", "bool"), "only integers and bools can be formatted as binary"),
    "o": (("int", "uint"), "octal clause can only be used on integers"),
    "x": (("int", "uint", "string", "bytes"), "only integers, byte buffers, and strings can be formatted as hex"),
}
_CLAUSE: Final = re.compile(r"%(?:\.[0-9]*)?(.?)", re.DOTALL)


def format_problem(template: str, types: Sequence[str]) -> tuple[int, str] | None:
    """What is wrong with a template for values of these types, and with which of them (-1: with none)."""
    clauses = [found for found in _CLAUSE.findall(template) if found != "%"]
    for index, clause in enumerate(clauses):
        allowed, complaint = _CLAUSES.get(clause.lower() if clause == "X" else clause, ((), ""))
        if not complaint:
            return -1, f'could not parse formatting clause: unrecognized formatting clause "{clause}"'
        if index >= len(types):
            return -1, f"index {index} out of range"
        if types[index] not in (*allowed, "dyn", "!error!", "A"):
            return index, f"error during formatting: {complaint}, was given {types[index]}"
    return None


_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _clause(clause: str, value: Any, precision: int) -> str:
    kind = kind_of(value)
    match clause, kind:
        case "s", _:
            return _shown(value)
        case "d", "int" | "uint":
            return str(int(value))
        case "f", "int" | "uint" | "double":
            return f"{value:.{6 if precision < 0 else precision}f}"
        case "e", "int" | "uint" | "double":
            digits, _, power = f"{value:.6e}".partition("e")  # whatever precision is asked for
            return f"{digits}×10{power.removeprefix('+').translate(_RAISED)}"
        case "b", "int" | "uint" | "bool":
            return f"{int(value):b}"
        case "o", "int" | "uint":
            return f"{int(value):o}"
        case "x" | "X", "int" | "uint":
            return f"{int(value):{clause}}"
        case "x" | "X", "string" | "bytes":
            text = (value.encode() if isinstance(value, str) else value).hex()
            return text.upper() if clause == "X" else text
        case (("d" | "f" | "e" | "b" | "o" | "x" | "X"), _):
            raise CelError(f"error during formatting: {clause} clause can not be used on {kind}")
        case _:
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{clause}"')


def _shown(value: Any) -> str:
    match kind_of(value):
        case "bool":
            return "true" if value else "false"
        case "null":
            return "null"
        case "double":
            return show_double(value)
        case "timestamp":
            return show_time(value)
        case "duration":
            return show_span(value)
        case "bytes":
            return _decoded(value)
        case "list":
            return f"[{', '.join(_shown_inside(item) for item in value)}]"
        case "map":
            return f"{{{', '.join(f'{_shown_inside(key)}:{_shown_inside(value[key])}' for key in sorted(value, key=str))}}}"
        case "type":
            return str(value.name)
        case _:
            return str(value)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        why = 'could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string'
        raise CelError(f"error during formatting: {why}") from None


def _shown_inside(value: Any) -> str:
    """Inside of lists and maps text is quoted, and numbers have six digits after the point."""
    if isinstance(value, str):
        return _quote(value)
    return f"{value:.6f}" if isinstance(value, float) else _shown(value)


def _escaped_key(key: str) -> str:
    """As a part of the path of a JSON patch."""
    return key.replace("~", "~0").replace("/", "~1")


def _strings() -> None:
    add("jsonpatch.escapeKey", (STRING,), STRING, _escaped_key)
    for name, run in (
        ("startsWith", str.startswith),
        ("endsWith", str.endswith),
        ("contains", lambda text, part: part in text),
        ("matches", lambda text, pattern: _regex(pattern).search(text) is not None),
    ):
        add(name, (STRING, STRING), BOOL, run, method=True)
    add("matches", (STRING, STRING), BOOL, lambda text, pattern: _regex(pattern).search(text) is not None)
    add("charAt", (STRING, INT), STRING, _at, method=True)
    add("indexOf", (STRING, STRING), INT, _index_of, method=True)
    add("indexOf", (STRING, STRING, INT), INT, _index_of, method=True)
    add("lastIndexOf", (STRING, STRING), INT, _last_index_of, method=True)
    add("lastIndexOf", (STRING, STRING, INT), INT, _last_index_of, method=True)
    add("substring", (STRING, INT), STRING, _substring, method=True)
    add("substring", (STRING, INT, INT), STRING, _substring, method=True)
    add("lowerAscii", (STRING,), STRING, _lower, method=True)
    add("upperAscii", (STRING,), STRING, _upper, method=True)
    add("trim", (STRING,), STRING, str.strip, method=True)
    add("replace", (STRING, STRING, STRING), STRING, lambda text, a, b: text.replace(a, b), method=True)
    add("replace", (STRING, STRING, STRING, INT), STRING, lambda text, a, b, n: text.replace(a, b, n), method=True)
    add("split", (STRING, STRING), TEXTS, _split, method=True)
    add("split", (STRING, STRING, INT), TEXTS, _split, method=True)
    add("join", (TEXTS,), STRING, _join, method=True)
    add("join", (TEXTS, STRING), STRING, _join, method=True)
    add("format", (STRING, list_of(DYN)), STRING, format_text, method=True)
    add("strings.quote", (STRING,), STRING, _quote)
    add("find", (STRING, STRING), STRING, _find, method=True)
    add("findAll", (STRING, STRING), TEXTS, _find_all, method=True)
    add("findAll", (STRING, STRING, INT), TEXTS, _find_all, method=True)


_strings()
