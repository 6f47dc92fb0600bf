"""Reading a file of settings field by field: mistakes are collected with their paths, unknown fields give a warning.

A reader asks a section for its fields by name and kind; `done` then says which names it never asked for. Nothing raises
before everything has been looked at, so that a person sees all that is wrong at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from gpuaas.api.metadata import validate_label_selector
from gpuaas.base.fielderrors import FieldError, child, invalid, keyed, not_supported, type_invalid
from gpuaas.base.selectors import LabelSelector, from_label_selector

NEGATIVE = "must be greater than or equal to 0"
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_MOST_SECONDS = 2**63 / 1e9


@dataclass(slots=True)
class Findings:
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Section:
    def __init__(self, found: Mapping[str, Any], path: str, findings: Findings) -> None:
        self._found = found
        self._path = path
        self._findings = findings
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return self._found.get(name) is not None

    def path(self, name: str) -> str:
        return child(self._path, name)

    def error(self, problem: FieldError) -> None:
        self._findings.errors.append(problem)

    def without_effect(self, name: str, why: str) -> None:
        """Known upstream, of no use here."""
        self._asked.add(name)
        if name in self:
            self._findings.warnings.append(f"{self.path(name)}: has no effect here: {why}")

    def warn(self, path: str, words: str) -> None:
        self._findings.warnings.append(f"{path}: {words}")

    def section(self, name: str) -> Section | None:
        found = self._get(name, dict, "a mapping of names to values")
        return None if found is None else Section(found, self.path(name), self._findings)

    def sections(self, name: str) -> list[Section]:
        found = self._get(name, list, "a list") or []
        made = []
        for index, each in enumerate(found):
            path = child(self._path, name, index)
            if isinstance(each, dict):
                made.append(Section(each, path, self._findings))
            else:
                self.error(type_invalid(path, each, "must be a mapping of names to values"))
        return made

    def boolean(self, name: str, default: bool) -> bool:
        found = self._get(name, bool, "true or false")
        return default if found is None else found

    def text(self, name: str, default: str = "") -> str:
        found = self._get(name, str, "text")
        return default if found is None else found

    def texts(self, name: str) -> list[str]:
        found = self._get(name, list, "a list of names") or []
        for index, each in enumerate(found):
            if not isinstance(each, str):
                self.error(type_invalid(child(self._path, name, index), each, "must be text"))
        return [each for each in found if isinstance(each, str)]

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        found = self.text(name, default)
        if found not in allowed:
            self.error(not_supported(self.path(name), found, allowed))
            return default
        return found

    def count(self, name: str) -> int | None:
        found: int | None = self._get(name, int, "a whole number")
        if found is not None and found < 0:
            self.error(invalid(self.path(name), found, NEGATIVE))
            return None
        return found

    def numbers(self, name: str) -> dict[str, float]:
        """A mapping of names to numbers that are not negative."""
        made = {}
        for key, value in (self._get(name, dict, "a mapping of names to numbers") or {}).items():
            path = keyed(self.path(name), key)
            if isinstance(value, bool) or not isinstance(value, int | float):
                self.error(type_invalid(path, value, "must be a number"))
            elif value < 0:
                self.error(invalid(path, value, NEGATIVE))
            else:
                made[key] = float(value)
        return made

    def mapping(self, name: str) -> dict[str, Any]:
        return self._get(name, dict, "a mapping of names to values") or {}

    def seconds(self, name: str) -> float | None:
        """A length of time as Go writes it."""
        found = self._get(name, str, "a length of time such as 30s, 5m or 1h30m")
        if found is None:
            return None
        seconds = parse_duration(found)
        if seconds is None:
            self.error(invalid(self.path(name), found, "must be a length of time such as 30s, 5m or 1h30m"))
        elif seconds < 0:
            self.error(invalid(self.path(name), found, NEGATIVE))
            return None
        return seconds

    def selector(self, name: str) -> LabelSelector | None:
        found = self._get(name, dict, "a label selector: matchLabels, matchExpressions")
        if found is None:
            return None
        problems = _selector_problems(found, self.path(name))
        self._findings.errors += problems
        return None if problems else from_label_selector(found)

    def done(self) -> None:
        """Everything worth asking for was asked for: the rest is unknown."""
        for name in self._found:
            if name not in self._asked:
                near = get_close_matches(str(name), self._asked, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                self.warn(self.path(str(name)), f"is not known and has no effect{hint}")

    def _get(self, name: str, kind: type, wanted: str) -> Any:
        self._asked.add(name)
        found = self._found.get(name)
        if found is None:
            return None
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            self.error(type_invalid(self.path(name), found, f"must be {wanted}"))
            return None
        return found


def parse_duration(text: str) -> float | None:
    """Seconds; None for what is no length of time."""
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0.0
    if not rest or not re.fullmatch(f"(?:{_PART.pattern})+", rest):
        return None
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(rest))
    return sign * total if total < _MOST_SECONDS else None


def _selector_problems(found: Mapping[str, Any], path: str) -> list[FieldError]:
    labels, terms = found.get("matchLabels"), found.get("matchExpressions")
    if labels is not None and not (isinstance(labels, dict) and all(isinstance(v, str) for v in labels.values())):
        return [type_invalid(child(path, "matchLabels"), labels, "must be a mapping of labels to text")]
    if terms is not None and not (isinstance(terms, list) and all(isinstance(each, dict) for each in terms)):
        return [type_invalid(child(path, "matchExpressions"), terms, "must be a list of {key, operator, values}")]
    return validate_label_selector(found, path)
