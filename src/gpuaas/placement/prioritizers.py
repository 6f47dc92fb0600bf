"""Prioritizers: each gives every feasible cluster -100 to 100; a Placement weighs and adds them.

Steady prefers clusters that are chosen already; Balance those that few other Placements have chosen;
ResourceAllocatableCPU and -Memory those with most left; an add-on score is what a publisher wrote about a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gpuaas.placement.values import Cluster, Fleet, Object

BEST: Final = 100
_RESOURCES: Final = {"ResourceAllocatableCPU": "cpu", "ResourceAllocatableMemory": "memory"}
_DEFAULT_WEIGHTS: Final[dict[tuple[str, ...], int]] = {("BuiltIn", "Balance"): 1, ("BuiltIn", "Steady"): 1}

Coordinate = tuple[str, ...]  # ("BuiltIn", name) or ("AddOn", resource, score)
Scores = dict[str, int]


class MisconfiguredError(ValueError):
    """The Placement asks for a prioritizer that does not exist; the text is upstream's."""


@dataclass(frozen=True, slots=True)
class Round:
    """What the prioritizers of one scheduling see: the Placement by key, the feasible clusters, the fleet, the time."""

    key: tuple[str, str]
    clusters: Sequence[Cluster]
    fleet: Fleet
    now: datetime


@dataclass(frozen=True, slots=True)
class Weighed:
    name: str
    weight: int
    scores: Mapping[str, int]
    expired: tuple[str, ...] = ()  # `cluster/resource` of add-on scores that are out of date and count as 0


def weights(policy: Object) -> dict[Coordinate, int]:
    """Weight of each prioritizer: the defaults overridden in mode Additive, only what is named in mode Exact."""
    match policy.get("mode") or "Additive":
        case "Additive":
            found = dict(_DEFAULT_WEIGHTS)
        case "Exact":
            found = {}
        case mode:
            raise MisconfiguredError(f"incorrect prioritizer policy mode: {mode}")
    for configuration in policy.get("configurations") or ():
        coordinate = configuration.get("scoreCoordinate")
        if coordinate is None:
            raise MisconfiguredError("scoreCoordinate field is required")
        # The CRD defaults an absent weight to 1; a weight of 0 drops the prioritizer.
        found[_coordinate(coordinate)] = int(configuration.get("weight", 1))
    return found


def _coordinate(coordinate: Object) -> Coordinate:
    if (coordinate.get("type") or "BuiltIn") == "BuiltIn":
        return "BuiltIn", coordinate.get("builtIn") or ""
    add_on = coordinate.get("addOn")
    return ("AddOn", add_on.get("resourceName", ""), add_on.get("scoreName", "")) if add_on else ("AddOn",)


def weigh(policy: Object, around: Round) -> list[Weighed]:
    """Every prioritizer that has a weight, with its scores, in order of its name."""
    wanted = sorted((coordinate, weight) for coordinate, weight in weights(policy).items() if weight)
    prioritizers = [(coordinate, _prioritizer(coordinate), weight) for coordinate, weight in wanted]
    return [
        Weighed("/".join(c[1:] if c[0] == "BuiltIn" else c), weight, *prioritizer(around))
        for c, prioritizer, weight in prioritizers
    ]


def _prioritizer(coordinate: Coordinate) -> Callable[[Round], tuple[Scores, tuple[str, ...]]]:
    match coordinate:
        case ("BuiltIn", "Steady"):
            return lambda around: (_steady(around), ())
        case ("BuiltIn", "Balance"):
            return lambda around: (_balance(around), ())
        case ("BuiltIn", name) if name in _RESOURCES:
            return lambda around: (_allocatable(around, _RESOURCES[name]), ())
        case ("BuiltIn", name):
            raise MisconfiguredError(f"incorrect builtin prioritizer: {name}")
        case ("AddOn", resource, score):
            return lambda around: _add_on(around, resource, score)
        case _:
            raise MisconfiguredError("addOn should not be empty")


def _steady(around: Round) -> Scores:
    chosen = set(around.fleet.decided.get(around.key, ()))
    return {cluster.name: BEST if cluster.name in chosen else 0 for cluster in around.clusters}


def _balance(around: Round) -> Scores:
    counts = Counter(name for key, names in around.fleet.decided.items() if key != around.key for name in names)
    most = max(counts.values(), default=0)
    # int() cuts towards zero before the doubling, as upstream's conversion does: scores are even.
    return {
        c.name: 2 * int(BEST * (0.5 - counts[c.name] / most)) if c.name in counts else BEST for c in around.clusters
    }


def _allocatable(around: Round, resource: str) -> Scores:
    amounts = {c.name: c.allocatable[resource] for c in around.clusters if resource in c.allocatable}
    if not amounts:
        return {}
    least, span = min(amounts.values()), max(amounts.values()) - min(amounts.values())
    return {
        name: int(((amount - least) / span - 0.5) * 2.0 * BEST) if span else BEST for name, amount in amounts.items()
    }


def _add_on(around: Round, resource: str, score: str) -> tuple[Scores, tuple[str, ...]]:
    scores: Scores = {}
    expired: list[str] = []
    for cluster in around.clusters:
        published = around.fleet.scores.get((cluster.name, resource))
        stale = published is not None and published.valid_until is not None and around.now > published.valid_until
        if stale:
            expired.append(f"{cluster.name}/{resource}")
        scores[cluster.name] = 0 if published is None or stale else published.values.get(score, 0)
    return scores, tuple(expired)
