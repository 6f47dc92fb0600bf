"""Rows of hardware profiles: what one gets, within which limits, through which queue, how many are free now, and why one
is not offered.

Free is the smaller of what the queue's quota leaves and what single nodes can hold, as far as the user may see either.
A profile without CPU or memory is offered here (upstream hides it): its pods simply ask for accelerators alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gpuaas.base.quantity import parse_quantity
from gpuaas.profiles import offered
from gpuaas.profiles.admission import is_accelerator, priority_of
from gpuaas.profiles.inject import identifiers, node_of, quantity, queue_of
from gpuaas.views.rows import GpuRow, QueueRow

View = Mapping[str, Any]
_DESCRIPTION: Final = "opendatahub.io/description"


class ProfileRow(msgspec.Struct, rename="camel"):
    profile: str
    name: str
    """The display name."""
    description: str
    gets: str
    limits: str
    queue: str
    priority: str
    free: int | None
    """How many more could start now; None where nothing that limits it may be seen."""
    holds_back: str
    """What the number of free ones is limited by."""
    hidden: str
    """Why it is not offered here; empty where it is."""
    namespace: str

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of the cluster can be seen. `local_queues`: of the namespace, each with its ClusterQueue."""

    local_queues: Mapping[str, str] = field(default_factory=dict)
    quotas: Sequence[QueueRow] = ()
    gpus: Sequence[GpuRow] = ()
    nodes_seen: bool = False


def rows(
    profiles: Iterable[View], around: Surroundings, order: Sequence[str] = (), features: Sequence[str] = ()
) -> list[ProfileRow]:
    """In the administrator's order, the rest by name; those that are not offered come last."""
    found = [_row(profile, around, features) for profile in _ordered(list(profiles), order)]
    return sorted(found, key=lambda row: bool(row.hidden))


def _ordered(profiles: list[View], order: Sequence[str]) -> list[View]:
    rank = {name: index for index, name in reversed(list(enumerate(order)))}
    return sorted(
        profiles, key=lambda p: (rank.get(offered.name_of(p), len(rank)), offered.natural(offered.name_of(p)))
    )


def _row(profile: View, around: Surroundings, features: Sequence[str]) -> ProfileRow:
    metadata = profile["metadata"]
    hidden = _hidden(profile, around, features)
    free, holds_back = (None, "") if hidden else _free(profile, around)
    return ProfileRow(
        profile=offered.name_of(profile),
        name=offered.title(profile),
        description=str((metadata.get("annotations") or {}).get(_DESCRIPTION) or ""),
        gets=gets(profile),
        limits=_limits(profile),
        queue=queue_of(profile),
        priority=priority_of(profile),
        free=free,
        holds_back=holds_back,
        hidden=hidden,
        namespace=metadata.get("namespace") or "",
    )


def gets(profile: View) -> str:
    """`2 cpu, 8Gi memory, 1 nvidia.com/gpu`."""
    return ", ".join(f"{one.get('defaultCount')} {one.get('identifier')}" for one in identifiers(profile))


def _limits(profile: View) -> str:
    return ", ".join(
        f"{one.get('identifier')} {one.get('minCount')} to {one.get('maxCount', 'any')}" for one in identifiers(profile)
    )


def _hidden(profile: View, around: Surroundings, features: Sequence[str]) -> str:
    if not offered.enabled(profile):
        return "it is disabled (annotation opendatahub.io/disabled)"
    wrong = [warning for warning in offered.warnings(profile) if warning != offered.INCOMPLETE]
    if wrong:
        return wrong[0]
    if not offered.shown_for(profile, features):
        return f"it is not for {' or '.join(features)} (annotation opendatahub.io/dashboard-feature-visibility)"
    queue = queue_of(profile)
    if queue and queue not in around.local_queues:
        return f"this namespace has no queue {queue}"
    known = {row.resource for row in around.gpus}
    missing = [str(one.get("identifier")) for one in identifiers(profile) if is_accelerator(one)]
    missing = [name for name in missing if name not in known] if around.nodes_seen else []
    return f"no node offers {missing[0]}" if missing else ""


# -- Free now -----------------------------------------------------------------------------------------------------------


def _free(profile: View, around: Surroundings) -> tuple[int | None, str]:
    found: list[tuple[int, str]] = []
    queue = queue_of(profile)
    if queue and (quotas := _quotas_of(queue, around)):
        found.append((_by_quota(profile, quotas), f"quota of {queue}"))
    on_nodes = _by_nodes(profile, around)
    if on_nodes is not None:
        found.append((on_nodes, "free cards"))
    return min(found) if found else (None, "")


def _quotas_of(queue: str, around: Surroundings) -> list[QueueRow]:
    name = around.local_queues.get(queue, "")
    return [row for row in around.quotas if row.clusterqueue == name]


def _by_quota(profile: View, quotas: Sequence[QueueRow]) -> int:
    """Whole pods within the nominal quota, each on one flavor for every resource the flavor covers."""
    wanted = _amounts(profile)
    flavors: dict[str, dict[str, int]] = {}
    for row in quotas:
        flavors.setdefault(row.flavor, {})[row.resource] = max(_nano(row.nominal) - _nano(row.used), 0)
    covered = {row.resource for row in quotas}
    if any(name not in covered for name in wanted):
        return 0
    groups: dict[frozenset[str], int] = {}
    for left in flavors.values():
        parts = [left[name] // amount for name, amount in wanted.items() if name in left]
        if parts:
            key = frozenset(left)
            groups[key] = groups.get(key, 0) + min(parts)
    return min(groups.values(), default=0)


def _by_nodes(profile: View, around: Surroundings) -> int | None:
    selector = node_of(profile).get("nodeSelector") or {}
    product = selector.get("nvidia.com/gpu.product")
    counts: list[int] = []
    for name, amount in _amounts(profile, accelerators=True).items():
        found = [row for row in around.gpus if row.resource == name and product in (None, row.product)]
        if any(row.used is None for row in found) or not around.nodes_seen:
            return None
        whole = amount // 1_000_000_000 or 1
        counts.append(sum(_fitting(row, whole) for row in found))
    return min(counts) if counts else None


def _fitting(row: GpuRow, each: int) -> int:
    """Pods that single nodes hold; of sums alone, which a user without nodes to see gets, at the most."""
    if not row.per_node:
        return (row.free or 0) // each
    return sum((node.free or 0) // each for node in row.per_node)


def _amounts(profile: View, *, accelerators: bool = False) -> dict[str, int]:
    listed = [one for one in identifiers(profile) if not accelerators or is_accelerator(one)]
    found: dict[str, int] = {}
    for one in listed:
        name = str(one.get("identifier", ""))
        try:
            found[name] = _nano(quantity(one.get("defaultCount"), name))
        except ValueError:
            continue
    return {name: amount for name, amount in found.items() if amount > 0}


def _nano(text: str) -> int:
    return parse_quantity(text).nano
