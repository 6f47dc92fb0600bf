"""v1beta1 and v1beta2 of the same object: what becomes what, and what survives the way there and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.api.kueue import assignments, conversion
from gpuaas.base.errors import BadRequest

CONVERT = {
    "ClusterQueue": conversion.cluster_queue,
    "Cohort": conversion.cohort,
    "LocalQueue": conversion.local_queue,
    "AdmissionCheck": conversion.admission_check,
    "MultiKueueConfig": conversion.multi_kueue_config,
    "MultiKueueCluster": conversion.multi_kueue_cluster,
    "Workload": conversion.workload,
}


def obj(kind: str, version: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, **parts}


# Sentence, kind, what stands in v1beta1, what stands in v1beta2. Both ways.
SAME: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("a cohort by name", "ClusterQueue", {"spec": {"cohort": "c"}}, {"spec": {"cohortName": "c"}}),
    (
        "the usage of a local queue",
        "LocalQueue",
        {"status": {"flavorUsage": [{"name": "f"}]}},
        {"status": {"flavorsUsage": [{"name": "f"}]}},
    ),
    (
        "the kubeconfig of a cluster",
        "MultiKueueCluster",
        {"spec": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
        {"spec": {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}}},
    ),
    (
        "a cluster by profile has an empty kubeconfig",
        "MultiKueueCluster",
        {"spec": {"kubeConfig": {"location": "", "locationType": ""}, "clusterProfileRef": {"name": "p"}}},
        {"spec": {"clusterSource": {"clusterProfileRef": {"name": "p"}}}},
    ),
    (
        "a workload priority class",
        "Workload",
        {"spec": {"priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass", "priorityClassName": "high"}},
        {"spec": {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}}},
    ),
    (
        "a pod priority class",
        "Workload",
        {"spec": {"priorityClassSource": "scheduling.k8s.io/priorityclass", "priorityClassName": "high"}},
        {"spec": {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}},
    ),
    (
        "time already spent, misspelt in v1beta1",
        "Workload",
        {"status": {"accumulatedPastExexcutionTimeSeconds": 7}},
        {"status": {"accumulatedPastExecutionTimeSeconds": 7}},
    ),
    ("nothing at all", "Workload", {}, {}),
    ("an object without parts", "ClusterQueue", {}, {}),
]


@pytest.mark.parametrize(("kind", "old", "new"), [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_both_ways(kind: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    older, newer = obj(kind, "v1beta1", **old), obj(kind, "v1beta2", **new)
    assert CONVERT[kind](older, "v1beta2") == newer
    assert CONVERT[kind](newer, "v1beta1") == older
    assert CONVERT[kind](newer, "v1beta2") is newer


# What v1beta2 says otherwise, or no longer.
UP: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a list of checks becomes a strategy": (
        "ClusterQueue",
        {"spec": {"admissionChecks": ["a", "b"]}},
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}},
    ),
    "Borrow and Preempt have one name": (
        "ClusterQueue",
        {"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}},
        {"spec": {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}},
    ),
    "but not in each other's place": (
        "ClusterQueue",
        {"spec": {"flavorFungibility": {"whenCanBorrow": "Preempt"}}},
        {"spec": {"flavorFungibility": {"whenCanBorrow": "Preempt"}}},
    ),
    "the list of pending workloads is gone": (
        "ClusterQueue",
        {"status": {"pendingWorkloadsStatus": {"lastChangeTime": "t"}, "pendingWorkloads": 1}},
        {"status": {"pendingWorkloads": 1}},
    ),
    "cohorts have no consumption history": (
        "Cohort",
        {"status": {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": {}}}},
        {"status": {"fairSharing": {"weightedShare": 1}}},
    ),
    "local queues list no flavors": (
        "LocalQueue",
        {"status": {"flavors": [{"name": "f"}]}},
        {"status": {}},
    ),
    "a check has no retry delay": (
        "AdmissionCheck",
        {"spec": {"controllerName": "c", "retryDelayMinutes": 15}},
        {"spec": {"controllerName": "c"}},
    ),
    "a priority class without a source is nobody's": (
        "Workload",
        {"spec": {"priorityClassName": "high", "priorityClassSource": ""}},
        {"spec": {}},
    ),
}
# What v1beta1 has no word for.
DOWN: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "quota management": ("MultiKueueConfig", {"spec": {"quotaManagement": "Manual"}}, {"spec": {}}),
    "concurrent admission": ("ClusterQueue", {"spec": {"concurrentAdmissionPolicy": {}}}, {"spec": {}}),
    "preemption gates": (
        "Workload",
        {"spec": {"preemptionGates": [{"name": "g"}]}, "status": {"preemptionGates": [{"name": "g"}]}},
        {"spec": {}, "status": {}},
    ),
    "slices of slices": (
        "Workload",
        {"spec": {"podSets": [{"topologyRequest": {"podsetSliceRequiredTopologyConstraints": [], "required": "r"}}]}},
        {"spec": {"podSets": [{"topologyRequest": {"required": "r"}}]}},
    ),
}


@pytest.mark.parametrize(("kind", "old", "new"), UP.values(), ids=UP)
def test_only_up(kind: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    assert CONVERT[kind](obj(kind, "v1beta1", **old), "v1beta2") == obj(kind, "v1beta2", **new)


@pytest.mark.parametrize(("kind", "new", "old"), DOWN.values(), ids=DOWN)
def test_only_down(kind: str, new: dict[str, Any], old: dict[str, Any]) -> None:
    assert CONVERT[kind](obj(kind, "v1beta2", **new), "v1beta1") == obj(kind, "v1beta1", **old)


WORDS = [
    *("spec", "status", "admission", "podSets", "podSetAssignments", "topologyAssignment", "domains", "levels"),
    *("values", "count", "cohort", "admissionChecks", "flavorFungibility", "kubeConfig", "location", "fairSharing"),
    *("priorityClassSource", "priorityClassName", "flavorUsage", "topologyRequest"),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.sampled_from(sorted(CONVERT)),
    st.dictionaries(st.sampled_from(["spec", "status"]), json_values, max_size=2),
)
def test_anything_at_all_gets_an_answer(kind: str, parts: dict[str, Any]) -> None:
    """Conversion comes before validation: what is no valid object must be converted or refused, never crash."""
    write = obj(kind, "v1beta1", **parts)
    try:
        converted = CONVERT[kind](write, "v1beta2")
    except BadRequest:
        return
    assert converted["apiVersion"] == "kueue.x-k8s.io/v1beta2"


# -- topology assignments ---------------------------------------------------------------------------------------------

PACKED: dict[str, tuple[list[str], list[tuple[list[str], int]], list[dict[str, Any]]]] = {
    "no domains, no slices": (["rack"], [], []),
    "a domain alone is universal": (
        ["rack", "host"],
        [(["r1", "h1"], 2)],
        [
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": "r1"}, {"universal": "h1"}],
                "podCounts": {"universal": 2},
            }
        ],
    ),
    "what is alike at both ends is written once": (
        ["rack"],
        [(["r-1-z"], 1), (["r-22-z"], 3)],
        [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"individual": {"prefix": "r-", "suffix": "-z", "roots": ["1", "22"]}}],
                "podCounts": {"individual": [1, 3]},
            }
        ],
    ),
    "both ends do not overlap": (
        ["rack"],
        [(["ababa"], 1), (["aba"], 1)],
        [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"individual": {"suffix": "aba", "roots": ["ab", ""]}}],
                "podCounts": {"universal": 1},
            }
        ],
    ),
}


@pytest.mark.parametrize(("levels", "domains", "slices"), PACKED.values(), ids=PACKED)
def test_packing(levels: list[str], domains: list[tuple[list[str], int]], slices: list[dict[str, Any]]) -> None:
    plain = [{"values": values, "count": count} for values, count in domains]
    assert assignments.pack(levels, plain) == {"levels": levels, "slices": slices}


def test_hosts_of_several_pools_get_a_slice_each_when_that_is_shorter() -> None:
    pools = [f"pool-{pool}-with-a-rather-long-name-{host}" for pool in "ab" for host in range(100, 140)]
    packed = assignments.pack(["kubernetes.io/hostname"], [{"values": [host], "count": 1} for host in pools])
    assert [piece["domainCount"] for piece in packed["slices"]] == [40, 40]
    assert packed["slices"][0]["valuesPerLevel"][0]["individual"]["prefix"] == "pool-a-with-a-rather-long-name-1"


names = st.text("ab-1", max_size=6)


@given(
    st.integers(1, 3).flatmap(
        lambda depth: st.lists(
            st.tuples(st.lists(names, min_size=depth, max_size=depth), st.integers(1, 4)), min_size=1, max_size=12
        )
    ),
    st.booleans(),
)
def test_packing_loses_nothing(domains: list[tuple[list[str], int]], hosts: bool) -> None:
    depth = len(domains[0][0])
    levels = [f"level-{i}" for i in range(depth - 1)] + ["kubernetes.io/hostname" if hosts else "rack"]
    plain = [{"values": values, "count": count} for values, count in domains]
    packed = assignments.pack(levels, plain)
    assert assignments.unpack(packed) == plain
    admission = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "topologyAssignment": packed}]}
    newer = obj("Workload", "v1beta2", status={"admission": admission})
    assert conversion.workload(conversion.workload(newer, "v1beta1"), "v1beta2") == newer


def test_a_domain_has_a_value_for_every_level() -> None:
    with pytest.raises(BadRequest, match="a value for each of the 2 levels"):
        assignments.pack(["rack", "host"], [{"values": ["r"], "count": 1}])
