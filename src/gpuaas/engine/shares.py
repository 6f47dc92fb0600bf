"""Dominant resource shares: how far a node is above its own quota, as a fraction of what its parent could lend.

The one place with floats that decide: IEEE doubles computed in upstream's order, compared exactly. Who wins by a lower
share is decided in `order`, who loses by a higher one in `preempt_fair`.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuaas.engine.amounts import MAX_INT64, bounded
from gpuaas.engine.tree import FlavorResources, Node

Rank = tuple[int, float]
"""Comparable: (1, unweighted) for a borrower of weight zero, above every (0, weighted)."""

NEGATIVE: Rank = (0, -1.0)


class Share(NamedTuple):
    ratio: float
    """Borrowed per thousand of the lendable, of the dominant resource."""
    weight: float
    resource: str = ""
    borrowed: tuple[int, ...] = ()
    """The flavor-resources the node borrows."""

    @property
    def rank(self) -> Rank:
        if self.weight == 0 and self.ratio != 0:
            return 1, self.ratio
        return 0, self.ratio / self.weight if self.ratio else 0.0

    @property
    def status(self) -> int:
        """The number in a `weightedShare` status field."""
        kind, value = self.rank
        return MAX_INT64 if kind else -int(-value // 1)


def share(node: Node, frs: FlavorResources) -> Share:
    parent = node.parent
    if parent is None:
        return Share(0.0, node.weight)
    over: dict[str, int] = {}
    borrowed: list[int] = []
    usage = node.usage
    for fr, quota in node.subtree.items():
        above = usage.get(fr, 0) - quota
        if above > 0:
            resource = frs.resource[fr]
            over[resource] = over.get(resource, 0) + above
            borrowed.append(fr)
    if not over:
        return Share(0.0, node.weight)
    lendable = parent.lendable or _lendable(parent, frs)
    ratio, dominant = 0.0, ""
    for resource, amount in over.items():
        most = lendable.get(resource, 0)
        if most > 0:
            value = float(bounded(amount)) * 1000.0 / float(bounded(most))
            if value > ratio or (value == ratio and resource < dominant):
                ratio, dominant = value, resource
    return Share(ratio, node.weight, dominant, tuple(borrowed))


def _lendable(cohort: Node, frs: FlavorResources) -> dict[str, int]:
    """All that could be had at the cohort per resource; kept until quotas change."""
    total: dict[str, int] = {}
    for fr, most in cohort.potential.items():
        resource = frs.resource[fr]
        total[resource] = total.get(resource, 0) + most
    cohort.lendable = total
    return total
