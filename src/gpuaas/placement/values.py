"""A fleet as values: clusters, sets, bindings, scores and the decisions that hold now, read from their objects.

Reading never fails: what the schema would not allow counts as absent. What makes a Placement misconfigured is found when
it is scheduled, since upstream reports it in the Placement's status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gpuaas.base.quantity import parse_quantity

Object = Mapping[str, Any]

CLUSTER_SET_LABEL: Final = "cluster.open-cluster-management.io/clusterset"
PLACEMENT_LABEL: Final = "cluster.open-cluster-management.io/placement"
GROUP_NAME_LABEL: Final = "cluster.open-cluster-management.io/decision-group-name"
GROUP_INDEX_LABEL: Final = "cluster.open-cluster-management.io/decision-group-index"


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str
    added: datetime | None


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    labels: Mapping[str, str]
    claims: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, float]  # only resources that capacity names too: upstream skips the others
    deleting: bool
    object: Object  # what CEL expressions read

    @staticmethod
    def read(obj: Object) -> Cluster:
        metadata, status = obj.get("metadata") or {}, obj.get("status") or {}
        capacity = status.get("capacity") or {}
        return Cluster(
            metadata.get("name", ""),
            metadata.get("labels") or {},
            {claim.get("name", ""): claim.get("value", "") for claim in status.get("clusterClaims") or ()},
            tuple(_taint(taint) for taint in (obj.get("spec") or {}).get("taints") or ()),
            {
                name: float(parse_quantity(amount).nano) / 1e9
                for name, amount in (status.get("allocatable") or {}).items()
                if name in capacity
            },
            bool(metadata.get("deletionTimestamp")),
            obj,
        )


def _taint(taint: Object) -> Taint:
    return Taint(taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""), moment(taint.get("timeAdded")))


@dataclass(frozen=True, slots=True)
class Score:
    """One AddOnPlacementScore: the values by name, and until when they count."""

    values: Mapping[str, int]
    valid_until: datetime | None

    @staticmethod
    def read(obj: Object) -> Score:
        status = obj.get("status") or {}
        values = {item.get("name", ""): int(item.get("value", 0)) for item in status.get("scores") or ()}
        return Score(values, moment(status.get("validUntil")))


@dataclass(slots=True)
class Fleet:
    """What a Placement is decided on. `decided` holds the clusters chosen now: (namespace, placement) to names."""

    clusters: dict[str, Cluster] = field(default_factory=dict)
    sets: dict[str, Object] = field(default_factory=dict)  # ManagedClusterSets by name
    bindings: dict[tuple[str, str], Object] = field(default_factory=dict)  # ManagedClusterSetBindings
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)  # (cluster, resource) to its score
    decided: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)


def moment(text: Any) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
