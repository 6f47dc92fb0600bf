"""The statistics of `--against`: medians and spreads of two revisions, their ratio, and the verdict. Pure.

A line passes when the new revision's median is at most 5 % above the old one's plus the old one's own spread: what the
old revision does not repeat by itself cannot be held against the new one. Spread is half of the distance between the
smallest and the largest figure, as a part of the median.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

ALLOWED = 0.05


@dataclass
class Samples:
    """One line: a figure of each revision for each round. Smaller is better. Lines that are not `judged` are shown
    only (wall time depends on who else uses the machine)."""

    line: str
    unit: str
    judged: bool = True
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    line: str
    unit: str
    old: float
    new: float
    old_spread: float
    new_spread: float
    judged: bool

    @property
    def ratio(self) -> float:
        if self.old:
            return self.new / self.old
        return 1.0 if self.new == self.old else float("inf")

    @property
    def limit(self) -> float:
        return 1 + ALLOWED + self.old_spread

    @property
    def slower(self) -> bool:
        return self.judged and self.ratio > self.limit

    @property
    def verdict(self) -> str:
        if not self.judged:
            return "not judged"
        return f"above {self.limit:.2f}" if self.slower else "ok"

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.line, "unit": self.unit, "old": self.old, "new": self.new, "oldSpread": self.old_spread,
            "newSpread": self.new_spread, "ratio": self.ratio, "limit": self.limit, "verdict": self.verdict,
        }  # fmt: skip


def spread(figures: list[float]) -> float:
    middle = median(figures)
    return (max(figures) - min(figures)) / 2 / middle if middle else 0.0


def compare(samples: Samples) -> Comparison:
    """Lines need at least one figure of each revision."""
    return Comparison(
        line=samples.line,
        unit=samples.unit,
        old=median(samples.old),
        new=median(samples.new),
        old_spread=spread(samples.old),
        new_spread=spread(samples.new),
        judged=samples.judged,
    )


def rows(comparisons: list[Comparison]) -> list[tuple[str, ...]]:
    return [
        (
            each.line,
            _figure(each.old, each.unit),
            f"±{each.old_spread:.0%}",
            _figure(each.new, each.unit),
            f"±{each.new_spread:.0%}",
            f"{each.ratio:.2f}",
            each.verdict,
        )
        for each in comparisons
    ]


def _figure(value: float, unit: str) -> str:
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
