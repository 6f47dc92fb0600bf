"""Which pod of an admitted pod set goes to which place of its topology assignment.

Pods that know their rank are laid out in its order, so that neighbours by rank are neighbours on the ground; others
fill the places as they come. Places of pods that already have one are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.admission.integrations import keys
from gpuaas.admission.integrations.jobs import annotations_of, labels_of
from gpuaas.admission.integrations.pods import has_ended, has_gate
from gpuaas.admission.status import domains_of

Object = dict[str, Any]
View = Mapping[str, Any]
Place = tuple[str, ...]


def ungated(pod: View, labels: Mapping[str, str]) -> Object:
    """The pod bound to its place, free to be scheduled there."""
    spec = dict(pod["spec"])
    gates = [gate for gate in spec.pop("schedulingGates", ()) if gate["name"] != keys.TOPOLOGY_GATE]
    if gates:
        spec["schedulingGates"] = gates
    return {**pod, "spec": {**spec, "nodeSelector": {**(spec.get("nodeSelector") or {}), **labels}}}


def layout(
    assignment: View, request: View | None, pods: Sequence[Object], *, first: int = 0
) -> list[tuple[Object, Object]]:
    """(pod, node labels) for the pods that still wait for a place; `first` is the rank of the set's first pod."""
    placed = assignment["topologyAssignment"]
    levels: list[str] = placed["levels"]
    places = [place for place, count in domains_of(placed) or () for _ in range(count)]
    live = [pod for pod in pods if not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")]
    waiting = [pod for pod in live if has_gate(pod, keys.TOPOLOGY_GATE)]
    ranks = _ranks(live, request, len(places), first)
    if ranks is not None:
        found = [(pod, places[ranks[_name(pod)]]) for pod in waiting]
    else:
        found = _first_come(levels, places, live, waiting)
    return [(pod, dict(zip(levels, place, strict=True))) for pod, place in found]


def _ranks(pods: Sequence[Object], request: View | None, size: int, first: int) -> dict[str, int] | None:
    """Each pod's rank, if all have one and no two the same."""
    label = (request or {}).get("podIndexLabel")
    if not label:
        return None
    group, count = (request or {}).get("subGroupIndexLabel"), (request or {}).get("subGroupCount") or 1
    each = size // count if group else 0
    found: dict[str, int] = {}
    for pod in pods:
        index = _number(pod, label)
        outer = _number(pod, group) if group else 0
        if index is None or outer is None:
            return None
        found[_name(pod)] = outer * each + index - first
    fits = all(0 <= rank < size for rank in found.values()) and len(set(found.values())) == len(found)
    return found if fits else None


def _first_come(
    levels: Sequence[str], places: Sequence[Place], live: Sequence[Object], waiting: Sequence[Object]
) -> list[tuple[Object, Place]]:
    taken: Counter[Place] = Counter()
    for pod in live:
        if not has_gate(pod, keys.TOPOLOGY_GATE):
            selector = pod["spec"].get("nodeSelector") or {}
            taken[tuple(selector.get(level, "") for level in levels)] += 1
    free = []
    for place in places:
        if taken[place] > 0:
            taken[place] -= 1
        else:
            free.append(place)
    ordered = sorted(waiting, key=lambda pod: (str(pod["metadata"].get("creationTimestamp", "")), _name(pod)))
    return list(zip(ordered, free, strict=False))


def _number(pod: View, label: str) -> int | None:
    text = labels_of(pod).get(label, annotations_of(pod).get(label, ""))
    return int(text) if text.isascii() and text.isdigit() else None


def _name(pod: View) -> str:
    return str(pod["metadata"]["name"])
