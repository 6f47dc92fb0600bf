"""Objects become engine values: what a pod takes, what a queue offers, how a workload queues; and plans become status."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.engine.amounts import UNLIMITED, text
from gpuaas.engine.changes import Finished, Reserved
from gpuaas.engine.constraints import Requirement
from gpuaas.engine.engine import Engine
from gpuaas.engine.values import Fungibility, Preemption, Quota, StopPolicy, Workload
from gpuaas.kueue import quotas, status
from gpuaas.kueue.pods import pod_requests, pod_set, units
from gpuaas.kueue.resources import ReadRules, limits_of, resource_rules
from gpuaas.kueue.workloads import Reader

from .builders import Lab, queue


def container(name: str = "c", **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({"containers": [container(cpu="1"), container(cpu="500m", gpu="1")]}, {"cpu": 1500, "gpu": 1}, id="containers add up"),
        pytest.param({"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]}, {"cpu": 3000}, id="an init container may need more"),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [{**container(cpu="2"), "restartPolicy": "Always"}]},
            {"cpu": 3000}, id="a sidecar stays",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [{**container(cpu="2"), "restartPolicy": "Always"}, container(cpu="4")],
            },
            {"cpu": 6000}, id="an init container runs beside the sidecars before it",
        ),
        pytest.param({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250}, id="overhead comes on top"),
        pytest.param({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "8"}}}, {"cpu": 8000}, id="the pod's own requests override"),
        pytest.param({"containers": [{"resources": {"limits": {"gpu": "2"}}}]}, {"gpu": 2}, id="a limit without a request is one"),
        pytest.param({"containers": [container(gpu="1500m", memory="100m")]}, {"gpu": 2, "memory": 1}, id="fractions round up"),
    ],
)  # fmt: skip
def test_what_one_pod_takes(pod: dict[str, Any], expected: dict[str, int]) -> None:
    assert {name: units(name, amount) for name, amount in pod_requests(pod).items()} == expected


@pytest.mark.parametrize(
    ("pod", "alike"),
    [
        pytest.param({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, True, id="a limit as a request"),
        pytest.param({"containers": [container("other", cpu="2000m")]}, True, id="the same in other words"),
        pytest.param({"containers": [container(cpu="1"), container(cpu="1")]}, False, id="by two containers"),
        pytest.param({"containers": [container(cpu="1")], "overhead": {"cpu": "1"}}, False, id="with overhead"),
        pytest.param({"containers": [container()], "initContainers": [container(cpu="2")]}, False, id="at the start"),
        pytest.param(
            {"containers": [{**container(cpu="2"), "ports": [{"containerPort": 80}]}]}, False, id="and a port"
        ),
    ],
)
def test_pods_that_ask_for_the_same_in_another_way_are_another_shape(pod: dict[str, Any], alike: bool) -> None:
    reader = Reader()
    plain, other = (
        reader.workload(workload(template={"spec": spec})).pod_sets
        for spec in ({"containers": [container(cpu="2")]}, pod)
    )
    assert plain[0].requests == other[0].requests
    assert (plain is other) is alike


def test_a_request_above_its_limit_is_told() -> None:
    pod = {"containers": [{"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}
    assert Reader().workload(workload(template={"spec": pod})).problem == (
        'resources validation failed: spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: '
        "requests must not exceed its limits"
    )


RANGES = [
    {
        "spec": {
            "limits": [
                {"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "3"}, "defaultRequest": {"gpu": "1"}}
            ]
        }
    },
    {"spec": {"limits": [{"type": "Container", "max": {"cpu": "5"}}, {"type": "Pod", "min": {"cpu": "2"}}]}},
]


@pytest.mark.parametrize(
    ("requests", "problem"),
    [
        ({"cpu": "3"}, ""),
        (
            {"cpu": "4500m"},
            'spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: requests must not be above the limitRange max',
        ),
        (
            {"cpu": "1"},
            'spec.podSets[0].template.spec: Invalid value: ["cpu"]: requests must not be below the limitRange min',
        ),
    ],
)
def test_limit_ranges_of_a_namespace_count_together(requests: dict[str, str], problem: str) -> None:
    pod = {"containers": [{"resources": {"requests": requests, "limits": requests}}]}
    reader = Reader(limits=lambda _: limits_of(RANGES))
    found = reader.workload(workload(template={"spec": pod}))
    assert found.problem == (f"resources didn't satisfy LimitRange constraints: {problem}" if problem else "")
    assert dict(found.pod_sets[0].requests)["gpu"] == 1, "a default request is a request"


def test_a_workload_that_no_queue_can_take_is_told_and_waits() -> None:
    lab = Lab(queue("q", 4))
    lab.submit("w", "q", problem="resources validation failed: x")
    plan = lab.cycle()
    assert (plan.skipped[0].token.value, plan.skipped[0].message) == ("Misconfigured", "resources validation failed: x")


def test_a_runtime_class_adds_its_overhead() -> None:
    pod = {"runtimeClassName": "kata", "containers": [container(cpu="1")]}
    reader = Reader(overhead={"kata": {"cpu": "250m"}}.get)
    assert dict(reader.workload(workload(template={"spec": pod})).pod_sets[0].requests) == {"cpu": 1250}


def test_configured_transformations_change_what_counts_against_quota_and_not_what_a_node_gives() -> None:
    rules = resource_rules({
        "excludeResourcePrefixes": ["example.com/"],
        "transformations": [
            {"input": "nvidia.com/mig-1g.5gb", "strategy": "Replace", "outputs": {"gpu-memory": "5Gi", "credits": "10"}},
            {"input": "nvidia.com/mig-2g.10gb", "outputs": {"gpu-memory": "10Gi"}, "multiplyBy": "copies"},
        ],
    })  # fmt: skip
    pod = {
        "containers": [
            container(
                **{"nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-2g.10gb": "1", "copies": "3", "example.com/x": "1"}
            )
        ]
    }
    found = Reader(rules).workload(workload(template={"spec": pod})).pod_sets[0]
    gi = 2**30
    assert dict(found.requests) == {"gpu-memory": 40 * gi, "credits": 20, "nvidia.com/mig-2g.10gb": 1, "copies": 3}
    assert dict(found.placement or ()) == {
        "nvidia.com/mig-1g.5gb": 2,
        "nvidia.com/mig-2g.10gb": 1,
        "copies": 3,
        "example.com/x": 1,
    }


def test_pods_that_finished_ask_for_nothing() -> None:
    obj = workload(count=10)
    obj["status"] = {"reclaimablePods": [{"name": "main", "count": 3}]}
    assert Reader().workload(obj).pod_sets[0].count == 7


def workload(**pod_set_fields: Any) -> dict[str, Any]:
    fields = {"name": "main", "count": 1, "template": {"spec": {"containers": [container(cpu="1")]}}, **pod_set_fields}
    return {
        "metadata": {"name": "w", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"podSets": [fields], "queueName": "lq", "priority": 5},
    }


@pytest.mark.parametrize(
    ("reason", "moved"), [("PodsReadyTimeout", True), ("AdmissionCheck", True), ("Preempted", False)]
)
def test_a_workload_queues_from_its_creation_unless_a_check_or_the_timeout_sent_it_back(
    reason: str, moved: bool
) -> None:
    obj = workload()
    obj["status"] = {
        "conditions": [
            {"type": "Evicted", "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T01:00:00Z"}
        ]
    }
    found = Reader().workload(obj)
    assert found.ordered_at == (found.created + 3_600_000 if moved else None)


def test_equal_pod_sets_become_one_value() -> None:
    reader = Reader()
    one, two = reader.workload(workload()), reader.workload(workload())
    assert one.pod_sets is two.pod_sets


def test_a_cluster_queue_in_full() -> None:
    found = quotas.cluster_queue({
        "metadata": {"name": "cq"},
        "spec": {
            "cohortName": "co",
            "queueingStrategy": "StrictFIFO",
            "namespaceSelector": {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
            "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"},
            "preemption": {
                "withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 9},
            },
            "stopPolicy": "HoldAndDrain",
            "fairSharing": {"weight": "500m"},
            "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
            "resourceGroups": [{
                "coveredResources": ["cpu"],
                "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1.5", "borrowingLimit": "1", "lendingLimit": 0}]}],
            }],
        },
    })  # fmt: skip
    assert found.groups[0].flavors[0].quotas == (("cpu", Quota(1500, 1000, 0)),)
    assert found.namespaces == (Requirement("team", "In", ("a",)), Requirement("x", "Exists"))
    assert found.fungibility == Fungibility(borrow_stops=False, preempt_stops=True)
    assert (found.preemption.within_queue, found.preemption.reclaim) == (Preemption.LOWER, Preemption.ANY)
    assert (found.preemption.borrow_within_cohort, found.preemption.borrow_threshold) == (True, 9)
    assert (found.strict, found.cohort, found.weight, found.usage_based) == (True, "co", 0.5, True)
    assert found.stop is StopPolicy.HOLD_AND_DRAIN


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert quotas.label_term(None) is None
    assert quotas.label_term({}) == ()


@pytest.mark.parametrize(
    ("resource", "quantity", "unlimited"),
    [("cpu", "10E", True), ("gpu", "9223372036854775807", True), ("gpu", "1E", False)],
)
def test_quota_that_64_bits_cannot_count_is_unlimited(resource: str, quantity: str, unlimited: bool) -> None:
    from gpuaas.base.quantity import parse_quantity

    assert (quotas.quota_units(resource, parse_quantity(quantity)) == UNLIMITED) == unlimited


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 * 2**30, "3Gi"),
        ("gpu", 1000, "1k"),
        ("gpu", UNLIMITED, "<unlimited>"),
    ],
)
def test_amounts_are_written_as_kubernetes_writes_them(resource: str, amount: int, words: str) -> None:
    assert text(resource, amount) == words


def test_an_admission_as_the_api_says_it_and_back() -> None:
    engine = Engine()
    engine.apply(
        quotas.namespace({"metadata": {"name": "ns"}}),
        quotas.topology({"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}),
        quotas.flavor({"metadata": {"name": "f"}, "spec": {"topologyName": "t", "nodeLabels": {"gpu": "l4"}}}),
        quotas.cluster_queue({
            "metadata": {"name": "cq"},
            "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "100"}]}]}]},
        }),
        quotas.local_queue({"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}),
    )  # fmt: skip
    for index in range(3):
        name = f"node-{index}-x"
        engine.apply(quotas.node({
            "metadata": {"name": name, "labels": {"rack": "r", "kubernetes.io/hostname": name, "gpu": "l4"}},
            "status": {"allocatable": {"cpu": "2", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }))  # fmt: skip
    obj = workload(count=5)
    engine.apply(Reader().workload(obj))
    (admitted,) = engine.cycle(0).admissions
    found = status.admission(admitted, engine.flavors, engine.places.topologies)
    (assignment,) = found["podSetAssignments"]
    assert assignment["resourceUsage"] == {"cpu": "5"}
    assert assignment["count"] == 5
    assert assignment["topologyAssignment"] == {
        "levels": ["kubernetes.io/hostname"],
        "slices": [{
            "domainCount": 3,
            "valuesPerLevel": [{"individual": {"prefix": "node-", "suffix": "-x", "roots": ["0", "1", "2"]}}],
            "podCounts": {"individual": [2, 2, 1]},
        }],
    }  # fmt: skip
    again = Engine()
    again.apply(*engine.places.topologies.values(), *engine.flavors.values(), *engine.places.nodes.values())
    again.apply(*(q.spec for q in engine.forest.queues.values()))
    obj["status"] = {"admission": found}
    again.apply(Reader().reserved(obj, at=0))
    again.validate()
    assert again.places.usage() == engine.places.usage(), "a restart finds the same places taken"


@pytest.mark.parametrize(
    "domains",
    [
        (),
        ((("a",), 1),),
        ((("a", "x1"), 2), (("a", "x2"), 2), (("b", "x22"), 1)),
        ((("aa",), 1), (("aaa",), 2), (("a",), 3)),
    ],
)
def test_compressed_places_read_back_as_they_were(domains: Any) -> None:
    levels = [f"l{i}" for i in range(len(domains[0][0]) if domains else 1)]
    assert status.domains_of(status.topology_assignment(levels, domains)) == domains


def reserved(**status_fields: Any) -> dict[str, Any]:
    obj = workload(count=4)
    obj["status"] = {
        "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": "2026-01-01T00:00:05Z"}],
        "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "4"}, "count": 4}]},
        **status_fields,
    }  # fmt: skip
    return obj


def condition(kind: str, status_: str = "True", reason: str = "x") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status_, "reason": reason}]}


@pytest.mark.parametrize(
    ("obj", "kind"),
    [
        (workload(), Workload),
        (reserved(), Reserved),
        ({**workload(), "status": condition("Finished")}, Finished),
        ({**reserved(), "spec": {**reserved()["spec"], "active": False}}, Finished),
        ({**workload(), "status": condition("QuotaReserved", "False", "OnHold")}, Finished),
        ({**workload(), "status": condition("WaitingForReplacementPods")}, Finished),
    ],
)
def test_what_an_object_says_it_waits_holds_quota_or_neither(obj: dict[str, Any], kind: type) -> None:
    assert type(Reader().change(obj)) is kind


def test_an_admission_gate_keeps_a_workload_out_of_its_queue() -> None:
    obj = workload()
    obj["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/x"}
    assert isinstance(Reader().change(obj), Finished)


def test_pods_that_finish_give_their_part_back_and_wake_who_waits_for_it() -> None:
    lab = Lab(queue("q", {"default": {"cpu": 4000}}))
    lab.engine.apply(Reader().change(reserved()))
    lab.submit("next", "q", {"cpu": 1000})
    lab.settle()
    assert lab.pending() == {"next"}
    lab.engine.apply(Reader().change(reserved(reclaimablePods=[{"name": "main", "count": 1}])))
    lab.settle()
    assert lab.running() == {"w", "next"}


def test_hearing_again_of_a_reservation_changes_nothing() -> None:
    lab = Lab(queue("q", {"default": {"cpu": 4000}}))
    lab.engine.apply(Reader().change(reserved()))
    lab.settle()
    generation = lab.queue("q").generation
    lab.engine.apply(Reader().change(reserved()))
    lab.engine.validate()
    assert lab.queue("q").generation == generation


def test_what_a_workload_asks_for_is_read_again_with_every_generation_and_when_pods_are_done() -> None:
    reader, obj = Reader(), workload(count=4)
    obj["metadata"] |= {"uid": "u", "generation": 1}
    assert reader.workload(obj).pod_sets[0].count == 4
    obj["status"] = {"reclaimablePods": [{"name": "main", "count": 1}]}
    assert reader.workload(obj).pod_sets[0].count == 3
    obj["spec"]["podSets"][0]["count"] = 6
    obj["metadata"]["generation"] = 2
    assert reader.workload(obj).pod_sets[0].count == 5


@pytest.mark.parametrize(
    ("amount", "written"), [(1 << 30, "1Gi"), (1_000_000_000, "1G"), (1500, "1500"), (1000, "1k"), (0, "0")]
)
def test_bytes_are_written_by_powers_of_1024_where_those_divide_them(amount: int, written: str) -> None:
    assert text("memory", amount) == written


@pytest.mark.parametrize(("reduces", "least"), [(True, 2), (False, None)])
def test_fewer_pods_are_taken_only_where_that_is_on(reduces: bool, least: int | None) -> None:
    found = pod_set({"count": 4, "minCount": 2}, {"containers": []}, counts=ReadRules(reduces=reduces))
    assert (found.count, found.min_count) == (4, least)
