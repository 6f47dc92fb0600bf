"""Two older webhooks: workloads of Kueue namespaces need a queue label; the dashboard's old kinds are refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gpuaas.profiles.inject import QUEUE
from gpuaas.profiles.paths import Object
from gpuaas.profiles.webhook import Answer

_MANAGED: Final = ("kueue.openshift.io/managed", "kueue-managed")
_KINDS: Final = frozenset(
    (
        ("kubeflow.org/v1", "Notebook"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
        ("ray.io/v1alpha1", "RayJob"),
        ("ray.io/v1", "RayJob"),
        ("ray.io/v1alpha1", "RayCluster"),
        ("ray.io/v1", "RayCluster"),
        ("serving.kserve.io/v1beta1", "InferenceService"),
        ("serving.kserve.io/v1alpha1", "LLMInferenceService"),
        ("serving.kserve.io/v1alpha2", "LLMInferenceService"),
    )
)
_DEPRECATED: Final = frozenset(
    (("dashboard.opendatahub.io/v1alpha1", "HardwareProfile"), ("dashboard.opendatahub.io/v1", "AcceleratorProfile"))
)


def review_queue_label(operation: str, obj: Object, namespace: Object | None, clusters: Iterable[Object]) -> Answer:
    """`clusters` are the DataScienceClusters there are: at most one is right."""
    kind = obj.get("kind", "")
    metadata = obj.get("metadata") or {}
    if (obj.get("apiVersion", ""), kind) not in _KINDS:
        return Answer(False, 400, message=f"unexpected kind: {kind}")
    if metadata.get("deletionTimestamp"):
        return Answer(True, message="Object marked for deletion, skipping Kueue label validation")
    if operation not in ("CREATE", "UPDATE"):
        return Answer(True, message=f"Operation {operation} on {kind} allowed")
    name = metadata.get("namespace", "")
    if namespace is None:
        problem = f'namespaces "{name}" not found'
        return Answer(False, 500, message=f'failed to check if namespace "{name}" is labeled for Kueue: {problem}')
    labels: dict[str, Any] = (namespace.get("metadata") or {}).get("labels") or {}
    if not any(labels.get(managed) == "true" for managed in _MANAGED):
        return Answer(
            True,
            message=f'Namespace "{name}" is not labeled for Kueue ("{_MANAGED[0]}"), skipping Kueue label validation',
        )
    match list(clusters):
        case []:
            return Answer(True, message="No DataScienceCluster found, skipping Kueue label validation")
        case [cluster]:
            if not _kueue_enabled(cluster):
                return Answer(True, message="Kueue is not enabled in DSC, skipping Kueue label validation")
        case several:
            return Answer(
                False,
                500,
                message=f"failed to check if Kueue is enabled: expected a single DataScienceCluster, {len(several)} found",
            )
    return _labelled(metadata.get("labels") or {}, kind, name)


def _kueue_enabled(cluster: Object) -> bool:
    components = (cluster.get("status") or {}).get("components") or {}
    return (components.get("kueue") or {}).get("managementState") in ("Managed", "Unmanaged")


def _labelled(labels: dict[str, Any], kind: str, namespace: str) -> Answer:
    failed = "Kueue label validation failed: "
    if QUEUE not in labels:
        return Answer(False, 403, "Forbidden", f'{failed}missing required label "{QUEUE}"')
    if not labels[QUEUE]:
        return Answer(False, 403, "Forbidden", f'{failed}label "{QUEUE}" is set but empty')
    return Answer(True, message=f'Kueue label validation passed for "{kind}" in namespace "{namespace}"')


def review_deprecated(operation: str, api_version: str, kind: str) -> Answer:
    """The dashboard's own HardwareProfile and AcceleratorProfile have been replaced; only deleting them is allowed."""
    shown = f"{api_version}, Kind={kind}"
    if (api_version, kind) not in _DEPRECATED:
        return Answer(False, 400, message=f"unexpected kind: {shown}")
    if operation in ("CREATE", "UPDATE"):
        group = api_version.split("/")[0]
        return Answer(
            False,
            403,
            "Forbidden",
            f"{group}/{kind} is not supported, please use infrastructure.opendatahub.io/HardwareProfile",
        )
    return Answer(True, message=f"Operation {operation} on {shown} allowed")
