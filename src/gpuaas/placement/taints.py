"""Taints of clusters against a Placement's tolerations.

NoSelect keeps a cluster out unless tolerated; NoSelectIfNew only while the cluster is not chosen yet; PreferNoSelect is
ignored, as upstream does. A toleration with `tolerationSeconds` ends that long after the taint was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from gpuaas.placement.values import Cluster, Object, Taint

_NEVER_ADDED = datetime(1, 1, 1, tzinfo=UTC)


def misconfigured(tolerations: Iterable[Object]) -> str | None:
    for toleration in tolerations:
        if not toleration.get("key") and toleration.get("operator") != "Exists":
            return "If the key is empty, operator must be Exists."
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            return "If the operator is Exists, the value should be empty."
    return None


def tolerated(cluster: Cluster, tolerations: Sequence[Object], *, chosen: bool, now: datetime) -> bool:
    return all(_taint_tolerated(taint, tolerations, chosen=chosen, now=now) for taint in cluster.taints)


def tolerated_until(cluster: Cluster, tolerations: Sequence[Object], *, chosen: bool, now: datetime) -> datetime | None:
    """When the first toleration that holds now ends; None where none ends or the cluster is not tolerated."""
    ends: list[datetime] = []
    for taint in cluster.taints:
        if taint.effect == "PreferNoSelect" or (taint.effect == "NoSelectIfNew" and chosen):
            continue
        toleration = next((t for t in tolerations if _matches(taint, t) and _holds(taint, t, now)), None)
        if toleration is None:
            return None
        if (end := _end(taint, toleration)) is not None:
            ends.append(end)
    return min(ends, default=None)


def _taint_tolerated(taint: Taint, tolerations: Sequence[Object], *, chosen: bool, now: datetime) -> bool:
    if taint.effect == "PreferNoSelect" or (taint.effect == "NoSelectIfNew" and chosen):
        return True
    return any(_matches(taint, toleration) and _holds(taint, toleration, now) for toleration in tolerations)


def _matches(taint: Taint, toleration: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if toleration.get("key") and toleration["key"] != taint.key:
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return bool((toleration.get("value") or "") == taint.value)
        case operator:
            return bool(operator == "Exists")


def _holds(taint: Taint, toleration: Object, now: datetime) -> bool:
    end = _end(taint, toleration)
    return end is None or now < end


def _end(taint: Taint, toleration: Object) -> datetime | None:
    if (seconds := toleration.get("tolerationSeconds")) is None:
        return None
    try:
        return (taint.added or _NEVER_ADDED) + timedelta(seconds=int(seconds))
    except OverflowError:
        return None  # beyond the calendar: never
