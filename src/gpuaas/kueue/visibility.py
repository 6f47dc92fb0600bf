"""A waiting workload as the visibility API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OWNER = ("apiVersion", "kind", "name", "uid")


def pending_entry(workload: Mapping[str, Any], in_cluster_queue: int, in_local_queue: int) -> dict[str, Any]:
    """Positions count from 0; the priority is the workload's own."""
    meta, spec = workload["metadata"], workload.get("spec") or {}
    shown = {key: meta[key] for key in ("name", "namespace", "creationTimestamp") if key in meta}
    if meta.get("ownerReferences"):
        shown["ownerReferences"] = [{part: owner[part] for part in _OWNER} for owner in meta["ownerReferences"]]
    return {
        "metadata": shown,
        "priority": spec.get("priority") or 0,
        "localQueueName": spec.get("queueName", ""),
        "positionInClusterQueue": in_cluster_queue,
        "positionInLocalQueue": in_local_queue,
    }
