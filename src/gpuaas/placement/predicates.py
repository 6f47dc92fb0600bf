"""Predicates: alternatives of label, claim and CEL selectors; a cluster needs to match all selectors of one of them.

CEL is not compiled here: `compile_cel` makes a function of an expression, or raises ValueError with the compiler's text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuaas.base.selectors import LabelSelector, checked_label_selector
from gpuaas.placement.values import Cluster, Fleet, Object

Matcher = Callable[[Cluster, Fleet], bool]
CompileCel = Callable[[str], Matcher]


@dataclass(frozen=True, slots=True)
class ClusterSelector:
    labels: LabelSelector
    claims: LabelSelector
    expressions: tuple[Matcher, ...] = ()

    def matches(self, cluster: Cluster, fleet: Fleet) -> bool:
        return (
            self.labels.matches(cluster.labels)
            and self.claims.matches(cluster.claims)
            and all(expression(cluster, fleet) for expression in self.expressions)
        )


def compile_predicates(predicates: Sequence[Object], compile_cel: CompileCel) -> list[ClusterSelector]:
    """Raises ValueError with upstream's text for the first selector that cannot be read."""
    return [compile_selector(p.get("requiredClusterSelector") or {}, compile_cel) for p in predicates]


def compile_selector(selector: Object, compile_cel: CompileCel | None) -> ClusterSelector:
    """Without `compile_cel` expressions are ignored, as upstream does in decision groups."""
    labels = checked_label_selector(selector.get("labelSelector") or {})
    claims = {"matchExpressions": (selector.get("claimSelector") or {}).get("matchExpressions")}
    expressions = (selector.get("celSelector") or {}).get("celExpressions") or ()
    compiled = tuple(compile_cel(expression) for expression in expressions) if compile_cel else ()
    return ClusterSelector(labels, checked_label_selector(claims), compiled)
