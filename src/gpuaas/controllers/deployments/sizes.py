"""How large each replica set of a deployment may be now: scaling in proportion, rolling and recreating.

Every function takes the deployment and its replica sets as they are and returns the sizes they should have; what is
not in the answer stays. The bounds: never more than replicas + maxSurge in all, never fewer available than
replicas - maxUnavailable.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Object
from gpuaas.runtime.metadata import annotations_of
from gpuaas.runtime.values import scaled

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"

Sizes = list[tuple[Object, int]]


def wanted(obj: Mapping[str, Any]) -> int:
    """`spec.replicas` of a deployment or replica set."""
    replicas = obj["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def is_rolling(deployment: Mapping[str, Any]) -> bool:
    kind: str = (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate")
    return kind == "RollingUpdate"


def max_surge(deployment: Mapping[str, Any]) -> int:
    return _fenceposts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Mapping[str, Any]) -> int:
    if not is_rolling(deployment) or wanted(deployment) == 0:
        return 0
    return min(_fenceposts(deployment)[1], wanted(deployment))


def available(sets: Sequence[Object]) -> int:
    return sum((one.get("status") or {}).get("availableReplicas", 0) for one in sets)


def by_age(sets: Sequence[Object]) -> list[Object]:
    """Oldest first."""
    return sorted(sets, key=lambda one: (_created(one), one["metadata"]["name"]))


def is_scaling(deployment: Mapping[str, Any], sets: Sequence[Object]) -> bool:
    """The deployment's size changed since its active replica sets were last given theirs."""
    desired = [_number(one, DESIRED) for one in sets if wanted(one) > 0]
    return any(number is not None and number != wanted(deployment) for number in desired)


def scale(deployment: Mapping[str, Any], new: Object | None, old: Sequence[Object]) -> Sizes:
    """Sizes after a change of `spec.replicas`: in proportion, so that a rollout is neither hastened nor undone."""
    only = _active_or_latest(new, old)
    if only is not None:
        return [(only, wanted(deployment))] if wanted(only) != wanted(deployment) else []
    if new is not None and _is_saturated(deployment, new):
        return [(one, 0) for one in old if wanted(one) > 0]
    if not is_rolling(deployment):
        return []
    return _proportional(deployment, [one for one in [*old, *_some(new)] if wanted(one) > 0])


def new_size(deployment: Mapping[str, Any], sets: Sequence[Object], size: int) -> int:
    """How large the new replica set, now of `size`, may become beside the others."""
    if not is_rolling(deployment):
        return wanted(deployment)
    total = sum(map(wanted, sets))
    room = wanted(deployment) + max_surge(deployment) - total
    if room <= 0:
        return size
    return size + min(room, wanted(deployment) - size)


def roll_up(deployment: Mapping[str, Any], new: Object, old: Sequence[Object]) -> Sizes:
    size = wanted(new)
    if size == wanted(deployment):
        return []
    target = wanted(deployment) if size > wanted(deployment) else new_size(deployment, [*old, new], size)
    return [(new, target)] if target != size else []


def roll_down(deployment: Mapping[str, Any], new: Object, old: Sequence[Object]) -> Sizes:
    """First the replicas that are not available anyway, then as many as availability allows."""
    active = by_age([one for one in old if wanted(one) > 0])
    least = wanted(deployment) - max_unavailable(deployment)
    missing = wanted(new) - available([new])
    room = sum(map(wanted, [*active, new])) - least - missing
    if not active or room <= 0:
        return []
    sizes = {one["metadata"]["name"]: wanted(one) for one in active}
    for one in active:
        unhealthy = min(room, wanted(one) - available([one]))
        if unhealthy > 0:
            sizes[one["metadata"]["name"]] -= unhealthy
            room -= unhealthy
    spare = available([*active, new]) - least
    for one in active:
        name = one["metadata"]["name"]
        fewer = min(sizes[name], spare)
        if fewer > 0:
            sizes[name] -= fewer
            spare -= fewer
    return [(one, sizes[one["metadata"]["name"]]) for one in active if sizes[one["metadata"]["name"]] != wanted(one)]


def _proportional(deployment: Mapping[str, Any], active: Sequence[Object]) -> Sizes:
    allowed = wanted(deployment) + max_surge(deployment) if wanted(deployment) > 0 else 0
    to_add = allowed - sum(map(wanted, active))
    # The largest first; of equals the newer grows first and the older shrinks first.
    newest_first = to_add > 0
    ordered = sorted(by_age(active), key=_created, reverse=newest_first)
    ordered.sort(key=wanted, reverse=True)
    added = 0
    sizes: Sizes = []
    for one in ordered:
        share = _share(deployment, one, to_add, added)
        added += share
        sizes.append((one, wanted(one) + share))
    if sizes and to_add:
        largest, size = sizes[0]
        sizes[0] = (largest, max(0, size + to_add - added))
    return sizes


def _share(deployment: Mapping[str, Any], one: Object, to_add: int, added: int) -> int:
    if wanted(one) == 0 or to_add in (0, added):
        return 0
    part = _fraction(deployment, one)
    left = to_add - added
    return min(part, left) if to_add > 0 else max(part, left)


def _fraction(deployment: Mapping[str, Any], one: Object) -> int:
    if wanted(deployment) == 0:
        return -wanted(one)
    before = _number(one, MAXIMUM) or (deployment.get("status") or {}).get("replicas", 0)
    if not before:
        return 0
    size = wanted(one) * (wanted(deployment) + max_surge(deployment)) / before
    return int(size + 0.5) - wanted(one)


def _active_or_latest(new: Object | None, old: Sequence[Object]) -> Object | None:
    """The one replica set with pods, or the newest if there is none; None if there are several."""
    everyone = [*by_age(old), *_some(new)]
    active = [one for one in everyone if wanted(one) > 0]
    if len(active) > 1 or not everyone:
        return None
    return active[0] if active else everyone[-1]


def _is_saturated(deployment: Mapping[str, Any], one: Object) -> bool:
    size = wanted(deployment)
    return wanted(one) == size and _number(one, DESIRED) == size and available([one]) == size


def _fenceposts(deployment: Mapping[str, Any]) -> tuple[int, int]:
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge"), wanted(deployment), round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), wanted(deployment), round_up=False)
    return surge, unavailable if surge or unavailable else 1


def _number(one: Mapping[str, Any], annotation: str) -> int | None:
    return natural(annotations_of(one).get(annotation, ""))


def _some(new: Object | None) -> list[Object]:
    return [] if new is None else [new]


def _created(one: Mapping[str, Any]) -> float:
    return parse_rfc3339(one["metadata"]["creationTimestamp"])
