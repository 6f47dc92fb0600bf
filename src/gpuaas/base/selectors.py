"""Label and field selectors: parsed once, matched often.

`parse_labels` reads the query form (`a=b,c in (d,e),!f`), `from_label_selector` the object form
(`matchLabels`/`matchExpressions`), `parse_fields` the field form (`metadata.name=x,status.phase!=Running`).
A selector that cannot be read raises ValueError with words for the user.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.base.names import is_label_value, is_qualified_name

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "in", "notin", "exists", "!"
GREATER, LESS = "gt", "lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "gt":
                return _compares(value, self.values[0], greater=True)
            case _:
                return _compares(value, self.values[0], greater=False)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none at all means everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        labels = labels or {}
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


EVERYTHING = LabelSelector()

_TOKEN = re.compile(r"\s*(==|!=|=|>|<|\(|\)|,|!|[^\s=!<>(),]+)")


def parse_labels(text: str) -> LabelSelector:
    tokens = _tokens(text)
    requirements: list[Requirement] = []
    at = 0
    while at < len(tokens):
        requirement, at = _requirement(tokens, at)
        requirements.append(requirement)
        if at < len(tokens):
            if tokens[at] != "," or at + 1 == len(tokens):
                raise ValueError(f"unable to parse requirement: found '{tokens[at]}', expected: ',' or 'end of string'")
            at += 1
    for requirement in requirements:
        _check(requirement)
    return LabelSelector(tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values))))


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector | None:
    """The object form. None selects nothing (so it stays None); an empty selector selects everything."""
    if selector is None:
        return None
    requirements = [Requirement(key, IN, (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        values = tuple(expression.get("values") or ())
        match expression.get("operator"):
            case "In":
                requirements.append(Requirement(expression["key"], IN, values))
            case "NotIn":
                requirements.append(Requirement(expression["key"], NOT_IN, values))
            case "Exists":
                requirements.append(Requirement(expression["key"], EXISTS))
            case "DoesNotExist":
                requirements.append(Requirement(expression["key"], DOES_NOT_EXIST))
            case other:
                raise ValueError(f'"{other}" is not a valid label selector operator')
    return LabelSelector(tuple(requirements))


@dataclass(frozen=True, slots=True)
class FieldTerm:
    path: str
    value: str
    equal: bool = True


def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    terms: list[FieldTerm] = []
    for part in _split_fields(text):
        for operator, equal in (("!=", False), ("==", True), ("=", True)):
            path, found, value = part.partition(operator)
            if found:
                terms.append(FieldTerm(path, _unescape(value), equal))
                break
        else:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{part}'")
    return tuple(terms)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            break
        tokens.append(found.group(1))
        at = found.end()
    return tokens


def _requirement(tokens: Sequence[str], at: int) -> tuple[Requirement, int]:
    if tokens[at] == "!":
        return Requirement(_word(tokens, at + 1), DOES_NOT_EXIST), at + 2
    key = _word(tokens, at)
    at += 1
    if at == len(tokens) or tokens[at] == ",":
        return Requirement(key, EXISTS), at
    operator = tokens[at]
    if operator in ("in", "notin"):
        values, at = _values(tokens, at + 1)
        return Requirement(key, operator, values), at
    if operator in ("=", "==", "!=", ">", "<"):
        has_value = at + 1 < len(tokens) and tokens[at + 1] not in (",", ")", "(")
        value = tokens[at + 1] if has_value else ""
        kind = {"=": IN, "==": IN, "!=": NOT_IN, ">": GREATER, "<": LESS}[operator]
        return Requirement(key, kind, (value,)), at + (2 if has_value else 1)
    raise ValueError(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _word(tokens: Sequence[str], at: int) -> str:
    if at >= len(tokens) or tokens[at] in {"=", "==", "!=", ">", "<", "(", ")", ",", "!"}:
        found = tokens[at] if at < len(tokens) else ""
        raise ValueError(f"unable to parse requirement: found '{found}', expected: !, identifier, or 'end of string'")
    return tokens[at]


def _values(tokens: Sequence[str], at: int) -> tuple[tuple[str, ...], int]:
    if at >= len(tokens) or tokens[at] != "(":
        found = tokens[at] if at < len(tokens) else ""
        raise ValueError(f"unable to parse requirement: found '{found}', expected: '('")
    end = at + 1
    values: list[str] = []
    expect_value = True
    while end < len(tokens) and tokens[end] != ")":
        if tokens[end] == ",":
            if expect_value:
                values.append("")
            expect_value = True
        else:
            values.append(tokens[end])
            expect_value = False
        end += 1
    if end == len(tokens):
        raise ValueError("unable to parse requirement: found '', expected: ',', ')' or identifier")
    if expect_value:
        values.append("")
    return tuple(sorted(values)), end + 1


def _check(requirement: Requirement) -> None:
    complaints = is_qualified_name(requirement.key)
    if complaints:
        raise ValueError(f'key: Invalid value: "{requirement.key}": {"; ".join(complaints)}')
    if requirement.operator in (GREATER, LESS):
        if not re.fullmatch(r"[+-]?\d+", requirement.values[0]):
            raise ValueError(
                f"values[0]: Invalid value: \"{requirement.values[0]}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return
    for index, value in enumerate(requirement.values):
        complaints = is_label_value(value)
        if complaints:
            raise ValueError(f'values[{index}][{requirement.key}]: Invalid value: "{value}": {"; ".join(complaints)}')


def _compares(value: str | None, bound: str, *, greater: bool) -> bool:
    if value is None or not re.fullmatch(r"[+-]?\d+", value):
        return False
    return int(value) > int(bound) if greater else int(value) < int(bound)


def _split_fields(text: str) -> list[str]:
    parts: list[str] = []
    current = ""
    escaped = False
    for char in text:
        if escaped:
            current += "\\" + char
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [part for part in parts if part]


def _unescape(value: str) -> str:
    return re.sub(r"\\([\\,=])", r"\1", value)
