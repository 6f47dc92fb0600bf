"""CEL expressions of cluster selectors, compiled for `gpuaas.placement`.

An expression sees `managedCluster` as a map and may call `managedCluster.scores(NAME)`, the values of the cluster's
AddOnPlacementScore of that name. What goes wrong while one runs counts as no match, as upstream does.
"""

from __future__ import annotations

from typing import Any, Final

from gpuaas.machinery.schema.cel import CelError, Problem, Unsupported, compile_expression
from gpuaas.machinery.schema.cel.budget import BUDGET, Budget, Exhausted
from gpuaas.machinery.schema.cel.library import Overload
from gpuaas.machinery.schema.cel.types import DYN, STRING, list_of, map_of
from gpuaas.placement.predicates import Matcher
from gpuaas.placement.values import Cluster, Fleet

_VARIABLES: Final = {"managedCluster": map_of(STRING, DYN)}


def compile_cel(source: str) -> Matcher:
    """Raises ValueError with the compiler's text, as upstream words it."""
    asked: Fleet | None = None  # the fleet of the match that runs now, for scores()

    def scores(cluster: Any, name: str) -> list[dict[str, Any]]:
        found = asked.scores.get((cluster["metadata"]["name"], name)) if asked is not None else None
        if found is None:
            raise CelError(f'failed to get score: addonplacementscore "{name}" not found')
        return [{"name": score, "value": value} for score, value in found.values.items()]

    library = {"scores": [Overload((DYN, STRING), list_of(DYN), scores, method=True)]}
    try:
        expression = compile_expression(source, _VARIABLES, library=library)
    except (Problem, Unsupported) as error:
        raise ValueError(f"compilation failed: {error}") from None

    def matches(cluster: Cluster, fleet: Fleet) -> bool:
        nonlocal asked
        asked = fleet
        budget = Budget()
        budget.begin()
        try:
            return expression.run({"managedCluster": cluster.object, BUDGET: budget}) is True
        except (CelError, Exhausted, KeyError, TypeError):
            return False

    return matches
