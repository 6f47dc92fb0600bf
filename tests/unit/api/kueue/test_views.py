"""Objects as controllers read them: typed, with defaults, and finalizers where Kueue puts them."""

import msgspec
import pytest

from gpuaas.api.kueue.checks import MultiKueueCluster
from gpuaas.api.kueue.configuration import Configuration
from gpuaas.api.kueue.kinds import KINDS
from gpuaas.api.kueue.quotas import ClusterQueue
from gpuaas.api.kueue.visibility import PendingWorkloadsSummary
from gpuaas.api.kueue.workloads import Workload


def test_a_cluster_queue() -> None:
    queue = msgspec.convert(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "q", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{}]},
            "spec": {
                "cohortName": "all",
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [
                            {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "8", "borrowingLimit": 4}]}
                        ],
                    }
                ],
            },
        },
        ClusterQueue,
    )
    cpu = queue.spec.resource_groups[0].flavors[0].resources[0]
    assert (queue.metadata.name, queue.spec.cohort_name) == ("q", "all")
    assert (cpu.nominal_quota, cpu.borrowing_limit, cpu.lending_limit) == ("8", 4, None)
    assert queue.status.conditions == ()
    with pytest.raises(AttributeError):
        queue.spec.cohort_name = "other"  # type: ignore[misc]


def test_a_workload_keeps_its_template_as_it_is() -> None:
    template = {"spec": {"containers": [{"name": "c"}]}}
    workload = msgspec.convert({"spec": {"podSets": [{"template": template}]}}, Workload)
    assert workload.spec.pod_sets[0].template == template
    assert (workload.spec.pod_sets[0].name, workload.spec.pod_sets[0].count) == ("main", 1)


def test_a_cluster_by_secret() -> None:
    cluster = msgspec.convert({"spec": {"clusterSource": {"kubeConfig": {"location": "s"}}}}, MultiKueueCluster)
    assert cluster.spec is not None
    assert cluster.spec.cluster_source.kube_config is not None
    assert cluster.spec.cluster_source.kube_config.location_type == "Secret"


def test_a_configuration_has_kueues_defaults() -> None:
    settings = msgspec.convert({"kind": "Configuration", "fairSharing": {"preemptionStrategies": []}}, Configuration)
    assert settings.integrations.frameworks == ("batch/job",)
    assert settings.wait_for_pods_ready is None
    assert settings.fair_sharing is not None
    assert settings.multi_kueue.worker_lost_timeout == "15m"


def test_a_summary_is_written_as_kueue_writes_it() -> None:
    item = {
        "metadata": {"name": "w", "namespace": "team"},
        "priority": 0,
        "localQueueName": "lq",
        "positionInClusterQueue": 0,
        "positionInLocalQueue": 0,
    }
    summary = msgspec.convert({"items": [item]}, PendingWorkloadsSummary)
    assert msgspec.json.decode(msgspec.json.encode(summary)) == {"items": [item]}


@pytest.mark.parametrize("kind", ["ResourceFlavor", "ClusterQueue"])
def test_what_can_be_in_use_is_held(kind: str) -> None:
    behaviour = next(bundled.behaviour for bundled in KINDS if bundled.kind == kind)
    assert behaviour is not None
    obj = {"metadata": {"name": "x", "finalizers": ["mine"]}}
    behaviour.prepare_create(obj)
    behaviour.prepare_create(obj)
    assert obj["metadata"]["finalizers"] == ["mine", "kueue.x-k8s.io/resource-in-use"]


def test_a_negative_number_of_groups_is_warned_of() -> None:
    behaviour = next(bundled.behaviour for bundled in KINDS if bundled.kind == "Workload")
    assert behaviour is not None
    obj = {"spec": {"podSets": [{"topologyRequest": {"subGroupCount": -1}}]}}
    assert behaviour.warnings(obj, None) == [
        "spec.podSets[0].topologyRequest.subGroupCount: negative value -1 is deprecated and will be rejected in a future"
        " release"
    ]


def test_a_flavor_of_which_nothing_is_said_has_an_empty_spec() -> None:
    behaviour = next(bundled.behaviour for bundled in KINDS if bundled.kind == "ResourceFlavor")
    assert behaviour is not None
    obj = {"metadata": {"name": "x"}}
    behaviour.prepare_create(obj)
    assert obj["spec"] == {}
