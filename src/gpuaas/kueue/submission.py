"""The Workload that a job would get if it were created now, for predictions: nothing of it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.base.clock import rfc3339
from gpuaas.kueue.integrations.jobs import priority_class_of, queue_of
from gpuaas.kueue.integrations.registry import JOB_KINDS

NAME: Final = "not-submitted-yet"
"""No object has it: a Workload's name begins with the kind of its job."""


def workload_for(job: Mapping[str, Any], priority: int, now: float) -> dict[str, Any] | None:
    """`job` as admission and defaults leave it; `priority` of its class. None: no integration knows the kind."""
    wanted = (job.get("apiVersion"), job.get("kind"))
    kind = next((each for each in JOB_KINDS if (each.resource.api_version, each.resource.kind) == wanted), None)
    if kind is None:
        return None
    metadata = {"name": NAME, "namespace": job["metadata"].get("namespace", ""), "creationTimestamp": rfc3339(now)}
    sets = kind.pod_sets(job, lambda *_: None)
    spec = {"queueName": queue_of(job), "priority": priority, "podSets": sets}
    return {"metadata": {**metadata, "uid": NAME}, "spec": spec}


__all__ = ["NAME", "priority_class_of", "queue_of", "workload_for"]
