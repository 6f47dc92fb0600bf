"""What a Workload may say, before and after its quota is reserved, and what the answer is when it says something else."""

from typing import Any

import pytest

DENIED = 'admission webhook "vworkload.kb.io" denied the request: '
INVALID = 'Workload.kueue.x-k8s.io "w" is invalid: '
NOW = "2026-01-01T00:00:00Z"


def pod_set(
    name: str = "main", count: int = 3, requests: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {"cpu": "1"}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]}}, **fields}


def condition(type_: str, status: str = "True") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": NOW}


def workload(
    *pod_sets: dict[str, Any],
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "team", "annotations": annotations or {}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"podSets": list(pod_sets) or [pod_set()], "queueName": "lq", **spec},
        "status": status or {},
    }


def reserved(usage: str = "3", count: int = 3, **status: Any) -> dict[str, Any]:
    assignment = {"name": "main", "count": count, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": usage}}
    return {
        "conditions": [condition("QuotaReserved")],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
        **status,
    }


def bare(more: dict[str, Any]) -> dict[str, Any]:
    assignment = {"name": "main", "count": 3, **more}
    return {**reserved(), "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]}}


def check(state: str = "Ready", **fields: Any) -> dict[str, Any]:
    return {"name": "ac", "state": state, "message": "", "lastTransitionTime": NOW, **fields}


GATES = "kueue.x-k8s.io/admission-gated-by"
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}

CREATES: dict[str, tuple[dict[str, Any], str]] = {
    "a workload with one pod set is accepted": (workload(), ""),
    "a class by reference needs the priority beside it": (
        workload(priorityClassRef={"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}),
        INVALID + "spec: Invalid value: priority should not be nil when priorityClassRef is set",
    ),
    "the group says which kind of class": (
        workload(priority=1, priorityClassRef={"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "high"}),
        INVALID + "spec.priorityClassRef: Invalid value: only the WorkloadPriorityClass kind is allowed for the"
        " kueue.x-k8s.io group",
    ),
    "one pod set may shrink": (workload(pod_set(minCount=1)), ""),
    "not below nothing nor above its size": (
        workload(pod_set(minCount=4)),
        INVALID + "spec.podSets[0]: Invalid value: minCount should be positive and less or equal to count",
    ),
    "two pod sets may not": (
        workload(pod_set("a", minCount=1), pod_set("b", minCount=1)),
        DENIED + "spec.podSets: Invalid value: 2: at most one podSet can use minCount",
    ),
    "an elastic job does not shrink by admission": (
        workload(pod_set(minCount=1), annotations=ELASTIC),
        DENIED + "spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together",
    ),
    "pods is a resource of Kueue's own": (
        workload(pod_set(requests={"pods": "1"})),
        DENIED
        + 'spec.podSets[0].template.spec.containers[0].resources.requests[pods]: Invalid value: "pods": the key is'
        " reserved for internal kueue use",
    ),
    "nobody asks for less than nothing": (
        workload(pod_set(requests={"cpu": "-1"})),
        DENIED
        + 'spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater'
        " than or equal to 0",
    ),
    "a slice topology has a size": (
        workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack"})),
        DENIED + "spec.podSets[0].topologyRequest.podSetSliceSize: Required value: must be set when"
        " podSetSliceRequiredTopology is specified",
    ),
    "a slice size has a topology": (
        workload(pod_set(topologyRequest={"podSetSliceSize": 2})),
        DENIED + "spec.podSets[0].topologyRequest.podSetSliceSize: Forbidden: may not be set when"
        " podSetSliceRequiredTopology is not specified",
    ),
    "reserved quota is written down": (
        workload(status={"conditions": [condition("QuotaReserved")]}),
        DENIED + "status.admission: Required value: must be set while the QuotaReserved condition is true",
    ),
    "for every pod set": (
        workload(pod_set("a"), pod_set("b"), status=reserved()),
        INVALID + "<nil>: Invalid value: podSetAssignments must have the same number of podSets as the spec",
    ),
    "and for no other": (
        workload(pod_set("a"), status=reserved()),
        DENIED + 'status.admission.podSetAssignments[0].name: Not found: "main"',
    ),
    "in equal parts for its pods": (
        workload(status=reserved("1", count=3)),
        DENIED + 'status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1": is not a multiple of 3',
    ),
    "more pods than there are cannot be reclaimed": (
        workload(status={"reclaimablePods": [{"name": "main", "count": 4}]}),
        DENIED + "status.reclaimablePods[main].count: Invalid value: 4: should be less or equal to 3",
    ),
    "nor pods of a set that is not there": (
        workload(status={"reclaimablePods": [{"name": "other", "count": 1}]}),
        DENIED + 'status.reclaimablePods[other].name: Unsupported value: "other": supported values: "main"',
    ),
    "a check updates pod sets that are there": (
        workload(status={"admissionChecks": [check(podSetUpdates=[{"name": "other"}])]}),
        DENIED
        + 'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "other": supported values: "main"',
    ),
    "gates have a domain": (
        workload(annotations={GATES: "gate"}),
        DENIED
        + 'metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Invalid value: "gate": must be a domain-prefixed'
        ' path (such as "acme.io/foo")',
    ),
    "and are there once": (
        workload(annotations={GATES: "a.io/x, a.io/x"}),
        DENIED
        + 'metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Invalid value: "a.io/x, a.io/x": duplicate gate'
        " name: a.io/x",
    ),
}


@pytest.mark.parametrize(("write", "refusal"), CREATES.values(), ids=CREATES)
def test_create(write: dict[str, Any], refusal: str, answer: Any) -> None:
    assert answer(write) == refusal


CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass"}


def of_class(name: str, **kind: str) -> dict[str, Any]:
    return workload(priority=1, priorityClassRef={**kind, "name": name}, status=reserved())


UPDATES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a waiting workload may change queues": (workload(), workload(queueName="other"), ""),
    "a reserved one may not": (
        workload(status=reserved()),
        workload(queueName="other", status=reserved()),
        INVALID + "<nil>: Invalid value: queueName is immutable while workload quota reserved",
    ),
    "but it may change its workload priority class": (of_class("a", **CLASS), of_class("b", **CLASS), ""),
    "not its pod priority class": (
        of_class("a", **POD_CLASS),
        of_class("b", **POD_CLASS),
        INVALID + "<nil>: Invalid value: priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while"
        " workload quota reserved",
    ),
    "reserved pod sets may shrink": (workload(status=reserved()), workload(pod_set(count=1), status=reserved()), ""),
    "an admission may go": (workload(status=reserved()), workload(), ""),
    "its topology may come later": (
        workload(status=reserved()),
        workload(
            status={
                **reserved(),
                "admission": {
                    "clusterQueue": "cq",
                    "podSetAssignments": [
                        {**reserved()["admission"]["podSetAssignments"][0], "delayedTopologyRequest": "Pending"}
                    ],
                },
            }
        ),
        "",
    ),
    "an admission is the same without what is empty in it": (
        workload(status=bare({"flavors": {}, "resourceUsage": {}})),
        workload(status=bare({})),
        "",
    ),
    "and with its amounts spelled another way": (
        workload(status=reserved("3")),
        workload(status=reserved("3000m")),
        "",
    ),
    "so are reserved pod sets": (
        workload(pod_set(requests={"cpu": "1"}), status=reserved()),
        workload(pod_set(requests={"cpu": "1000m"}), status=reserved()),
        "",
    ),
    "an old one without admission may converge": (
        workload(status={"conditions": [condition("QuotaReserved")]}),
        workload(status={"conditions": [condition("QuotaReserved"), condition("Finished")]}),
        "",
    ),
    "reclaimed pods do not come back": (
        workload(status=reserved(reclaimablePods=[{"name": "main", "count": 2}])),
        workload(status=reserved(reclaimablePods=[{"name": "main", "count": 1}])),
        DENIED + "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2",
    ),
    "nor are they forgotten": (
        workload(status=reserved(reclaimablePods=[{"name": "main", "count": 2}])),
        workload(status=reserved()),
        DENIED + "status.reclaimablePods[main]: Required value: cannot be removed",
    ),
    "a cluster is one of those nominated": (
        workload(status={"nominatedClusterNames": ["a", "b"]}),
        workload(status={"clusterName": "c"}),
        DENIED + 'status.clusterName: Invalid value: "c": when setting clusterName it must be one of the'
        " nominatedClusterNames",
    ),
    "and then it is that one": (
        workload(status={"nominatedClusterNames": ["a", "b"]}),
        workload(status={"clusterName": "a"}),
        "",
    ),
    "gates only go": (
        workload(annotations={GATES: "a.io/x"}),
        workload(annotations={GATES: "a.io/x,a.io/y"}),
        DENIED
        + "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: can only remove gates, not add new"
        " ones",
    ),
    "and never come later": (
        workload(),
        workload(annotations={GATES: "a.io/x"}),
        DENIED + "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: cannot add admission gate after"
        " creation",
    ),
}


@pytest.mark.parametrize(("old", "new", "refusal"), UPDATES.values(), ids=UPDATES)
def test_update(old: dict[str, Any], new: dict[str, Any], refusal: str, answer: Any) -> None:
    assert answer(new, old) == refusal
    assert answer(new, old, status=True) == refusal, "the webhook watches the status as well"


IMMUTABLE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "reserved pod sets": (
        workload(status=reserved()),
        workload(pod_set(count=4), status=reserved()),
        "spec.podSets.0: ",
    ),
    "the admission": (workload(status=reserved()), workload(status=reserved("6")), "status.admission: "),
    "what a ready check does to pods": (
        workload(status={"admissionChecks": [check(podSetUpdates=[{"name": "main"}])]}),
        workload(status={"admissionChecks": [check(podSetUpdates=[{"name": "main", "labels": {"a": "b"}}])]}),
        "status.admissionChecks[0].podSetUpdates: ",
    ),
}


@pytest.mark.parametrize(("old", "new", "place"), IMMUTABLE.values(), ids=IMMUTABLE)
def test_is_immutable(old: dict[str, Any], new: dict[str, Any], place: str, answer: Any) -> None:
    found = answer(new, old)
    assert found.startswith(DENIED + place)
    assert found.endswith(": field is immutable")
