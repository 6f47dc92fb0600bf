"""Compares what two sides gave, step by step, and holds the one list of differences that may stay.

`differences.toml` names each with its reason: `step` is a pattern over `case: step` (`*` stands for anything); `lines`,
when given, is a regular expression, and only lines that match it may differ (`real` and `ours`: lines that only that
side has). A difference that is not listed is a failure; a listed one that no longer shows is reported, so that the list
stays true (unless it shows only `sometimes`). One that is `unscripted` is for readers: no script comes there.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.script import Outcome

LIST = Path(__file__).with_name("differences.toml")
MISSING = "(this side has no such step)"


@dataclass(frozen=True)
class Listed:
    """A difference that stays, and why."""

    step: str
    reason: str
    title: str
    lines: str | None = None
    real: str | None = None
    ours: str | None = None
    sometimes: bool = False
    unscripted: bool = False

    def covers(self, step: str, left: str, right: str) -> bool:
        if not fnmatch.fnmatchcase(step, self.step.replace("[", "[[]")):
            return False
        if self.lines is None and self.real is None and self.ours is None:
            return True
        return _others(left, right, self.lines, self.real) == _others(right, left, self.lines, self.ours)


@dataclass(frozen=True)
class Omission:
    """Behaviour of Kubernetes that is left out; no case asks for it, so it is documented and never compared."""

    title: str
    reason: str


@dataclass(frozen=True)
class Difference:
    case: str
    step: str
    part: str
    left: str
    right: str

    @property
    def name(self) -> str:
        return f"{self.case}: {self.step}"


@dataclass
class Judge:
    """Collects the verdicts of a run."""

    listed: Sequence[Listed] = ()
    cases: int = 0
    steps: int = 0
    unlisted: list[Difference] = field(default_factory=list)
    used: set[Listed] = field(default_factory=set)

    def compare(self, case: str, left: Sequence[Outcome], right: Sequence[Outcome]) -> list[Difference]:
        """The unlisted differences of one case."""
        found = [difference for difference in _differences(case, left, right) if not self._is_listed(difference)]
        self.cases += 1
        self.steps += len(left)
        self.unlisted.extend(found)
        return found

    @property
    def stale(self) -> list[Listed]:
        return [entry for entry in self.listed if not (entry in self.used or entry.sometimes or entry.unscripted)]

    def _is_listed(self, difference: Difference) -> bool:
        for entry in self.listed:
            if entry.covers(difference.name, difference.left, difference.right):
                self.used.add(entry)
                return True
        return False


def _others(text: str, other: str, forgiven: str | None, alone: str | None) -> list[str]:
    """The lines that are not forgiven: those that match `alone` are where the other side has no such line."""
    there = set(other.splitlines())

    def stays(line: str) -> bool:
        if forgiven is not None and re.search(forgiven, line):
            return False
        return alone is None or line in there or not re.search(alone, line)

    return [line for line in text.splitlines() if stays(line)]


def load(file: Path = LIST) -> list[Listed]:
    return [Listed(**entry) for entry in tomllib.loads(file.read_text()).get("difference", [])]


def load_omissions(file: Path = LIST) -> list[Omission]:
    return [Omission(**entry) for entry in tomllib.loads(file.read_text()).get("omission", [])]


def render(difference: Difference, names: tuple[str, str] = ("real", "ours")) -> str:
    """The two texts laid together: common lines once, the others marked by the side that has them."""
    width = max(len(name) for name in names)
    marks = {"- ": names[0], "+ ": names[1], "  ": ""}
    lines = [f"{difference.case}", f"  $ {difference.step}", f"  {difference.part}:"]
    left, right = difference.left, difference.right
    compared = list(difflib.ndiff(_lines(left, right), _lines(right, left)))
    shown = _around_changes([line for line in compared if not line.startswith("? ")])
    return "\n".join([*lines, *(f"    {marks[line[:2]]:>{width}} | {line[2:]}" for line in shown)])


def _differences(case: str, left: Sequence[Outcome], right: Sequence[Outcome]) -> Iterable[Difference]:
    for mine, other in _aligned(left, right):
        mine_parts = mine.parts if mine else {"step": MISSING}
        other_parts = other.parts if other else {"step": MISSING}
        step = (mine or other or left[0]).step
        parts = {**mine_parts, **other_parts} if mine and other else {"step": MISSING}
        for part in parts:
            texts = mine_parts.get(part, ""), other_parts.get(part, "")
            if texts[0] != texts[1]:
                yield Difference(case, step, part, *texts)


def _aligned(left: Sequence[Outcome], right: Sequence[Outcome]) -> Iterable[tuple[Outcome | None, Outcome | None]]:
    """Steps in pairs; one that only one side took stands alone, and those after it still meet."""
    names = [step.step for step in left], [step.step for step in right]
    for tag, start, end, other_start, other_end in difflib.SequenceMatcher(None, *names, False).get_opcodes():
        if tag == "equal":
            yield from zip(left[start:end], right[other_start:other_end], strict=True)
        else:
            yield from ((step, None) for step in left[start:end])
            yield from ((None, step) for step in right[other_start:other_end])


def _lines(text: str, other: str) -> list[str]:
    unended = text != "" and not text.endswith("\n") and other.endswith("\n")
    return [*text.splitlines(), *(["(no end of line)"] if unended else [])]


def _around_changes(lines: list[str], context: int = 3) -> list[str]:
    changed = [index for index, line in enumerate(lines) if not line.startswith("  ")]
    keep = {near for index in changed for near in range(index - context, index + context + 1)}
    shown: list[str] = []
    for index, line in enumerate(lines):
        if index in keep:
            shown.append(line)
        elif shown and shown[-1] != "  ...":
            shown.append("  ...")
    return shown
