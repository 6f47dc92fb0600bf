"""The built-in resources that our own code names. Others are found by discovery."""

from typing import Final

from gpuaas.client.protocol import Resource


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, namespaced, kind)


NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False)
NODES: Final = _core("nodes", "Node", namespaced=False)
PODS: Final = _core("pods", "Pod")
POD_TEMPLATES: Final = _core("podtemplates", "PodTemplate")
SERVICES: Final = _core("services", "Service")
EVENTS: Final = _core("events", "Event")
SECRETS: Final = _core("secrets", "Secret")
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
CLAIMS: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES: Final = _core("persistentvolumes", "PersistentVolume", namespaced=False)
LIMIT_RANGES: Final = _core("limitranges", "LimitRange")
RESOURCE_QUOTAS: Final = _core("resourcequotas", "ResourceQuota")
REPLICATION_CONTROLLERS: Final = _core("replicationcontrollers", "ReplicationController")

DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", True, "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", True, "ReplicaSet")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", True, "StatefulSet")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", True, "DaemonSet")
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", True, "ControllerRevision")
JOBS: Final = Resource("batch", "v1", "jobs", True, "Job")
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", True, "CronJob")
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", False, "DeviceClass")
CLAIM_TEMPLATES: Final = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", True, "ResourceClaimTemplate")
DEVICE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", False, "ResourceSlice")
RUNTIME_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", False, "RuntimeClass")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", True, "Lease")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", True, "EndpointSlice")
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", True, "PodDisruptionBudget")
SIGNING_REQUESTS: Final = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", False, "CertificateSigningRequest"
)
CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole")
