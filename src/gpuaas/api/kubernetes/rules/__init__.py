"""What built-in kinds default, prepare and refuse: one behaviour for each kind that has rules of its own."""

from collections.abc import Mapping
from typing import Final

from gpuaas.api.kinds import Behaviour
from gpuaas.api.kubernetes.rules.config import ConfigMap, Secret, ServiceAccount
from gpuaas.api.kubernetes.rules.jobs import CronJob, Job
from gpuaas.api.kubernetes.rules.namespaces import Namespace
from gpuaas.api.kubernetes.rules.pods import Pod
from gpuaas.api.kubernetes.rules.storage import PersistentVolume, PersistentVolumeClaim
from gpuaas.api.kubernetes.rules.workloads import (
    DaemonSet,
    Deployment,
    PodTemplate,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

_BEHAVIOURS: Final[Mapping[tuple[str, str], Behaviour]] = {
    ("", "ConfigMap"): ConfigMap(),
    ("", "Namespace"): Namespace(),
    ("", "PersistentVolume"): PersistentVolume(),
    ("", "PersistentVolumeClaim"): PersistentVolumeClaim(),
    ("", "Pod"): Pod(),
    ("", "PodTemplate"): PodTemplate(),
    ("", "ReplicationController"): ReplicationController(),
    ("", "Secret"): Secret(),
    ("", "ServiceAccount"): ServiceAccount(),
    ("apps", "DaemonSet"): DaemonSet(),
    ("apps", "Deployment"): Deployment(),
    ("apps", "ReplicaSet"): ReplicaSet(),
    ("apps", "StatefulSet"): StatefulSet(),
    ("batch", "CronJob"): CronJob(),
    ("batch", "Job"): Job(),
}


def behaviour_of(group: str, kind: str) -> Behaviour | None:
    """The rules of a kind; None when it has none of its own."""
    return _BEHAVIOURS.get((group, kind))
