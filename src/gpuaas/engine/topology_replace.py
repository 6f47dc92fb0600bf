"""Other places for the pods of a node that failed, while the rest of their workload stays where it is.

The new places keep what was promised: within the required domain if something of the set is still in it, within the
domain whose slice lost pods if it lost only some. The search itself is `topology_fit`'s.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gpuaas.engine.topology_count import Amounts
from gpuaas.engine.topology_fit import Ask, Domains, NoPlace, fit
from gpuaas.engine.topology_tree import PlaceTree
from gpuaas.engine.topology_values import TopologyRequest


def relocated(
    tree: PlaceTree, ask: Ask, held: Domains, failed: str, assumed: dict[tuple[str, ...], Amounts]
) -> tuple[Domains, Domains]:
    """All places of the pod set with those on the failed node elsewhere, and the new ones alone. Raises NoPlace."""
    kept = tuple(each for each in held if each[0][-1] != failed)
    lost = sum(count for values, count in held if values[-1] == failed)
    stale = next((values for values, _ in kept if values not in tree.leaves), None)
    if stale is not None:
        raise NoPlace(
            "Cannot replace the node, because the existing topologyAssignment is invalid, "
            f"as it contains the stale domain {stale[0]}"
        )
    within = _stays_within(tree, ask, kept, lost)
    fresh, _ = fit(tree, _for_lost(ask, lost, bool(within)), None, assumed, False, within)
    if not fresh:
        raise NoPlace(f"cannot find replacement assignment for unhealthy node: {failed}")
    return joined(tree, kept, fresh), fresh


def _stays_within(tree: PlaceTree, ask: Ask, kept: Domains, lost: int) -> tuple[str, ...]:
    """The domain the new places have to be in; () where any will do."""
    request = ask.request
    if request is None or not kept or any(size <= 0 for _, size in request.slices):
        return ()
    broken = [(label, size) for label, size in request.slices if lost % size]
    if broken and lost % request.slices[0][1]:
        return _incomplete(tree, kept, lost, *broken[-1])
    if request.required is None:
        return ()
    level = tree.level(request.required)
    return () if level is None else tree.leaves[kept[0][0]].values[: level + 1]


def _incomplete(tree: PlaceTree, kept: Domains, lost: int, label: str, size: int) -> tuple[str, ...]:
    """The domain whose slices are whole again with the lost pods."""
    level = tree.level(label)
    if level is None:
        return ()
    counts: Counter[tuple[str, ...]] = Counter()
    for identity, count in kept:
        counts[tree.leaves[identity].values[: level + 1]] += count
    return next((domain for domain, count in counts.items() if (count + lost) % size == 0), ())


def _for_lost(ask: Ask, lost: int, within: bool) -> Ask:
    """The same question for the lost pods alone. Part of a slice comes in the largest smaller groups it divides into."""
    request = ask.request
    if request is None or not request.slices or not within or lost % request.slices[0][1] == 0:
        return replace(ask, count=lost)
    grouped = [layer for layer in request.slices if lost % layer[1] == 0]
    smaller: TopologyRequest = replace(request, slices=tuple(grouped[-1:]))
    return replace(ask, count=lost, pod_set=replace(ask.pod_set, topology=smaller))


def joined(tree: PlaceTree, kept: Domains, fresh: Domains) -> Domains:
    """Places that stay and places that come to them, in the order of the tree."""
    counts: Counter[tuple[str, ...]] = Counter()
    for identity, count in (*kept, *fresh):
        counts[identity] += count
    return tuple(sorted(counts.items(), key=lambda each: ",".join(tree.leaves[each[0]].values)))
