"""How a vector ended: in agreement, or where the two sides part."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where the measurement and our decision part, and both sides of it."""

    where: str
    expected: object
    found: object


@dataclass(frozen=True, slots=True)
class Verdict:
    """`informative`: the measured version is no longer the newest, which answers otherwise; counted apart. `successor`: an
    announced one will answer otherwise; counted, and named beside."""

    name: str
    family: str
    differences: tuple[Difference, ...]
    informative: bool = False
    successor: bool = False

    @property
    def agrees(self) -> bool:
        return not self.differences
