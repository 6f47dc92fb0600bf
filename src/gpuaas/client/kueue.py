"""Kueue's resources, as the client names them."""

from typing import Final

from gpuaas.client.protocol import Resource

GROUP: Final = "kueue.x-k8s.io"
_VERSION: Final = "v1beta2"

RESOURCE_FLAVORS: Final = Resource(GROUP, _VERSION, "resourceflavors", False, "ResourceFlavor")
CLUSTER_QUEUES: Final = Resource(GROUP, _VERSION, "clusterqueues", False, "ClusterQueue")
COHORTS: Final = Resource(GROUP, _VERSION, "cohorts", False, "Cohort")
LOCAL_QUEUES: Final = Resource(GROUP, _VERSION, "localqueues", True, "LocalQueue")
WORKLOADS: Final = Resource(GROUP, _VERSION, "workloads", True, "Workload")
PRIORITY_CLASSES: Final = Resource(GROUP, _VERSION, "workloadpriorityclasses", False, "WorkloadPriorityClass")
ADMISSION_CHECKS: Final = Resource(GROUP, _VERSION, "admissionchecks", False, "AdmissionCheck")
PROVISIONING_CONFIGS: Final = Resource(
    GROUP, _VERSION, "provisioningrequestconfigs", False, "ProvisioningRequestConfig"
)
PROVISIONING_REQUESTS: Final = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", True, "ProvisioningRequest"
)
MULTIKUEUE_CONFIGS: Final = Resource(GROUP, _VERSION, "multikueueconfigs", False, "MultiKueueConfig")
MULTIKUEUE_CLUSTERS: Final = Resource(GROUP, _VERSION, "multikueueclusters", False, "MultiKueueCluster")
TOPOLOGIES: Final = Resource(GROUP, _VERSION, "topologies", False, "Topology")
PREEMPTIONS: Final = Resource("gpuaas.dev", "v1alpha1", "preemptions", True, "Preemption")
KUEUES: Final = Resource("kueue.openshift.io", "v1", "kueues", False, "Kueue")
# Where upstream's installation keeps Kueue's own configuration.
CONFIGURATION_NAMESPACE: Final = "kueue-system"
CONFIGURATION_NAME: Final = "kueue-manager-config"
CONFIGURATION_KEY: Final = "controller_manager_config.yaml"
FINALIZER: Final = f"{GROUP}/resource-in-use"

KUEUE: Final = (
    RESOURCE_FLAVORS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    WORKLOADS,
    PRIORITY_CLASSES,
    ADMISSION_CHECKS,
    PROVISIONING_CONFIGS,
    PROVISIONING_REQUESTS,
    MULTIKUEUE_CONFIGS,
    MULTIKUEUE_CLUSTERS,
    TOPOLOGIES,
    PREEMPTIONS,
    KUEUES,
)
