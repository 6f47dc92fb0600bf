"""What flavors, cluster queues, cohorts and local queues may say, and what the answer is when they say something else."""

from typing import Any

import pytest

from gpuaas.api.kueue.validation import ClusterQueueRules, CohortRules

DENIED = 'admission webhook "{}" denied the request: '
VCQ = DENIED.format("vclusterqueue.kb.io")
VCO = DENIED.format("vcohort.kb.io")
VRF = DENIED.format("vresourceflavor.kb.io")
INVALID_CQ = 'ClusterQueue.kueue.x-k8s.io "q" is invalid: '


def quota(name: str, nominal: Any = 8, **limits: Any) -> dict[str, Any]:
    return {"name": name, "nominalQuota": nominal, **limits}


def group(*flavors: tuple[str, list[dict[str, Any]]], covered: list[str] | None = None) -> dict[str, Any]:
    names = covered or [resource["name"] for resource in flavors[0][1]]
    return {
        "coveredResources": names,
        "flavors": [{"name": name, "resources": resources} for name, resources in flavors],
    }


def obj(kind: str, version: str = "v1beta2", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "q"}, "spec": spec}


def queue(*groups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return obj("ClusterQueue", resourceGroups=list(groups), **spec)


GPU = group(("h200", [quota("nvidia.com/gpu")]))

CLUSTER_QUEUES: dict[str, tuple[dict[str, Any], str]] = {
    "a queue with one flavor is accepted": (queue(GPU), ""),
    "a queue without quota is accepted": (queue(), ""),
    "zero quota is how a borrow-only flavor is written": (
        queue(group(("h200", [quota("nvidia.com/gpu", 0)])), cohortName="all"),
        "",
    ),
    "limits are fine inside a cohort": (
        queue(group(("h200", [quota("cpu", 8, borrowingLimit=4, lendingLimit="2")])), cohortName="all"),
        "",
    ),
    "a borrowing limit without a cohort is refused by the schema": (
        queue(group(("h200", [quota("cpu", 8, borrowingLimit=10)]))),
        INVALID_CQ + "spec: Invalid value: borrowingLimit must be nil when cohort is empty",
    ),
    "a lending limit without a cohort is refused by the webhook": (
        queue(group(("h200", [quota("cpu", 8, lendingLimit=2)]))),
        VCQ
        + 'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "2": must be nil when cohort is empty',
    ),
    "nobody lends more than the nominal quota": (
        queue(group(("h200", [quota("cpu", 8, lendingLimit="8001m")])), cohortName="all"),
        VCQ
        + 'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "8001m": must be less than or equal'
        " to the nominalQuota",
    ),
    "negative amounts are named one by one": (
        queue(group(("h200", [quota("cpu", -1, borrowingLimit="-2", lendingLimit="-3")])), cohortName="all"),
        VCQ
        + '[spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-1": must be greater than or equal'
        " to 0,"
        ' spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "-2": must be greater than or equal'
        " to 0,"
        ' spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "-3": must be greater than or equal'
        " to 0]",
    ),
    "a flavor must list every covered resource": (
        queue(group(("h200", [quota("cpu")]), covered=["cpu", "memory"])),
        INVALID_CQ + "spec.resourceGroups[0]: Invalid value: flavors must have the same number of resources as the"
        " coveredResources",
    ),
    "in the order of the covered resources": (
        queue(group(("h200", [quota("memory"), quota("cpu")]), covered=["cpu", "memory"])),
        VCQ + '[spec.resourceGroups[0].flavors[0].resources[0].name: Invalid value: "memory": must match the name in'
        " coveredResources,"
        ' spec.resourceGroups[0].flavors[0].resources[1].name: Invalid value: "cpu": must match the name in'
        " coveredResources]",
    ),
    "a resource is in one group only": (
        queue(group(("a", [quota("cpu")])), group(("b", [quota("cpu")]))),
        VCQ + 'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
    ),
    "a flavor is in one group only": (
        queue(group(("a", [quota("cpu")])), group(("a", [quota("memory")]))),
        VCQ + 'spec.resourceGroups[1].flavors[0].name: Duplicate value: "a"',
    ),
    "a resource has a qualified name": (
        queue(group(("a", [quota("@cpu")]))),
        VCQ
        + 'spec.resourceGroups[0].coveredResources[0]: Invalid value: "@cpu": name part must consist of alphanumeric'
        " characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or"
        " 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
    "borrowing by preemption needs reclaiming": (
        queue(GPU, preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
        INVALID_CQ + "spec.preemption: Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
    ),
    "a preference needs a search that goes on": (
        queue(GPU, flavorFungibility={"preference": "BorrowingOverPreemption"}),
        INVALID_CQ + "spec.flavorFungibility: Invalid value: preference can only be set when both whenCanBorrow"
        " and whenCanPreempt are TryNextFlavor",
    ),
    "a weight of zero is accepted": (queue(GPU, fairSharing={"weight": 0}), ""),
    "a weight that would vanish is refused": (
        queue(GPU, fairSharing={"weight": "1n"}),
        VCQ + 'spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',
    ),
    "a negative weight is refused": (
        queue(GPU, fairSharing={"weight": -1}),
        VCQ + 'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "a check may be for a flavor of the queue": (
        queue(GPU, admissionChecksStrategy={"admissionChecks": [{"name": "mk", "onFlavors": ["h200"]}]}),
        "",
    ),
    "and for no other": (
        queue(GPU, admissionChecksStrategy={"admissionChecks": [{"name": "mk", "onFlavors": ["l4"]}]}),
        VCQ + "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value:"
        ' "l4": supported values: "h200"',
    ),
    "a namespace selector must make sense": (
        queue(GPU, namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In"}]}),
        VCQ + "spec.namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is"
        " 'In' or 'NotIn'",
    ),
    "a strategy is one of two": (
        queue(GPU, queueingStrategy="LIFO"),
        INVALID_CQ
        + '[spec.queueingStrategy: Unsupported value: "LIFO": supported values: "StrictFIFO", "BestEffortFIFO",'
        " <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the"
        " existing errors to complete validation]",
    ),
    "more than 256 flavors are too many": (
        queue(*(group(*((f"f{i}-{j}", [quota(f"r{i}")]) for j in range(64))) for i in range(5))),
        VCQ
        + "spec.resourceGroups: Invalid value: 320: total number of flavors across all resourceGroups must be ≤ 256,"
        " got 320",
    ),
    "more than 512 combinations in a group are too many": (
        queue(group(*((f"f{j}", [quota(f"r{i}") for i in range(9)]) for j in range(60)))),
        VCQ
        + "spec.resourceGroups[0]: Invalid value: 540: number of flavor-resource combinations in a resourceGroup must"
        " be ≤ 512, got 540",
    ),
}


@pytest.mark.parametrize(("write", "refusal"), CLUSTER_QUEUES.values(), ids=CLUSTER_QUEUES)
def test_cluster_queue(write: dict[str, Any], refusal: str, answer: Any) -> None:
    assert answer(write) == refusal


STALE = {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk", "onFlavors": ["gone"]}]}}
UPDATES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "quota may change": (queue(GPU), queue(group(("h200", [quota("nvidia.com/gpu", 16)]))), ""),
    "an old rule for a flavor that is gone may stay": (queue(GPU, **STALE), queue(GPU, stopPolicy="Hold", **STALE), ""),
    "but not when the flavors change": (
        queue(GPU, **STALE),
        queue(group(("l4", [quota("nvidia.com/gpu")])), **STALE),
        VCQ
        + 'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "gone": supported values:'
        ' "l4"',
    ),
    "concurrent admission is decided once": (
        queue(GPU),
        queue(GPU, concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}}),
        VCQ + 'spec.concurrentAdmissionPolicy: Invalid value: {"migration":{"mode":"RetainFirstAdmission"}}: field is'
        " immutable",
    ),
    "a local queue stays with its cluster queue": (
        obj("LocalQueue", clusterQueue="a"),
        obj("LocalQueue", clusterQueue="b"),
        'LocalQueue.kueue.x-k8s.io "q" is invalid: spec.clusterQueue: Invalid value: "b": field is immutable',
    ),
}


@pytest.mark.parametrize(("old", "new", "refusal"), UPDATES.values(), ids=UPDATES)
def test_updates(old: dict[str, Any], new: dict[str, Any], refusal: str, answer: Any) -> None:
    assert answer(new, old) == refusal


COHORTS: dict[str, tuple[dict[str, Any], str]] = {
    "a root cohort with quota is accepted": (obj("Cohort", resourceGroups=[GPU]), ""),
    "a child may have limits": (
        obj("Cohort", parentName="root", resourceGroups=[group(("a", [quota("cpu", 1, borrowingLimit=1)]))]),
        "",
    ),
    "and lend more than its own": (
        obj("Cohort", parentName="root", resourceGroups=[group(("a", [quota("cpu", 1, lendingLimit=9)]))]),
        "",
    ),
    "a root has nobody to borrow from": (
        obj("Cohort", resourceGroups=[group(("a", [quota("cpu", 1, borrowingLimit=1)]))]),
        VCO
        + 'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "1": must be nil when parent'
        " is empty",
    ),
}


@pytest.mark.parametrize(("write", "refusal"), COHORTS.values(), ids=COHORTS)
def test_cohort(write: dict[str, Any], refusal: str, answer: Any) -> None:
    assert answer(write) == refusal


def toleration(**fields: Any) -> dict[str, Any]:
    return obj("ResourceFlavor", tolerations=[fields])


TAINT = {"key": "nvidia.com/gpu", "value": "Exists", "effect": "NoSchedule"}
RF = 'ResourceFlavor.kueue.x-k8s.io "q" is invalid: '
FLAVORS: dict[str, tuple[dict[str, Any], str]] = {
    "an empty flavor is accepted": (obj("ResourceFlavor"), ""),
    "a flavor with labels, taints and tolerations is accepted": (
        obj(
            "ResourceFlavor",
            nodeLabels={"nvidia.com/gpu.product": "NVIDIA-L4"},
            nodeTaints=[TAINT],
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
        ),
        "",
    ),
    "labels must be labels": (
        obj("ResourceFlavor", nodeLabels={"a": "b c"}),
        VRF + 'spec.nodeLabels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric'
        " characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or"
        " 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    ),
    "a taint is there once": (
        obj("ResourceFlavor", nodeTaints=[TAINT, TAINT]),
        VRF
        + 'spec.nodeTaints[1]: Duplicate value: {"key":"nvidia.com/gpu","value":"Exists","effect":"NoSchedule"}: taints'
        " must be unique by key and effect pair",
    ),
    "an effect is one of three": (
        obj("ResourceFlavor", nodeTaints=[{"key": "a", "effect": "Never"}]),
        RF + "spec.nodeTaints: Invalid value: supported taint effect values: 'NoSchedule', 'PreferNoSchedule',"
        " 'NoExecute'",
    ),
    "a toleration of everything says Exists": (
        toleration(operator="Equal"),
        RF + "spec.tolerations: Invalid value: operator must be Exists when 'key' is empty, which means 'match"
        " all values and all keys'",
    ),
    "Exists has no value": (
        toleration(key="a", operator="Exists", value="b"),
        RF + "spec.tolerations: Invalid value: a value must be empty when 'operator' is 'Exists'",
    ),
    "a topology needs a label": (
        obj("ResourceFlavor", topologyName="racks", nodeLabels={}),
        RF + "spec: Invalid value: at least one nodeLabel is required when topology is set",
    ),
}


@pytest.mark.parametrize(("write", "refusal"), FLAVORS.values(), ids=FLAVORS)
def test_flavor(write: dict[str, Any], refusal: str, answer: Any) -> None:
    assert answer(write) == refusal


def test_a_flavor_with_a_topology_keeps_its_labels(answer: Any) -> None:
    old = obj("ResourceFlavor", topologyName="racks", nodeLabels={"a": "b"})
    new = obj("ResourceFlavor", topologyName="racks", nodeLabels={"a": "c"})
    assert "nodeLabels are immutable when topologyName is set" in answer(new, old)


def test_amounts_are_spelled_as_kueues_defaulter_leaves_them() -> None:
    made = queue(group(("h200", [quota("cpu", 4, borrowingLimit="1000m", lendingLimit="nonsense")])))
    made["spec"]["fairSharing"] = {"weight": 2}
    ClusterQueueRules().prepare_create(made)
    (found,) = made["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert found == {"name": "cpu", "nominalQuota": "4", "borrowingLimit": "1", "lendingLimit": "nonsense"}
    assert made["spec"]["fairSharing"] == {"weight": "2"}
    empty = {"metadata": {"name": "q"}}
    ClusterQueueRules().prepare_create(empty)
    assert "spec" not in empty


def test_a_cohort_has_a_status_from_the_start() -> None:
    made = obj("Cohort", parentName="all")
    CohortRules().prepare_create(made)
    assert made["status"] == {}
