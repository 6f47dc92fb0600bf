"""What built-in kinds default, prepare and refuse: one behaviour for each kind that has rules of its own."""

from collections.abc import Mapping
from typing import Final

from gpuaas.api.kinds import Behaviour
from gpuaas.api.kubernetes.rules import (
    access,
    certificates,
    claims,
    classes,
    config,
    disruption,
    duties,
    events,
    jobs,
    others,
    webhooks,
    workloads,
)
from gpuaas.api.kubernetes.rules.definitions import CustomResourceDefinition
from gpuaas.api.kubernetes.rules.namespaces import Namespace
from gpuaas.api.kubernetes.rules.nodes import Node
from gpuaas.api.kubernetes.rules.pods import Pod
from gpuaas.api.kubernetes.rules.quotas import LimitRange, ResourceQuota
from gpuaas.api.kubernetes.rules.services import Service

_PLAIN: Final = others.Plain()
_GUARDED: Final = others.GuardedPlain()
_WEBHOOKS: Final = webhooks.WebhookConfiguration()
_POLICY: Final = webhooks.AdmissionPolicy()
_POLICY_BINDING: Final = webhooks.AdmissionPolicyBinding()

_BEHAVIOURS: Final[Mapping[tuple[str, str], Behaviour]] = {
    ("", "ConfigMap"): config.ConfigMap(),
    ("", "Endpoints"): others.Endpoints(),
    ("", "Event"): events.CoreEvent(),
    ("", "LimitRange"): LimitRange(),
    ("", "Namespace"): Namespace(),
    ("", "Node"): Node(),
    ("", "PersistentVolume"): others.PersistentVolume(),
    ("", "PersistentVolumeClaim"): others.PersistentVolumeClaim(),
    ("", "Pod"): Pod(),
    ("", "PodTemplate"): workloads.PodTemplate(),
    ("", "ReplicationController"): workloads.ReplicationController(),
    ("", "ResourceQuota"): ResourceQuota(),
    ("", "Secret"): config.Secret(),
    ("", "Service"): Service(),
    ("", "ServiceAccount"): config.ServiceAccount(),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _POLICY,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _POLICY,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): CustomResourceDefinition(),
    ("apiregistration.k8s.io", "APIService"): others.APIService(),
    ("apps", "ControllerRevision"): _PLAIN,
    ("apps", "DaemonSet"): workloads.DaemonSet(),
    ("apps", "Deployment"): workloads.Deployment(),
    ("apps", "ReplicaSet"): workloads.ReplicaSet(),
    ("apps", "StatefulSet"): workloads.StatefulSet(),
    ("autoscaling", "HorizontalPodAutoscaler"): others.HorizontalPodAutoscaler(),
    ("batch", "CronJob"): jobs.CronJob(),
    ("batch", "Job"): jobs.Job(),
    ("certificates.k8s.io", "CertificateSigningRequest"): certificates.CertificateSigningRequest(),
    ("coordination.k8s.io", "Lease"): duties.Lease(),
    ("discovery.k8s.io", "EndpointSlice"): others.EndpointSlice(),
    ("events.k8s.io", "Event"): events.NewEvent(),
    ("networking.k8s.io", "IPAddress"): _PLAIN,
    ("networking.k8s.io", "NetworkPolicy"): others.NetworkPolicy(),
    ("networking.k8s.io", "ServiceCIDR"): _PLAIN,
    ("node.k8s.io", "RuntimeClass"): classes.RuntimeClass(),
    ("policy", "PodDisruptionBudget"): disruption.PodDisruptionBudget(),
    ("rbac.authorization.k8s.io", "ClusterRole"): access.ClusterRole(),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.ClusterRoleBinding(),
    ("rbac.authorization.k8s.io", "Role"): access.Role(),
    ("rbac.authorization.k8s.io", "RoleBinding"): access.RoleBinding(),
    ("resource.k8s.io", "DeviceClass"): claims.DeviceClass(),
    ("resource.k8s.io", "ResourceClaim"): claims.ResourceClaim(),
    ("resource.k8s.io", "ResourceClaimTemplate"): claims.ResourceClaimTemplate(),
    ("resource.k8s.io", "ResourceSlice"): claims.ResourceSlice(),
    ("scheduling.k8s.io", "PriorityClass"): duties.PriorityClass(),
    ("storage.k8s.io", "CSIDriver"): _GUARDED,
    ("storage.k8s.io", "CSINode"): _GUARDED,
    ("storage.k8s.io", "CSIStorageCapacity"): _GUARDED,
    ("storage.k8s.io", "StorageClass"): others.StorageClass(),
    ("storage.k8s.io", "VolumeAttachment"): _GUARDED,
    ("storage.k8s.io", "VolumeAttributesClass"): _PLAIN,
}


def behaviour_of(group: str, kind: str) -> Behaviour | None:
    """The rules of a kind; None when it has none of its own."""
    return _BEHAVIOURS.get((group, kind))
