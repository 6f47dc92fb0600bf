"""What rows know of ResourceFlavors: their node labels, and into how many shares the cards of each are divided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from gpuaas.devices.shares import NO_SHARES, Shares, share_of, shares_of_flavor

View = Mapping[str, Any]


class Flavors:
    def __init__(self) -> None:
        self.node_labels: dict[str, Mapping[str, str]] = {}
        self._shares: dict[str, Shares] = {}  # only those that are shared

    def changed(self, name: str, obj: View | None) -> None:
        if obj is None:
            self.node_labels.pop(name, None)
        else:
            self.node_labels[name] = (obj.get("spec") or {}).get("nodeLabels") or {}
        shares = shares_of_flavor(obj)
        if shares:
            self._shares[name] = shares
        else:
            self._shares.pop(name, None)

    @property
    def any_shared(self) -> bool:
        return bool(self._shares)

    def cards(self, amounts: Iterable[tuple[str, str, int]]) -> Fraction:
        """Of amounts by flavor and resource; a flavor that is not known yet counts as not shared."""
        found = (
            share_of(resource, self._shares.get(flavor, NO_SHARES)) * amount for flavor, resource, amount in amounts
        )
        return sum(found, Fraction(0))
