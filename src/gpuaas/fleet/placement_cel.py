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

_OF_ROUND: Final = 1_000_000  # as much as one rule of a schema; a usual expression costs some ten for each cluster
_VARIABLES: Final = {"managedCluster": map_of(STRING, DYN)}


def budget_of_round() -> Budget:
    """For all expressions of a Placement over all clusters, in one decision; where it ends, nothing matches any more."""
    return Budget(_OF_ROUND)


def compile_cel(source: str, budget: Budget | None = None) -> Matcher:
    """Raises ValueError with the compiler's text, as upstream words it. `budget`: what all matches may cost together;
    without one the expression has its own."""
    shared = budget_of_round() if budget is None else budget
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
        shared.begin()
        try:
            return expression.run({"managedCluster": cluster.object, BUDGET: shared}) is True
        except (CelError, Exhausted, KeyError, TypeError):
            return False
        finally:
            shared.end()

    return matches
