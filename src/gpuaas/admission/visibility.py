"""A waiting workload as the visibility API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pending_entry(workload: Mapping[str, Any], in_cluster_queue: int, in_local_queue: int) -> dict[str, Any]:
    """Positions count from 0; the priority is the workload's own."""
    meta, spec = workload["metadata"], workload.get("spec") or {}
    shown = {key: meta[key] for key in ("name", "namespace", "creationTimestamp", "ownerReferences") if key in meta}
    return {
        "metadata": shown,
        "priority": spec.get("priority") or 0,
        "localQueueName": spec.get("queueName", ""),
        "positionInClusterQueue": in_cluster_queue,
        "positionInLocalQueue": in_local_queue,
    }
