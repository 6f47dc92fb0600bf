"""JSONPath as printer columns of custom resources use it: kubectl's dialect, without templates and ranges.

`parse_path` reads a path once; its `find` gives the values it leads to, in order, and nothing where something is
missing. Fields, wildcards, recursive descent, indices and slices, unions and filters (`[?(@.type=="Ready")]`) are
understood. A path that cannot be read raises ValueError with client-go's words.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

# A step takes the values so far and gives the next ones.
Step = Callable[[list[Any]], list[Any]]

_FIELD_END: Final = frozenset(" \t\r\n.,[]$@{}")
_KEY: Final = re.compile(r"'([^']*)'")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)


class NotFindable(Exception):
    """The path does not fit the value: an index into something that is no list, out of bounds, or a bad comparison."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    text: str
    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """What the path leads to; empty when it does not fit."""
        try:
            return self.follow([value])
        except NotFindable:
            return []

    def follow(self, values: list[Any]) -> list[Any]:
        for step in self.steps:
            values = step(values)
        return values


@lru_cache(maxsize=1_024)
def parse_path(text: str) -> JsonPath:
    """`.status.conditions[?(@.type=="Ready")].status`, with or without surrounding braces."""
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    return JsonPath(text, tuple(_steps(inner)))


def printed(value: Any) -> str:
    """A value as kubectl prints it: objects and lists as JSON, the rest plain."""
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
        case dict() | list():
            text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
            return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        case _:
            return str(value)


def _steps(text: str) -> Iterator[Step]:
    at = 0
    descended = False
    while at < len(text):
        if text.startswith("[?(", at):
            step, at = _read_filter(text, at)
            yield step
        elif text.startswith("..", at):
            if descended:
                raise ValueError("invalid multiple recursive descent")
            yield _descend
            at += 2
            if at < len(text) and (text[at].isalnum() or text[at] == "_"):
                step, at = _read_field(text, at)
                yield step
            descended = True
            continue
        elif text[at] in " @$":
            at += 1
        elif text[at] == ".":
            step, at = _read_field(text, at + 1)
            yield step
        elif text[at] == "[":
            end = text.find("]", at)
            if end < 0:
                raise ValueError("unterminated array")
            yield from _bracket(text[at + 1 : end])
            at = end + 1
        else:
            step, at = _read_literal(text, at)
            yield step
        descended = False


def _read_field(text: str, at: int) -> tuple[Step, int]:
    name = ""
    while at < len(text) and text[at] not in _FIELD_END:
        if text[at] == "\\":
            at += 1
        name += text[at : at + 1]
        at += 1
    return (_every if name == "*" else _field(name)), at


def _read_literal(text: str, at: int) -> tuple[Step, int]:
    """A constant on the right of a comparison."""
    if text[at] in "\"'":
        end = at + 1
        while end < len(text) and not (text[end] == text[at] and text[end - 1] != "\\"):
            end += 1
        if end >= len(text):
            raise ValueError("unterminated quoted string")
        constant: Any = re.sub(r"\\(.)", r"\1", text[at + 1 : end])
        return (lambda values: [constant] * len(values)), end + 1
    found = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?|true|false").match(text, at)
    if not found:
        raise ValueError(f"unrecognized character in action: U+{ord(text[at]):04X} '{text[at]}'")
    value = json.loads(found.group().lstrip("+"))
    return (lambda values: [value] * len(values)), found.end()


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case _:
            return []


def _every(values: list[Any]) -> list[Any]:
    return [item for value in values for item in _children(value)]


def _descend(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        below = _children(value)
        if below:
            found.append(value)
            found.extend(_descend(below))
    return found


def _bracket(text: str) -> Iterator[Step]:
    parts = (":" if text == "*" else text).split(",")
    if len(parts) > 1:
        choices = [JsonPath(part, tuple(_bracket(part.strip()))) for part in parts]
        yield lambda values: [item for choice in choices for item in choice.follow(values)]
        return
    key = _KEY.fullmatch(parts[0])
    if key:
        yield from _steps(f".{key.group(1)}")
        return
    if not _SLICE.fullmatch(parts[0]):
        raise ValueError(f"invalid array index {text}")
    yield _slice(parts[0])


def _slice(text: str) -> Step:
    start_text, *rest = text.split(":")
    start = int(start_text) if start_text else 0
    end = int(rest[0]) if rest and rest[0] else None
    step = int(rest[1]) if len(rest) > 1 and rest[1] else 1
    single = not rest

    def run(values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise NotFindable(f"{type(value).__name__} is not array or slice")
            first = start + len(value) if start < 0 else start
            last = first + 1 if single else len(value) if end is None else end + len(value) if end < 0 else end
            if first == last:
                return found
            if not 0 <= first < len(value) or not 0 <= last <= len(value) or first > last or step <= 0:
                raise NotFindable(f"array index out of bounds: index {first}, length {len(value)}")
            found.extend(value[first:last:step])
        return found

    return run


def _read_filter(text: str, at: int) -> tuple[Step, int]:
    start = end = at + 3
    quote = ""
    while end < len(text) and (text[end] != ")" or quote):
        if text[end] in "\"'" and text[end - 1] != "\\":
            quote = text[end] if not quote else "" if quote == text[end] else quote
        end += 1
    if end >= len(text):
        raise ValueError("unterminated filter")
    if text[end + 1 : end + 2] != "]":
        raise ValueError("unclosed array expect ]")
    return _filter(text[start:end]), end + 2


def _filter(text: str) -> Step:
    found = _COMPARISON.fullmatch(text)
    left = JsonPath(text, tuple(_steps(found.group(1).strip() if found else text)))
    right = JsonPath(text, tuple(_steps(found.group(3).strip()))) if found else None
    operator = found.group(2) if found else "exists"
    if operator not in ("exists", "<", ">", "==", "!=", "<=", ">="):
        raise ValueError(f"unrecognized filter operator {operator}")

    def keeps(item: Any) -> bool:
        lefts = left.follow([item])
        if right is None:
            return bool(lefts)
        rights = right.follow([item])
        if not lefts or not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise NotFindable("can only compare one element at a time")
        return _compare(lefts[0], operator, rights[0])

    def run(values: list[Any]) -> list[Any]:
        kept: list[Any] = []
        for value in values:
            if not isinstance(value, list):
                raise NotFindable("is not array or slice and cannot be filtered")
            kept.extend(item for item in value if keeps(item))
        return kept

    return run


def _compare(left: Any, operator: str, right: Any) -> bool:
    if operator in ("==", "!="):
        same = left == right and isinstance(left, bool) == isinstance(right, bool)
        return same if operator == "==" else not same
    try:
        match operator:
            case "<":
                return bool(left < right)
            case ">":
                return bool(left > right)
            case "<=":
                return bool(left <= right)
            case _:
                return bool(left >= right)
    except TypeError:
        raise NotFindable("incompatible types for comparison") from None
