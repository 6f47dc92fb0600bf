"""Objects for tests of the pages: jobs, and a queue of their own beside those of the built-in fleet."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def job(name: str, *, gpus: int = 1, namespace: str = "team-a", queue: str = "default", priority: str = "") -> Object:
    """One pod that runs until it is deleted."""
    resources = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "simulated", "command": ["sleep", "infinity"]}
    labels = {"kueue.x-k8s.io/queue-name": queue}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    container |= {"resources": {"requests": resources, "limits": resources}}  # type: ignore[dict-item]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def queue(name: str, *, gpus: int, flavor: str = "h200", namespaces: tuple[str, ...] = ("team-a",)) -> list[Object]:
    """A ClusterQueue without a cohort, in which a higher priority preempts a lower one, and its LocalQueues."""
    quotas = [
        {"name": "cpu", "nominalQuota": "100"},
        {"name": "memory", "nominalQuota": "100Gi"},
        {"name": "nvidia.com/gpu", "nominalQuota": str(gpus)},
    ]
    covered = [each["name"] for each in quotas]
    found: list[Object] = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [{"coveredResources": covered, "flavors": [{"name": flavor, "resources": quotas}]}],
            },
        }
    ]
    return found + [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": each},
            "spec": {"clusterQueue": name},
        }
        for each in namespaces
    ]
