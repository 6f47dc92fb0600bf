"""Taints, tolerations and label requirements: the values, and whether they hold.

Owns the four questions asked of a flavor or a node: which taint is not tolerated, does a node selector match, does
required node affinity match, does a label selector match. Which flavors and nodes are asked is `shapes`' and
`topology`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        """As Kubernetes writes a taint on a command line."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression on a label: `key operator values`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


Term = tuple[Requirement, ...]
"""Requirements that all have to hold."""

SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def first_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps pods away and that none of the tolerations accepts."""
    for taint in taints:
        if taint.effect in SCHEDULING_EFFECTS and not any(_tolerates(t, taint) for t in tolerations):
            return taint
    return None


def term_holds(term: Term, labels: Mapping[str, str]) -> bool:
    return all(requirement_holds(requirement, labels) for requirement in term)


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(requirement.operator, value, requirement.values[0])
        case _:
            return False


def flavor_matches(
    labels: Mapping[str, str], node_selector: tuple[tuple[str, str], ...], affinity: tuple[Term, ...] | None
) -> bool:
    """Whether pods may use a flavor with these node labels.

    Only what the pods say about the flavor's own labels counts. Terms are alternatives, so that one that says nothing
    about them lets everything through.
    """
    if any(labels[key] != value for key, value in node_selector if key in labels):
        return False
    if affinity is None:
        return True
    kept = [tuple(r for r in term if r.key in labels) for term in affinity]
    if not all(kept):
        return True
    return any(term_holds(term, labels) for term in kept)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Gt" | "Lt":
            return _compares(toleration.operator, taint.value, toleration.value)
        case _:
            return toleration.value == taint.value


def _compares(operator: str, left: str, right: str) -> bool:
    try:
        a, b = int(left), int(right)
    except ValueError:
        return False
    return a > b if operator == "Gt" else a < b
