"""What KueueViz's front end expects to be sent: the shapes of its own back end (0.19), made of plain objects.

Each function makes one message from lists that the caller may see. Three habits of that back end are kept, because its
pages rely on them: quantities in quotas and usage are numbers in base units, objects that are sent whole keep them as
strings; lists are never null; a dashboard's workloads are an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.quantity import parse_quantity

Object = dict[str, Any]
View = Mapping[str, Any]
_AMOUNTS: Final = ("nominalQuota", "borrowingLimit", "lendingLimit", "total", "borrowed")
_JOB_UID: Final = "kueue.x-k8s.io/job-uid"
_CONTROLLER_UIDS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")


def whole(obj: View) -> Object:
    """As `kubectl get -o json` shows it, without who owns which field."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def namespaces(local_queues: Iterable[View]) -> Object:
    return {"namespaces": sorted({each["metadata"]["namespace"] for each in local_queues})}


def workloads(found: Iterable[View]) -> Object:
    items = [whole(each) for each in found]
    return {
        "workloads": {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadList", "metadata": {}, "items": items}
    }


def dashboard(
    found: Sequence[View],
    local: Iterable[View],
    clusters: Iterable[View],
    flavors: Iterable[View],
    pods: Iterable[View],
) -> Object:
    by_job: dict[str, list[Object]] = {}
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        uid = next((labels[key] for key in _CONTROLLER_UIDS if key in labels), "")
        by_job.setdefault(uid, []).append({"name": pod["metadata"]["name"], "status": pod.get("status") or {}})
    items = [
        {
            **whole(each),
            "preemption": preemption(each),
            "pods": by_job.get((each["metadata"].get("labels") or {}).get(_JOB_UID) or "-", []),
        }
        for each in found
    ]
    names = {each["metadata"]["uid"]: f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found}
    return {
        "flavors": resource_flavors(flavors),
        "clusterQueues": cluster_queues(clusters),
        "queues": local_queues(local),
        "workloads": {"items": items, "workloads_by_uid": names},
    }


def preemption(workload: View) -> Object:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    found = next((each for each in conditions if each["type"] == "Preempted" and each["status"] == "True"), None)
    return {"preempted": found is not None, "reason": "" if found is None else found.get("reason", "")}


def local_queues(found: Iterable[View]) -> list[Object]:
    rows = []
    for each in found:
        status = each.get("status") or {}
        kept = {key: status.get(key) or 0 for key in ("admittedWorkloads", "pendingWorkloads", "reservingWorkloads")}
        kept["conditions"] = status.get("conditions") or []
        kept |= {key: _numbers(status.get(key)) for key in ("flavorsUsage", "flavorsReservation")}
        meta, leads_to = each["metadata"], (each.get("spec") or {}).get("clusterQueue", "")
        rows.append(
            {"namespace": meta["namespace"], "name": meta["name"], "spec": {"clusterQueue": leads_to}, "status": kept}
        )
    return rows


def cluster_queues(found: Iterable[View]) -> list[Object]:
    rows = []
    for each in found:
        spec, status = each.get("spec") or {}, each.get("status") or {}
        groups = [{**group, "flavors": _numbers(group.get("flavors"))} for group in spec.get("resourceGroups") or ()]
        rows.append(
            {
                "name": each["metadata"]["name"],
                "cohort": spec.get("cohortName", ""),
                "resourceGroups": groups,
                **{
                    key: status.get(key) or 0 for key in ("admittedWorkloads", "pendingWorkloads", "reservingWorkloads")
                },
                "flavors": [flavor["name"] for group in groups for flavor in group["flavors"]],
                **{key: _numbers(status.get(key)) for key in ("flavorsUsage", "flavorsReservation")},
            }
        )
    return rows


def cluster_queue(queue: View, local: Iterable[View]) -> Object:
    name = queue["metadata"]["name"]
    queues = [
        {
            "namespace": each["metadata"]["namespace"],
            "name": each["metadata"]["name"],
            "reservation": (each.get("status") or {}).get("flavorsReservation") or [],
            "usage": (each.get("status") or {}).get("flavorsUsage") or [],
        }
        for each in local
        if (each.get("spec") or {}).get("clusterQueue") == name
    ]
    return {**whole(queue), "queues": queues}


def cohorts(found: Iterable[View], clusters: Iterable[View]) -> list[Object]:
    """Those that are objects, and those that only ClusterQueues name."""
    rows: dict[str, Object] = {}
    for each in found:
        row = rows[each["metadata"]["name"]] = {"name": each["metadata"]["name"], "clusterQueues": []}
        if parent := (each.get("spec") or {}).get("parentName"):
            row["parentName"] = parent
    for each in clusters:
        if name := (each.get("spec") or {}).get("cohortName"):
            row = rows.setdefault(name, {"name": name, "clusterQueues": []})
            row["clusterQueues"].append({"name": each["metadata"]["name"]})
    return [rows[name] for name in sorted(rows)]


def cohort(name: str, obj: View | None, clusters: Iterable[View]) -> Object:
    members = [
        {"name": each["metadata"]["name"], "spec": each.get("spec") or {}, "status": each.get("status") or {}}
        for each in clusters
        if (each.get("spec") or {}).get("cohortName") == name
    ]
    found = obj or {}
    return {
        "cohort": name, "spec": found.get("spec") or {}, "status": found.get("status") or {}, "clusterQueues": members,
    }  # fmt: skip


def resource_flavors(found: Iterable[View]) -> list[Object]:
    return [{**whole(each), "name": each["metadata"]["name"], "details": each.get("spec") or {}} for each in found]


def resource_flavor(flavor: View, clusters: Iterable[View], nodes: Iterable[View]) -> Object:
    name, details = flavor["metadata"]["name"], flavor.get("spec") or {}
    queues = [
        {"queueName": each["metadata"]["name"], "quota": quota} for each in clusters if (quota := _quota_of(name, each))
    ]
    wanted = (details.get("nodeLabels") or {}).items()
    matching = [
        {
            "name": each["metadata"]["name"],
            "labels": each["metadata"].get("labels") or {},
            "taints": (each.get("spec") or {}).get("taints") or [],
            "tolerations": details.get("tolerations") or [],
        }
        for each in nodes
        if wanted <= (each["metadata"].get("labels") or {}).items()
    ]
    return {"name": name, "details": details, "queues": queues, "nodes": matching}


def _quota_of(flavor: str, queue: View) -> list[Object]:
    return [
        {"resource": each["name"], "nominalQuota": str(each.get("nominalQuota", "0"))}
        for group in (queue.get("spec") or {}).get("resourceGroups") or ()
        for given in group.get("flavors") or ()
        if given["name"] == flavor
        for each in given.get("resources") or ()
    ]


def _numbers(flavors: Sequence[View] | None) -> list[Object]:
    """Flavors with their resources, quantities as numbers."""
    return [{**each, "resources": [_numbered(one) for one in each.get("resources") or ()]} for each in flavors or ()]


def _numbered(resource: View) -> Object:
    return {key: _number(value) if key in _AMOUNTS else value for key, value in resource.items()}


def _number(amount: Any) -> int | float:
    nano = parse_quantity(str(amount)).nano
    return nano // 10**9 if nano % 10**9 == 0 else nano / 10**9
