"""OpenShift's Kueue object (`kueues.kueue.openshift.io`, the one named cluster) as a `Configuration`.

Its operator writes Kueue's Configuration file from it; so do we, and read that. What the object cannot say stays as the
file has it. Where it says nothing of `labelPolicy`, jobs without a queue are held in labelled namespaces as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuaas.engine.config import BOTH_STRATEGIES
from gpuaas.kueue.configuration.file import BETA2, Reading, configuration_of
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.integrations.config import MANAGED_NAMESPACE

View = Mapping[str, Any]

_FRAMEWORKS = {
    "BatchJob": "batch/job",
    "RayJob": "ray.io/rayjob",
    "RayCluster": "ray.io/raycluster",
    "RayService": "ray.io/rayservice",
    "JobSet": "jobset.x-k8s.io/jobset",
    "MPIJob": "kubeflow.org/mpijob",
    "PaddleJob": "kubeflow.org/paddlejob",
    "PyTorchJob": "kubeflow.org/pytorchjob",
    "TFJob": "kubeflow.org/tfjob",
    "TrainJob": "trainer.kubeflow.org/trainjob",
    "XGBoostJob": "kubeflow.org/xgboostjob",
    "JaxJob": "kubeflow.org/jaxjob",
    "AppWrapper": "workload.codeflare.dev/appwrapper",
    "Pod": "pod",
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/leaderworkerset",
    "SparkApplication": "sparkoperator.k8s.io/sparkapplication",
}


def follow(kueue: View, configured: Configured) -> tuple[str, ...]:
    """What the object says is in force from now on; gives the warnings. Raises ConfigurationError, changing nothing."""
    if (kueue.get("spec") or {}).get("managementState") in ("Unmanaged", "Removed"):
        return ()
    reading = from_kueue_object(kueue, configured.started_with)
    configured.become(reading.configuration)
    return reading.warnings


def from_kueue_object(kueue: View, started_with: Configuration) -> Reading:
    """`started_with`: what the file says, for all that the object cannot."""
    config = (kueue.get("spec") or {}).get("config") or {}
    reading = configuration_of(_document(config))
    made = reading.configuration
    file = started_with.jobs
    copied = (*made.jobs.label_keys_to_copy, *started_with.metrics.custom.copied(annotations=False))
    policy = (config.get("workloadManagement") or {}).get("labelPolicy") or ""
    jobs = replace(
        made.jobs,
        manage_labelled=policy != "QueueName",
        delete_deactivated_after=file.delete_deactivated_after,
        label_keys_to_copy=tuple(dict.fromkeys(copied)),
        annotation_keys_to_copy=file.annotation_keys_to_copy,
        default_class=file.default_class,
        checks_whoever_was_held=file.checks_whoever_was_held,
        elastic=file.elastic,
    )
    engine = replace(
        made.engine,
        ignore_undeclared=started_with.engine.ignore_undeclared,
        preemptors_first=started_with.engine.preemptors_first,
        balanced=started_with.engine.balanced,
        looks_again=started_with.engine.looks_again,
    )
    metrics = replace(started_with.metrics, cluster_queue_resources=True)
    whole = replace(started_with, jobs=jobs, engine=engine, ready=made.ready, metrics=metrics)
    return replace(reading, configuration=replace(whole, requeue_by_creation=made.requeue_by_creation))


def _document(config: View) -> dict[str, Any]:
    """The file the operator would write."""
    integrations = config.get("integrations") or {}
    document: dict[str, Any] = {
        "apiVersion": BETA2,
        "kind": "Configuration",
        "managedJobsNamespaceSelector": {"matchLabels": {MANAGED_NAMESPACE: "true"}},
        "manageJobsWithoutQueueName": (config.get("workloadManagement") or {}).get("labelPolicy") == "None",
        "integrations": {
            "frameworks": [_FRAMEWORKS.get(name, name) for name in integrations.get("frameworks") or ()],
            "labelKeysToCopy": [each["key"] for each in integrations.get("labelKeysToCopy") or ()],
            "externalFrameworks": [
                f"{each['resource']}.{each['version']}.{each['group']}"
                for each in integrations.get("externalFrameworks") or ()
            ]
            or None,
        },
        "waitForPodsReady": _pods_ready(config.get("gangScheduling") or {}),
        "admissionFairSharing": _usage_sharing(config.get("admissionFairSharing") or {}),
        "multiKueue": config.get("multiKueue"),
        "resources": config.get("resources") or None,
    }
    if (config.get("preemption") or {}).get("preemptionPolicy") == "FairSharing":
        document["fairSharing"] = {"preemptionStrategies": list(BOTH_STRATEGIES)}
    return document


def _pods_ready(gang: View) -> dict[str, Any] | None:
    match gang.get("policy"):
        case "None":
            return {"timeout": "8760h", "blockAdmission": False}
        case "ByWorkload":
            said = gang.get("byWorkload") or {}
            requeuing = said.get("requeuingStrategy") or {}
            return {
                "blockAdmission": said.get("admission") == "Sequential",
                "timeout": _duration(said.get("timeoutSeconds")),
                "recoveryTimeout": _duration(said.get("recoveryTimeoutSeconds")),
                "requeuingStrategy": {
                    "timestamp": requeuing.get("timeReference"),
                    "backoffLimitCount": requeuing.get("retryLimit"),
                    "backoffBaseSeconds": requeuing.get("backoffBaseSeconds"),
                    "backoffMaxSeconds": requeuing.get("backoffMaxSeconds"),
                },
            }
        case _:
            return None


def _usage_sharing(said: View) -> dict[str, Any] | None:
    match said.get("configuration"):
        case "Default":
            return {"usageHalfLifeTime": "30m"}
        case "Custom":
            custom = said.get("custom") or {}
            return {
                "usageHalfLifeTime": _duration(custom.get("usageHalfLifeTimeSeconds")),
                "usageSamplingInterval": _duration(custom.get("usageSamplingIntervalSeconds")),
                "resourceWeights": {
                    each["name"]: float(each["weight"]) for each in custom.get("resourceWeights") or ()
                },
            }
        case _:
            return None


def _duration(seconds: int | None) -> str | None:
    return None if seconds is None else f"{seconds}s"
