"""The custom kinds that come with the product, and the definitions made of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from gpuaas.api.crds import Bundled
from gpuaas.api.custom import bundled
from gpuaas.machinery.schema.definition import check_structural
from gpuaas.machinery.schema.model import SchemaSet
from gpuaas.machinery.schema.structural import prune

KINDS = bundled()

SERVED = """
kueue.x-k8s.io/v1beta1 ResourceFlavor ClusterQueue LocalQueue AdmissionCheck WorkloadPriorityClass Cohort Workload
kueue.x-k8s.io/v1beta1 MultiKueueConfig MultiKueueCluster Topology ProvisioningRequestConfig
kueue.x-k8s.io/v1beta2 ResourceFlavor ClusterQueue LocalQueue AdmissionCheck WorkloadPriorityClass Cohort Workload
kueue.x-k8s.io/v1beta2 MultiKueueConfig MultiKueueCluster Topology ProvisioningRequestConfig
kueue.openshift.io/v1alpha1 Kueue
kueue.openshift.io/v1 Kueue
cluster.open-cluster-management.io/v1 ManagedCluster
cluster.open-cluster-management.io/v1beta1 Placement PlacementDecision
cluster.open-cluster-management.io/v1beta2 ManagedClusterSet ManagedClusterSetBinding
cluster.open-cluster-management.io/v1alpha1 AddOnPlacementScore
addon.open-cluster-management.io/v1alpha1 ClusterManagementAddOn ManagedClusterAddOn AddOnTemplate
authentication.open-cluster-management.io/v1alpha1 ManagedServiceAccount
authentication.open-cluster-management.io/v1beta1 ManagedServiceAccount
rbac.open-cluster-management.io/v1alpha1 ClusterPermission
work.open-cluster-management.io/v1 ManifestWork
operator.open-cluster-management.io/v1 MultiClusterHub
policy.open-cluster-management.io/v1 Policy ConfigurationPolicy PlacementBinding
multicluster.x-k8s.io/v1alpha1 ClusterProfile
dashboard.opendatahub.io/v1alpha1 HardwareProfile
infrastructure.opendatahub.io/v1 HardwareProfile
infrastructure.opendatahub.io/v1alpha1 HardwareProfile
opendatahub.io/v1alpha OdhDashboardConfig
datasciencecluster.opendatahub.io/v1 DataScienceCluster
datasciencecluster.opendatahub.io/v2 DataScienceCluster
dscinitialization.opendatahub.io/v1 DSCInitialization
dscinitialization.opendatahub.io/v2 DSCInitialization
components.platform.opendatahub.io/v1alpha1 Kueue
services.platform.opendatahub.io/v1alpha1 Auth
nvidia.com/v1 ClusterPolicy
nfd.openshift.io/v1 NodeFeatureDiscovery
kubeflow.org/v1 Notebook PyTorchJob TFJob XGBoostJob PaddleJob JAXJob
kubeflow.org/v2beta1 MPIJob
ray.io/v1 RayCluster RayJob RayService
jobset.x-k8s.io/v1alpha2 JobSet
workload.codeflare.dev/v1beta2 AppWrapper
autoscaling.x-k8s.io/v1 ProvisioningRequest
autoscaling.x-k8s.io/v1beta1 ProvisioningRequest
trainer.kubeflow.org/v1alpha1 TrainJob
leaderworkerset.x-k8s.io/v1 LeaderWorkerSet
serving.kserve.io/v1beta1 InferenceService
serving.kserve.io/v1alpha1 ServingRuntime LLMInferenceService
monitoring.coreos.com/v1 ServiceMonitor PrometheusRule
observability.open-cluster-management.io/v1beta2 MultiClusterObservability
operators.coreos.com/v1 OperatorGroup
operators.coreos.com/v1alpha1 Subscription ClusterServiceVersion
machine.openshift.io/v1beta1 MachineSet
machineconfiguration.openshift.io/v1 MachineConfig
argoproj.io/v1alpha1 Application
config.openshift.io/v1 OAuth
user.openshift.io/v1 Group
project.openshift.io/v1 Project
gateway.networking.k8s.io/v1 Gateway HTTPRoute
"""
WANTED = [(line.split()[0], kind) for line in SERVED.strip().splitlines() for kind in line.split()[1:]]


@pytest.mark.parametrize(("api", "kind"), WANTED, ids=[f"{kind}.{api}" for api, kind in WANTED])
def test_is_served(api: str, kind: str) -> None:
    group, _, version = api.partition("/")
    found = [entry for entry in KINDS if (entry.group, entry.kind) == (group, kind)]
    assert len(found) == 1
    assert any(entry.name == version and entry.served for entry in found[0].versions)


def test_every_name_is_taken_once() -> None:
    names = [entry.name for entry in KINDS]
    assert len(set(names)) == len(names)
    for group in {entry.group for entry in KINDS}:
        short = [name for entry in KINDS if entry.group == group for name in entry.short_names]
        assert len(set(short)) == len(short), group


@pytest.mark.parametrize("entry", KINDS, ids=[entry.name for entry in KINDS])
def test_definition(entry: Bundled) -> None:
    definition = entry.definition()
    assert definition["metadata"]["name"] == f"{entry.plural}.{entry.group}"
    assert [version["name"] for version in definition["spec"]["versions"] if version["storage"]] == [
        entry.storage_version
    ]
    for version in definition["spec"]["versions"]:
        assert not set(_words(version["schema"]["openAPIV3Schema"])) & {"$ref", "x-gpuaas-zero"}
    assert msgspec.json.encode(definition) == msgspec.json.encode(entry.definition())


# The whole check of a large definition takes a while; one kind of each sort stands for the rest.
STRUCTURAL = ["ClusterQueue", "Workload", "Placement", "HardwareProfile", "ClusterPolicy", "JobSet", "Application"]


@pytest.mark.parametrize("kind", STRUCTURAL)
def test_would_be_accepted_from_a_user(kind: str) -> None:
    for entry in (entry for entry in KINDS if entry.kind == kind):
        for version in entry.definition()["spec"]["versions"]:
            status = "status" in version.get("subresources", {})
            assert check_structural(version["schema"]["openAPIV3Schema"], status=status) == []


def test_old_versions_say_so() -> None:
    warnings = {
        f"{entry.group}/{version.name}": version.deprecated
        for entry in KINDS
        for version in entry.versions
        if version.deprecated and entry.kind in ("ClusterQueue", "HardwareProfile")
    }
    assert warnings == {
        "kueue.x-k8s.io/v1beta1": "This version is deprecated. Use v1beta2 instead.",
        "infrastructure.opendatahub.io/v1alpha1": "infrastructure.opendatahub.io/v1alpha1 is deprecated; please use"
        " infrastructure.opendatahub.io/v1",
        "dashboard.opendatahub.io/v1alpha1": "DEPRECATED: This version lacks support for the latest scheduling features"
        " and is no longer maintained. Please use the HardwareProfile in the 'infrastructure.opendatahub.io' API group.",
    }


def _words(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from schema
    for inner in (schema.get("properties") or {}).values():
        yield from _words(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _words(schema[key])


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("rayclusters.ray.io", {"autoscalerOptions": {"command": ["/bin/sh"], "args": ["-c", "true"]}}),
    ("rayclusters.ray.io", {"gcsFaultToleranceOptions": {"backend": "rocksdb", "storage": {"size": "1Gi"}}}),
    ("rayclusters.ray.io", {"tlsOptions": {"enabled": True}, "networkPolicy": {"head": {}}}),
    ("clustertrainingruntimes.trainer.kubeflow.org", {"mlPolicy": {"torch": {"numProcPerNode": "auto"}}}),
]


@pytest.mark.parametrize(("name", "spec"), ACCEPTED, ids=[str(spec) for _, spec in ACCEPTED])
def test_what_older_and_newer_operators_know_is_not_lost(name: str, spec: dict[str, Any]) -> None:
    ours = next(each for each in KINDS if each.name == name)
    openapi = next(version for version in ours.versions if version.storage).schema()
    schema = SchemaSet({}.__getitem__).inline(openapi)
    fresh, lost = prune(schema, {"spec": spec})
    assert (fresh["spec"], lost) == (spec, [])
