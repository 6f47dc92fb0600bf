"""Decision groups: the chosen clusters divided by selectors, then into pieces of a number or a percentage."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.placement.predicates import compile_selector
from gpuaas.placement.values import Cluster, Fleet, Object


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    clusters: tuple[str, ...]


def divide(strategy: Object, chosen: Sequence[Cluster], fleet: Fleet) -> list[Group]:
    """Each named group takes its matches from those still left; the rest are the unnamed group. Always at least one.

    Raises ValueError for a selector or a percentage that cannot be read.
    """
    size = _size(strategy.get("clustersPerDecisionGroup"), len(chosen))
    left = {cluster.name: cluster for cluster in chosen}
    groups: list[Group] = []
    for group in strategy.get("decisionGroups") or ():
        selector = compile_selector(group.get("groupClusterSelector") or {}, None)
        names = [name for name, cluster in left.items() if selector.matches(cluster, fleet)]
        groups += _pieces(group.get("groupName", ""), names, size)
        for name in names:
            del left[name]
    groups += _pieces("", list(left), size)
    return groups or [Group("", ())]


def _pieces(name: str, clusters: list[str], size: int) -> list[Group]:
    ordered = sorted(clusters)
    return [Group(name, tuple(ordered[at : at + size])) for at in range(0, len(ordered), size)]


def _size(value: Any, total: int) -> int:
    """Clusters in a group: a number or a percentage of the chosen, rounded up; all where it is absent or too large."""
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?%", value):
            raise ValueError(f"{value} invalid type: string is not a percentage")
        size = math.ceil(float(value[:-1]) / 100 * total)
    else:
        size = int(value or 0)
    return size if 0 < size <= total else max(total, 1)
