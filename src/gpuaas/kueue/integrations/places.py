"""Which pod of an admitted pod set goes to which place of its topology assignment.

Pods that know their rank are laid out in its order, so that neighbours by rank are neighbours on the ground; others
fill the places as they come. Places of pods that already have one are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpuaas.base.numbers import natural
from gpuaas.engine.topology_values import HOSTNAME
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.jobs import annotations_of, labels_of
from gpuaas.kueue.integrations.pods import has_ended, has_gate
from gpuaas.kueue.status import domains_of

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
    assignment: View, request: View | None, pods: Sequence[Object], *, first: int = 0, failed: Collection[str] = ()
) -> list[tuple[Object, Object]]:
    """(pod, node labels) for the pods that still wait for a place; `first` is the rank of the set's first pod. Places on
    failed nodes are not given out: others are looked for."""
    placed = assignment["topologyAssignment"]
    levels: list[str] = placed["levels"]
    places = [place for place, count in domains_of(placed) or () for _ in range(count)]
    live = [pod for pod in pods if not has_ended(pod)]  # one that is being deleted still has its place
    waiting = [pod for pod in live if has_gate(pod, keys.TOPOLOGY_GATE)]
    ranks = _ranks(live, request, assignment.get("count", len(places)), first)
    if ranks is not None and _as_ranked(levels, places, live, ranks):
        found = [(pod, places[ranks[_name(pod)]]) for pod in waiting]
    else:
        found = _first_come(levels, places, live, waiting)
    lost = set(failed) if levels[-1] == HOSTNAME else set()
    return [(pod, dict(zip(levels, place, strict=True))) for pod, place in found if place[-1] not in lost]


def _ranks(pods: Sequence[Object], request: View | None, size: int, first: int) -> dict[str, int] | None:
    """Each pod's rank, if all have one and no two the same."""
    label = (request or {}).get("podIndexLabel")
    if not label:
        return None
    group, count = (request or {}).get("subGroupIndexLabel"), (request or {}).get("subGroupCount") or 0
    if group and count <= 0:
        return None
    each = size // count if group else size + first
    found: dict[str, int] = {}
    for pod in pods:
        index = _number(pod, label)
        outer = _number(pod, group) if group else 0
        if index is None or outer is None or index >= each or (group and outer >= count):
            return None
        found[_name(pod)] = (outer * each if group else 0) + index - first
    fits = all(0 <= rank < size for rank in found.values()) and len(set(found.values())) == len(found)
    return found if fits else None


def _as_ranked(
    levels: Sequence[str], places: Sequence[Place], live: Sequence[Object], ranks: Mapping[str, int]
) -> bool:
    """Whether ranks tell where pods go: each has a place, and those that have theirs are there. After a failed node was
    replaced they need not be; and slices may leave fewer places than there are pods."""
    return all(
        ranks[_name(pod)] < len(places)
        and (has_gate(pod, keys.TOPOLOGY_GATE) or _place_of(pod, levels) == places[ranks[_name(pod)]])
        for pod in live
    )


def _place_of(pod: View, levels: Sequence[str]) -> Place:
    selector = pod["spec"].get("nodeSelector") or {}
    return tuple(selector.get(level, "") for level in levels)


def _first_come(
    levels: Sequence[str], places: Sequence[Place], live: Sequence[Object], waiting: Sequence[Object]
) -> list[tuple[Object, Place]]:
    taken: Counter[Place] = Counter()
    for pod in live:
        if not has_gate(pod, keys.TOPOLOGY_GATE):
            taken[_place_of(pod, levels)] += 1
    free = []
    for place in places:
        if taken[place] > 0:
            taken[place] -= 1
        else:
            free.append(place)
    ordered = sorted(waiting, key=lambda pod: (str(pod["metadata"].get("creationTimestamp", "")), _name(pod)))
    return list(zip(ordered, free, strict=False))


def _number(pod: View, label: str) -> int | None:
    return natural(labels_of(pod).get(label, annotations_of(pod).get(label, "")))


def _name(pod: View) -> str:
    return str(pod["metadata"]["name"])
