"""One small job of every kind that a hub dispatches, and how its end shows in its status."""

from __future__ import annotations

from typing import Any

_CONTAINER = {
    "name": "main",
    "image": "busybox",
    "command": ["sh", "-c", "echo it ran; sleep 2"],
    "resources": {"requests": {"cpu": "100m", "memory": "10Mi"}},
}


def _pod(restart: str = "Never", name: str = "main", seconds: int = 2) -> dict[str, Any]:
    command = ["sh", "-c", f"echo it ran; sleep {seconds}"]
    return {"restartPolicy": restart, "containers": [{**_CONTAINER, "name": name, "command": command}]}


def _template(restart: str = "Never", name: str = "main", seconds: int = 2) -> dict[str, Any]:
    return {"spec": _pod(restart, name, seconds)}


def _object(api_version: str, kind: str, name: str, spec: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": {"kueue.x-k8s.io/queue-name": "user-queue", **labels},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _training(kind: str, name: str, roles: str, container: str, *replicas: str) -> dict[str, Any]:
    each = {
        role: {"replicas": 1, "restartPolicy": "Never", "template": _template("Never", container)} for role in replicas
    }
    return _object("kubeflow.org/v1", kind, name, {roles: each})


_RAY = {
    "rayVersion": "2.9.0",
    "headGroupSpec": {"rayStartParams": {}, "template": _template("Always", "head", 600)},
    "workerGroupSpecs": [
        {
            "groupName": "small",
            "replicas": 1,
            "minReplicas": 1,
            "maxReplicas": 1,
            "rayStartParams": {},
            "template": _template("Always", "worker", 600),
        }
    ],
}


def ends() -> list[tuple[str, dict[str, Any], str]]:
    """(what kubectl calls it, the object, a JSONPath condition of its end)"""
    done = "condition=Complete"
    succeeded = "condition=Succeeded"
    return [
        ("job/plain", _object("batch/v1", "Job", "plain", {"template": _template()}), done),
        (
            "jobset/set",
            _object(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                "set",
                {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {"template": _template()}}}]},
            ),
            "condition=Completed",
        ),
        (
            "pytorchjob/torch",
            _training("PyTorchJob", "torch", "pytorchReplicaSpecs", "pytorch", "Master", "Worker"),
            succeeded,
        ),
        ("tfjob/flow", _training("TFJob", "flow", "tfReplicaSpecs", "tensorflow", "Chief", "Worker"), succeeded),
        ("xgboostjob/boost", _training("XGBoostJob", "boost", "xgbReplicaSpecs", "xgboost", "Master"), succeeded),
        ("paddlejob/paddle", _training("PaddleJob", "paddle", "paddleReplicaSpecs", "paddle", "Worker"), succeeded),
        ("jaxjob/jax", _training("JAXJob", "jax", "jaxReplicaSpecs", "jax", "Worker"), succeeded),
        (
            "mpijob/mpi",
            _object(
                "kubeflow.org/v2beta1",
                "MPIJob",
                "mpi",
                {
                    "slotsPerWorker": 1,
                    "runPolicy": {},
                    "mpiReplicaSpecs": {
                        "Launcher": {"replicas": 1, "template": _template("Never", "mpi")},
                        "Worker": {"replicas": 1, "template": _template("Never", "mpi", 600)},
                    },
                },
            ),
            succeeded,
        ),
        (
            "appwrapper/wrapped",
            _object(
                "workload.codeflare.dev/v1beta2",
                "AppWrapper",
                "wrapped",
                {
                    "components": [
                        {
                            "template": {
                                "apiVersion": "batch/v1",
                                "kind": "Job",
                                "metadata": {"name": "inner", "namespace": "default"},
                                "spec": {"template": _template()},
                            }
                        }
                    ]
                },
            ),
            "jsonpath={.status.phase}=Succeeded",
        ),
        (
            "rayjob/ray",
            _object(
                "ray.io/v1",
                "RayJob",
                "ray",
                {"entrypoint": "python -c 1", "shutdownAfterJobFinishes": True, "rayClusterSpec": _RAY},
            ),
            "jsonpath={.status.jobStatus}=SUCCEEDED",
        ),
        ("pod/lone", _pod_object("lone"), "jsonpath={.status.phase}=Succeeded"),
    ]


def group(total: int) -> list[dict[str, Any]]:
    """Pods that are one workload."""
    made = [_pod_object(f"part-{number}", **{"kueue.x-k8s.io/pod-group-name": "parts"}) for number in range(total)]
    for each in made:
        each["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
    return made


def serves() -> list[tuple[str, dict[str, Any], str]]:
    """Those that do not end: (name, object, a condition of their running)."""
    return [
        (
            "raycluster/cluster",
            _object("ray.io/v1", "RayCluster", "cluster", _RAY),
            "jsonpath={.status.state}=ready",
        ),
        (
            "rayservice/svc",
            _object("ray.io/v1", "RayService", "svc", {"serveConfigV2": "applications: []", "rayClusterConfig": _RAY}),
            "condition=Ready",
        ),
        (
            "statefulset/db",
            _object(
                "apps/v1",
                "StatefulSet",
                "db",
                {
                    "replicas": 2,
                    "serviceName": "db",
                    "selector": {"matchLabels": {"app": "db"}},
                    "template": {**_template("Always", "main", 600), "metadata": {"labels": {"app": "db"}}},
                },
            ),
            "jsonpath={.metadata.name}=db",
        ),
    ]


def _pod_object(name: str, **labels: str) -> dict[str, Any]:
    return {**_object("v1", "Pod", name, {}, **labels), "spec": _pod()}
