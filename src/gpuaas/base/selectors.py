"""Label and field selectors: parsed once, matched often.

`parse_labels` reads the query form (`a=b,c in (d,e),!f`), `from_label_selector` the object form
(`matchLabels`/`matchExpressions`), `parse_fields` the field form (`metadata.name=x,status.phase!=Running`).
A selector that cannot be read raises ValueError with words for the user.

A selector in a query has at most `MOST_TERMS` parts. What it costs to match an object depends on the object's labels and
not on the selector: values are looked up in sets, and many requirements are folded by key.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, invalid
from gpuaas.base.names import is_label_value, is_qualified_name
from gpuaas.base.numbers import LARGEST, integer

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "in", "notin", "exists", "!"
GREATER, LESS = "gt", "lt"
MOST_TERMS: Final = 5_000  # requirements and values of a selector in a query
_FEW: Final = 8  # values or requirements that are as quickly looked at one by one


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: tuple[str, ...] = ()
    _among: tuple[str, ...] | frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_among", self.values if len(self.values) <= _FEW else frozenset(self.values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self._among
            case "notin":
                return value is None or value not in self._among
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
    _folded: "_Folded | None" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        folded = _Folded(self.requirements) if len(self.requirements) > _FEW else None
        object.__setattr__(self, "_folded", folded)

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        labels = labels or {}
        if self._folded is not None:
            return self._folded.matches(labels)
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


class _Folded:
    """Many requirements by key, so that each label of an object is looked at once."""

    __slots__ = ("_above", "_absent", "_allowed", "_below", "_needed", "_refused")

    def __init__(self, requirements: tuple[Requirement, ...]) -> None:
        self._needed: set[str] = set()
        self._absent: set[str] = set()
        self._allowed: dict[str, frozenset[str]] = {}
        self._refused: dict[str, set[str]] = {}
        self._above: dict[str, int] = {}
        self._below: dict[str, int] = {}
        for requirement in requirements:
            self._add(requirement.key, requirement.operator, requirement.values)

    def _add(self, key: str, operator: str, values: tuple[str, ...]) -> None:
        if operator == NOT_IN:
            self._refused.setdefault(key, set()).update(values)
            return
        if operator == DOES_NOT_EXIST:
            self._absent.add(key)
            return
        self._needed.add(key)
        if operator == IN:
            self._allowed[key] = self._allowed.get(key, frozenset(values)).intersection(values)
        elif operator == GREATER:
            self._above[key] = max(self._above.get(key, -LARGEST - 1), _bound(values[0], LARGEST))
        elif operator == LESS:
            self._below[key] = min(self._below.get(key, LARGEST), _bound(values[0], -LARGEST - 1))

    def matches(self, labels: Mapping[str, str]) -> bool:
        if len(self._needed) > len(labels) or any(key not in labels for key in self._needed):
            return False
        return all(self._takes(key, value) for key, value in labels.items())

    def _takes(self, key: str, value: str) -> bool:
        if key in self._absent or value in self._refused.get(key, ()):
            return False
        if key in self._allowed and value not in self._allowed[key]:
            return False
        if key not in self._above and key not in self._below:
            return True
        number = integer(value)
        return number is not None and self._above.get(key, number - 1) < number < self._below.get(key, number + 1)


def _bound(text: str, otherwise: int) -> int:
    number = integer(text)
    return otherwise if number is None else number


EVERYTHING = LabelSelector()

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|=|>|<|\(|\)|,|!|[^ \t\r\n=!<>(),]+)")
_SYMBOLS = frozenset({"==", "!=", "=", ">", "<", "(", ")", ",", "!", ""})
_OPERATORS = {"=": IN, "==": IN, "!=": NOT_IN, "in": IN, "notin": NOT_IN, ">": GREATER, "<": LESS}


def check_terms(text: str) -> None:
    """Before any work is done: requirements and values are separated by commas."""
    count = text.count(",") + 1
    if count > MOST_TERMS:
        raise ValueError(f"a selector of {count} requirements and values: limit is {MOST_TERMS}")


def parse_labels(text: str) -> LabelSelector:
    check_terms(text)
    requirements = _LabelText(text).read()
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
    check_terms(text)
    terms: list[FieldTerm] = []
    for part in _split_fields(text):
        for operator, equal in (("!=", False), ("==", True), ("=", True)):
            path, found, value = part.partition(operator)
            if found:
                term = FieldTerm(path, _unescape(value), equal)
                if path or term.value:  # what says nothing selects everything
                    terms.append(term)
                break
        else:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{part}'")
    return tuple(terms)


class _LabelText:
    """Reads the query form, one token after the other; "" is the end."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        self._at = 0

    def read(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        if not self._next:
            return requirements
        if not self._begins:
            raise ValueError(f"found '{self._next}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                requirements.append(self._requirement())
            except ValueError as problem:
                raise ValueError(f"unable to parse requirement: {problem}") from None
            match self._take():
                case "":
                    return requirements
                case ",":
                    if not self._begins:
                        raise ValueError(f"found '{self._next}', expected: identifier after ','")
                case found:
                    raise ValueError(f"found '{found}', expected: ',' or 'end of string'")

    @property
    def _next(self) -> str:
        return self._tokens[self._at]

    @property
    def _begins(self) -> bool:
        """Whether a requirement may begin here."""
        return self._next == "!" or self._next not in _SYMBOLS

    def _take(self) -> str:
        self._at = min(self._at + 1, len(self._tokens))
        return self._tokens[self._at - 1]

    def _word(self) -> str:
        found = self._take()
        if found in _SYMBOLS:
            raise ValueError(f"found '{found}', expected: identifier")
        return found

    def _requirement(self) -> Requirement:
        absent = self._next == "!"
        if absent:
            self._take()
        key = self._word()
        complaints = is_qualified_name(key)
        if complaints:
            raise ValueError(f'<nil>: Invalid value: "{key}": {"; ".join(complaints)}')
        if absent:
            return Requirement(key, DOES_NOT_EXIST)
        if self._next in ("", ","):
            return Requirement(key, EXISTS)
        operator = self._take()
        if operator not in _OPERATORS:
            raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in ("in", "notin") else (self._value(),)
        return _checked(Requirement(key, _OPERATORS[operator], values))

    def _value(self) -> str:
        return "" if self._next in ("", ",") else self._word()

    def _values(self) -> tuple[str, ...]:
        opening = self._take()
        if opening != "(":
            raise ValueError(f"found '{opening}' expected: '('")
        if self._next in _SYMBOLS and self._next not in (",", ")"):
            raise ValueError(f"found '{self._next}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            if self._next in (",", ")"):
                values.add("")
            elif self._next in _SYMBOLS:
                raise ValueError(f"found '{self._next}', expected: ',', or identifier")
            else:
                values.add(self._take())
            if self._next == ")":
                self._take()
                return tuple(sorted(values))
            if self._next != ",":
                raise ValueError(f"found '{self._next}', expected: ',' or ')'")
            self._take()


def _checked(requirement: Requirement) -> Requirement:
    if requirement.operator in (GREATER, LESS):
        bound = requirement.values[0]
        if integer(bound) is None:
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise ValueError(f'values[0]: Invalid value: "{bound}": {why}')
        return requirement
    for index, value in enumerate(requirement.values):
        complaints = is_label_value(value)
        if complaints:
            raise ValueError(f'values[{index}][{requirement.key}]: Invalid value: "{value}": {"; ".join(complaints)}')
    return requirement


def _compares(value: str | None, bound: str, *, greater: bool) -> bool:
    number, limit = integer(value or ""), integer(bound)
    if number is None or limit is None:
        return False
    return number > limit if greater else number < limit


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
    parts.append(current + "\\" if escaped else current)
    return [part for part in parts if part]


def _unescape(value: str) -> str:
    made = ""
    chars = iter(value)
    for char in chars:
        if char == "\\":
            escaped = next(chars, "")
            if escaped not in ("\\", ",", "="):
                raise ValueError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            made += escaped
        elif char in (",", "="):
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            made += char
    return made


def checked_label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """The object form with client-go's checks: an operator, key or value that cannot be raises ValueError in its text."""
    requirements = [
        _checked_requirement(key, IN, (value,)) for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator"))
        if operator is None:
            raise ValueError(f'"{expression.get("operator")}" is not a valid label selector operator')
        values = tuple(expression.get("values") or ())
        requirements.append(_checked_requirement(expression.get("key", ""), operator, values))
    return LabelSelector(tuple(requirements))


_OBJECT_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}


def _checked_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    errors: list[FieldError] = []
    if complaints := is_qualified_name(key):
        errors.append(invalid("key", key, "; ".join(complaints)))
    if operator in (IN, NOT_IN) and not values:
        errors.append(invalid("values", None, "for 'in', 'notin' operators, values set can't be empty"))
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        errors.append(invalid("values", list(values), "values set must be empty for exists and does not exist"))
    for index, value in enumerate(values):
        if complaints := is_label_value(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(complaints)))
    if errors:
        texts = list(dict.fromkeys(str(error) for error in errors))
        raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, values)
