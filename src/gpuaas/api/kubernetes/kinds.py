"""The built-in kinds of Kubernetes 1.36: names, verbs, subresources, columns and behaviour, in order of discovery.

`builtin_kinds` gives them all; what a type holds is in module schemas, what a row of `kubectl get` shows in package
tables, and what a kind defaults and refuses in package rules.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from gpuaas.api.kinds import ALL_VERBS, Behaviour, Column, Kind, Scale
from gpuaas.api.kubernetes.rules import behaviour_of
from gpuaas.api.kubernetes.schemas import TABLES
from gpuaas.api.kubernetes.tables import cluster, pods, wiring, workloads
from gpuaas.api.kubernetes.tables.cells import Cells, View, columns, object_age, part

_ALL: Final = ("all",)
_EXTENSIONS: Final = ("api-extensions",)
_CREATE: Final = ("create",)
# Their selector is an object (or, for old controllers, plain labels): the `scale` subresource writes it as a query.
_SCALE: Final = Scale(selector_path=".spec.selector")
_PREFIXES: Final[Mapping[tuple[str, str], str]] = {
    (group, version): prefix for prefix, (_, group, version) in TABLES.items() if "apimachinery" not in prefix
}
Row = Callable[[View, float], Cells]


def _age_row(obj: View, now: float) -> Cells:
    return [object_age(obj, now)]


def _created_row(obj: View, _now: float) -> Cells:
    return [part(obj, "metadata").get("creationTimestamp")]


_AGE: Final[tuple[tuple[Column, ...], Row]] = (columns("Age"), _age_row)
_CREATED: Final[tuple[tuple[Column, ...], Row]] = (columns("Created At:date"), _created_row)


@cache
def builtin_kinds() -> tuple[Kind, ...]:
    return (
        *_core(),
        *_apps_and_batch(),
        *_access(),
        *_network(),
        *_storage_and_devices(),
        *_extension(),
    )


class _Group:
    """The kinds of one group and version, with what they share filled in."""

    def __init__(self, group: str, version: str = "v1") -> None:
        self._group, self._version = group, version
        self._prefix = _PREFIXES[group, version]

    def __call__(
        self,
        kind: str,
        plural: str,
        table: tuple[tuple[Column, ...], Row] | None,
        *,
        namespaced: bool = True,
        short: str = "",
        **more: Any,
    ) -> Kind:
        return Kind(
            group=self._group,
            version=self._version,
            kind=kind,
            plural=plural,
            namespaced=namespaced,
            schema=f"{self._prefix}.{kind}",
            singular=kind.lower(),
            short_names=tuple(short.split()),
            columns=table[0] if table else (),
            row=table[1] if table else None,
            behaviour=behaviour_of(self._group, kind) or Behaviour(),
            virtual=more.get("verbs") == _CREATE,
            **more,
        )


def _core() -> tuple[Kind, ...]:
    core = _Group("")
    connects = ("attach", "exec", "portforward", "proxy")
    pod_parts = ("binding", "ephemeralcontainers", "eviction", "log", "resize", *connects)
    no_collection = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
    return (
        core("Binding", "bindings", None, verbs=_CREATE),
        core(
            "ComponentStatus",
            "componentstatuses",
            (cluster.COMPONENT_COLUMNS, cluster.component_row),
            namespaced=False,
            short="cs",
            verbs=("get", "list"),
            deprecated="v1 ComponentStatus is deprecated in v1.19+",
        ),
        core("ConfigMap", "configmaps", (cluster.CONFIG_MAP_COLUMNS, cluster.config_map_row), short="cm"),
        core(
            "Endpoints",
            "endpoints",
            (wiring.ENDPOINTS_COLUMNS, wiring.endpoints_row),
            short="ep",
            deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        core("Event", "events", (cluster.EVENT_COLUMNS, cluster.event_row), short="ev", whole_row=True),
        core("LimitRange", "limitranges", _CREATED, short="limits"),
        core(
            "Namespace",
            "namespaces",
            (cluster.NAMESPACE_COLUMNS, cluster.namespace_row),
            namespaced=False,
            short="ns",
            status=True,
            subresources=("finalize",),
            verbs=no_collection,
        ),
        core(
            "Node",
            "nodes",
            (cluster.NODE_COLUMNS, cluster.node_row),
            namespaced=False,
            short="no",
            status=True,
            subresources=("proxy",),
        ),
        core(
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            (cluster.CLAIM_COLUMNS, cluster.claim_row),
            short="pvc",
            status=True,
        ),
        core(
            "PersistentVolume",
            "persistentvolumes",
            (cluster.VOLUME_COLUMNS, cluster.volume_row),
            namespaced=False,
            short="pv",
            status=True,
        ),
        core(
            "Pod",
            "pods",
            (pods.POD_COLUMNS, pods.pod_row),
            short="po",
            categories=_ALL,
            status=True,
            subresources=pod_parts,
        ),
        core("PodTemplate", "podtemplates", (workloads.POD_TEMPLATE_COLUMNS, workloads.pod_template_row)),
        core(
            "ReplicationController",
            "replicationcontrollers",
            (workloads.REPLICAS_COLUMNS, workloads.replication_controller_row),
            short="rc",
            categories=_ALL,
            status=True,
            scale=_SCALE,
        ),
        core("ResourceQuota", "resourcequotas", (cluster.QUOTA_COLUMNS, cluster.quota_row), short="quota", status=True),
        core("Secret", "secrets", (cluster.SECRET_COLUMNS, cluster.secret_row)),
        core("ServiceAccount", "serviceaccounts", _AGE, short="sa", subresources=("token",)),
        core(
            "Service",
            "services",
            (wiring.SERVICE_COLUMNS, wiring.service_row),
            short="svc",
            categories=_ALL,
            status=True,
            subresources=("proxy",),
        ),
    )


def _apps_and_batch() -> tuple[Kind, ...]:
    apps, batch, events = _Group("apps"), _Group("batch"), _Group("events.k8s.io")
    scaling, scaling_v1, policy = _Group("autoscaling", "v2"), _Group("autoscaling", "v1"), _Group("policy")
    running: dict[str, Any] = {"categories": _ALL, "status": True}
    hpa = ("HorizontalPodAutoscaler", "horizontalpodautoscalers")
    hpa_table = (workloads.AUTOSCALER_COLUMNS, workloads.autoscaler_row)
    return (
        apps("ControllerRevision", "controllerrevisions", (workloads.REVISION_COLUMNS, workloads.revision_row)),
        apps(
            "DaemonSet",
            "daemonsets",
            (workloads.DAEMON_SET_COLUMNS, workloads.daemon_set_row),
            short="ds",
            **running,
        ),
        apps(
            "Deployment",
            "deployments",
            (workloads.DEPLOYMENT_COLUMNS, workloads.deployment_row),
            short="deploy",
            scale=_SCALE,
            **running,
        ),
        apps(
            "ReplicaSet",
            "replicasets",
            (workloads.REPLICAS_COLUMNS, workloads.replica_set_row),
            short="rs",
            scale=_SCALE,
            **running,
        ),
        apps(
            "StatefulSet",
            "statefulsets",
            (workloads.STATEFUL_SET_COLUMNS, workloads.stateful_set_row),
            short="sts",
            scale=_SCALE,
            **running,
        ),
        events("Event", "events", (cluster.EVENT_COLUMNS, cluster.event_row), short="ev", whole_row=True),
        scaling(*hpa, hpa_table, short="hpa", **running),
        scaling_v1(*hpa, hpa_table, short="hpa", **running),
        batch("CronJob", "cronjobs", (workloads.CRON_JOB_COLUMNS, workloads.cron_job_row), short="cj", **running),
        batch("Job", "jobs", (workloads.JOB_COLUMNS, workloads.job_row), **running),
        policy(
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            (workloads.DISRUPTION_COLUMNS, workloads.disruption_row),
            short="pdb",
            status=True,
        ),
    )


def _access() -> tuple[Kind, ...]:
    authentication, authorization = _Group("authentication.k8s.io"), _Group("authorization.k8s.io")
    certificates, rbac = _Group("certificates.k8s.io"), _Group("rbac.authorization.k8s.io")
    review: dict[str, Any] = {"verbs": _CREATE, "namespaced": False}
    bindings = (wiring.BINDING_COLUMNS, wiring.binding_row)
    return (
        authentication("SelfSubjectReview", "selfsubjectreviews", None, **review),
        authentication("TokenReview", "tokenreviews", None, **review),
        authorization("LocalSubjectAccessReview", "localsubjectaccessreviews", None, verbs=_CREATE),
        authorization("SelfSubjectAccessReview", "selfsubjectaccessreviews", None, **review),
        authorization("SelfSubjectRulesReview", "selfsubjectrulesreviews", None, **review),
        authorization("SubjectAccessReview", "subjectaccessreviews", None, **review),
        certificates(
            "CertificateSigningRequest",
            "certificatesigningrequests",
            (wiring.SIGNING_COLUMNS, wiring.signing_row),
            namespaced=False,
            short="csr",
            status=True,
            subresources=("approval",),
        ),
        rbac("ClusterRoleBinding", "clusterrolebindings", bindings, namespaced=False),
        rbac("ClusterRole", "clusterroles", _CREATED, namespaced=False),
        rbac("RoleBinding", "rolebindings", bindings),
        rbac("Role", "roles", _CREATED),
    )


def _network() -> tuple[Kind, ...]:
    network, discovery = _Group("networking.k8s.io"), _Group("discovery.k8s.io")
    return (
        network("IngressClass", "ingressclasses", _AGE, namespaced=False),
        network("Ingress", "ingresses", (wiring.INGRESS_COLUMNS, wiring.ingress_row), short="ing", status=True),
        network("IPAddress", "ipaddresses", _AGE, namespaced=False, short="ip"),
        network(
            "NetworkPolicy",
            "networkpolicies",
            (wiring.NETWORK_POLICY_COLUMNS, wiring.network_policy_row),
            short="netpol",
        ),
        network("ServiceCIDR", "servicecidrs", _AGE, namespaced=False, status=True),
        discovery("EndpointSlice", "endpointslices", (wiring.ENDPOINT_SLICE_COLUMNS, wiring.endpoint_slice_row)),
    )


def _storage_and_devices() -> tuple[Kind, ...]:
    storage, devices, node = _Group("storage.k8s.io"), _Group("resource.k8s.io"), _Group("node.k8s.io")
    classes = (wiring.STORAGE_CLASS_COLUMNS, wiring.storage_class_row)
    claims = (cluster.CLAIMED_DEVICES_COLUMNS, cluster.claimed_devices_row)
    runtimes = (cluster.RUNTIME_CLASS_COLUMNS, cluster.runtime_class_row)
    return (
        storage("CSIDriver", "csidrivers", _AGE, namespaced=False),
        storage("CSINode", "csinodes", _AGE, namespaced=False),
        storage("CSIStorageCapacity", "csistoragecapacities", _CREATED),
        storage("StorageClass", "storageclasses", classes, namespaced=False, short="sc", whole_row=True),
        storage("VolumeAttachment", "volumeattachments", _AGE, namespaced=False, status=True),
        storage("VolumeAttributesClass", "volumeattributesclasses", _AGE, namespaced=False, short="vac"),
        node("RuntimeClass", "runtimeclasses", runtimes, namespaced=False),
        devices("DeviceClass", "deviceclasses", _AGE, namespaced=False),
        devices("ResourceClaim", "resourceclaims", claims, status=True),
        devices("ResourceClaimTemplate", "resourceclaimtemplates", _AGE),
        devices("ResourceSlice", "resourceslices", (cluster.SLICE_COLUMNS, cluster.slice_row), namespaced=False),
    )


def _extension() -> tuple[Kind, ...]:
    registration, aggregation = _Group("admissionregistration.k8s.io"), _Group("apiregistration.k8s.io")
    definitions, scheduling = _Group("apiextensions.k8s.io"), _Group("scheduling.k8s.io")
    leases, flow = _Group("coordination.k8s.io"), _Group("flowcontrol.apiserver.k8s.io")
    extension: dict[str, Any] = {"namespaced": False, "categories": _EXTENSIONS}
    webhooks = (wiring.WEBHOOKS_COLUMNS, wiring.webhooks_row)
    bindings = (wiring.POLICY_BINDING_COLUMNS, wiring.policy_binding_row)
    mutating = (wiring.MUTATING_POLICY_COLUMNS, wiring.mutating_policy_row)
    validating = (wiring.VALIDATING_POLICY_COLUMNS, wiring.validating_policy_row)
    services = (wiring.API_SERVICE_COLUMNS, wiring.api_service_row)
    priorities = (cluster.PRIORITY_CLASS_COLUMNS, cluster.priority_class_row)
    return (
        registration("MutatingAdmissionPolicy", "mutatingadmissionpolicies", mutating, **extension),
        registration("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", bindings, **extension),
        registration("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", webhooks, **extension),
        registration("ValidatingAdmissionPolicy", "validatingadmissionpolicies", validating, status=True, **extension),
        registration("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", bindings, **extension),
        registration("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", webhooks, **extension),
        aggregation("APIService", "apiservices", services, status=True, **extension),
        definitions(
            "CustomResourceDefinition",
            "customresourcedefinitions",
            _CREATED,
            short="crd crds",
            status=True,
            **extension,
        ),
        scheduling("PriorityClass", "priorityclasses", priorities, namespaced=False, short="pc"),
        leases("Lease", "leases", (cluster.LEASE_COLUMNS, cluster.lease_row)),
        flow("FlowSchema", "flowschemas", _AGE, namespaced=False, status=True),
        flow("PriorityLevelConfiguration", "prioritylevelconfigurations", _AGE, namespaced=False, status=True),
    )
