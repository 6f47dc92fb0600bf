"""What Ray clusters, notebooks, job sets and training jobs become, on simulated nodes and in virtual time."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, NODES, PODS, SERVICES, STATEFUL_SETS
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.controllers.job_sets import JOB_SETS, JobSetController
from gpuaas.controllers.jobs import JobController
from gpuaas.controllers.notebooks import NOTEBOOKS, NotebookController
from gpuaas.controllers.pod_scheduler import PodScheduler
from gpuaas.controllers.ray_clusters import RayClusterController
from gpuaas.controllers.ray_clusters.pods import RAY_CLUSTERS
from gpuaas.controllers.ray_jobs import RAY_JOBS, RayJobController
from gpuaas.controllers.ray_services import RAY_SERVICES, RayServiceController
from gpuaas.controllers.stateful_sets import StatefulSetController
from gpuaas.controllers.training_jobs import KINDS, TRAINING_CONTROLLERS
from gpuaas.executors.nodes import NodeSpec, node_object
from gpuaas.executors.simulated import SimulatedKubelet
from gpuaas.runtime.controller import Controller, Deps
from gpuaas.runtime.metadata import labels_of
from gpuaas.runtime.pods import condition_of
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.time import Stage, scenario, stage

GPU = "nvidia.com/gpu"
SPECS = [NodeSpec("n", cpu="64", memory="256Gi", gpu_count=8)]
CUSTOM = (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, NOTEBOOKS, JOB_SETS, *(one.resource for one in KINDS))
PYTORCH = KINDS[0].resource


def kubelet(deps: Deps) -> Controller:
    return SimulatedKubelet(deps, SPECS)


class Server(FakeCluster):
    """Fills in, as the real server does, by what labels a job knows its pods."""

    async def create(self, resource: Resource, obj: Any, namespace: str = "", **options: Any) -> Any:
        if resource == JOBS and not options.get("subresource"):
            labels = {"job-name": obj["metadata"]["name"]}
            pod = obj["spec"]["template"]
            meta = pod.get("metadata") or {}
            pod = {**pod, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}}}
            defaults = {"parallelism": 1, "completions": 1, "backoffLimit": 6}
            obj = {**obj, "spec": {**defaults, **obj["spec"], "selector": {"matchLabels": labels}, "template": pod}}
        return await super().create(resource, obj, namespace, **options)


def world(*controllers: Callable[[Deps], Controller]) -> AbstractAsyncContextManager[Stage]:
    cluster = Server(resources=(*BUILT_IN, *CUSTOM))
    cluster.put(NODES, node_object(SPECS[0], cluster.clock.now()))
    return stage(PodScheduler, kubelet, GarbageCollector, *controllers, cluster=cluster)


def template(command: str = "", *, gpu: int = 0, policy: str = "") -> Any:
    container: Any = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    if gpu:
        container["resources"]["requests"][GPU] = str(gpu)
    if command:
        container["command"] = ["sh", "-c", command]
    return {"spec": {"containers": [container], **({"restartPolicy": policy} if policy else {})}}


def named(name: str, spec: Any, **annotations: str) -> Any:
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    return {"metadata": {"name": name, "namespace": "default", "annotations": notes}, "spec": spec}


def names(on: Stage, resource: Resource) -> list[str]:
    return [one["metadata"]["name"] for one in on.cluster.all(resource, "default")]


def status(on: Stage, resource: Resource, name: str) -> Any:
    return on.cluster.read(resource, name, "default").get("status", {})


def holds(on: Stage, resource: Resource, name: str, kind: str) -> bool:
    found = condition_of(on.cluster.read(resource, name, "default"), kind)
    return found is not None and found["status"] == "True"


def ray_spec(replicas: int = 2) -> Any:
    group = {
        "groupName": "small",
        "replicas": replicas,
        "minReplicas": 0,
        "maxReplicas": 4,
        "template": template(gpu=1),
    }
    return {"headGroupSpec": {"rayStartParams": {}, "template": template()}, "workerGroupSpecs": [group]}


async def change(on: Stage, resource: Resource, name: str, patch: Any) -> None:
    await on.cluster.patch(resource, name, patch, "default")
    await on.advance(5)


@scenario
async def test_a_ray_cluster_has_a_head_workers_and_a_service_and_says_when_it_is_ready() -> None:
    async with world(RayClusterController) as on:
        on.cluster.put(RAY_CLUSTERS, named("ray", ray_spec()))
        await on.advance(5)
        head, *workers = on.cluster.all(PODS, "default")
        assert head["metadata"]["name"] == "ray-head"
        assert all(one["metadata"]["name"].startswith("ray-small-worker-") for one in workers)
        assert labels_of(workers[0])["ray.io/cluster"] == "ray"
        assert labels_of(workers[0])["ray.io/node-type"] == "worker"
        assert labels_of(workers[0])["ray.io/group"] == "small"
        assert names(on, SERVICES) == ["ray-head-svc"]
        found = status(on, RAY_CLUSTERS, "ray")
        assert (found["state"], found["desiredWorkerReplicas"], found["availableWorkerReplicas"]) == ("ready", 2, 2)
        assert (found["desiredCPU"], found["desiredGPU"]) == ("3", "2")
        assert found["head"]["podName"] == "ray-head"
        assert holds(on, RAY_CLUSTERS, "ray", "RayClusterProvisioned")
        assert holds(on, RAY_CLUSTERS, "ray", "HeadPodReady")


@scenario
async def test_a_suspended_ray_cluster_is_ready_until_its_pods_have_gone_and_comes_back() -> None:
    async with world(RayClusterController) as on:
        on.cluster.put(RAY_CLUSTERS, named("ray", ray_spec()))
        await on.advance(5)
        await change(on, RAY_CLUSTERS, "ray", {"spec": {"suspend": True}})
        assert names(on, PODS) == []
        assert status(on, RAY_CLUSTERS, "ray")["state"] == "suspended"
        assert holds(on, RAY_CLUSTERS, "ray", "RayClusterSuspended")
        assert "Normal DeletedPod raycluster/ray Deleted Pods for RayCluster default/ray due to suspension" in (
            on.cluster.events()
        )
        await change(on, RAY_CLUSTERS, "ray", {"spec": {"suspend": False}})
        assert len(names(on, PODS)) == 3
        assert status(on, RAY_CLUSTERS, "ray")["state"] == "ready"
        assert not holds(on, RAY_CLUSTERS, "ray", "RayClusterSuspended")


@scenario
async def test_a_ray_cluster_that_begins_suspended_has_its_service_and_says_so() -> None:
    async with world(RayClusterController) as on:
        on.cluster.put(RAY_CLUSTERS, named("ray", {**ray_spec(), "suspend": True}))
        await on.advance(5)
        assert (names(on, PODS), names(on, SERVICES)) == ([], ["ray-head-svc"])
        said = "Normal DeletedPod raycluster/ray Deleted Pods for RayCluster default/ray due to suspension"
        assert on.cluster.events().count(said) == 1
        assert status(on, RAY_CLUSTERS, "ray")["state"] == "suspended"


@pytest.mark.parametrize(("replicas", "expected"), [(0, 0), (4, 4), (9, 4)], ids=["fewer", "more", "above the most"])
@scenario
async def test_worker_groups_grow_and_shrink(replicas: int, expected: int) -> None:
    async with world(RayClusterController) as on:
        on.cluster.put(RAY_CLUSTERS, named("ray", ray_spec()))
        await on.advance(5)
        spec = ray_spec(replicas)
        await change(on, RAY_CLUSTERS, "ray", {"spec": {"workerGroupSpecs": spec["workerGroupSpecs"]}})
        assert len(names(on, PODS)) == 1 + expected


def conditions(found: Any) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}


@scenario
async def test_a_ray_service_brings_a_cluster_and_serves_once_that_is_ready() -> None:
    async with world(RayClusterController, RayServiceController) as on:
        on.cluster.put(RAY_SERVICES, named("serve", {"rayClusterConfig": ray_spec(1)}))
        await on.settle()
        assert conditions(status(on, RAY_SERVICES, "serve"))["Ready"] == ("False", "Initializing")
        await on.advance(5)
        found = status(on, RAY_SERVICES, "serve")
        assert conditions(found)["Ready"] == ("True", "NonZeroServeEndpoints")
        assert (found["serviceStatus"], found["numServeEndpoints"]) == ("Running", 2)
        assert names(on, RAY_CLUSTERS) == [found["activeServiceStatus"]["rayClusterName"]]
        assert "serve-serve-svc" in names(on, SERVICES)


@scenario
async def test_a_ray_service_is_resized_in_place_and_otherwise_moves_to_a_new_cluster() -> None:
    async with world(RayClusterController, RayServiceController) as on:
        on.cluster.put(RAY_SERVICES, named("serve", {"rayClusterConfig": ray_spec(1)}))
        await on.advance(5)
        (first,) = names(on, RAY_CLUSTERS)
        groups = ray_spec(2)["workerGroupSpecs"]
        await change(on, RAY_SERVICES, "serve", {"spec": {"rayClusterConfig": {"workerGroupSpecs": groups}}})
        assert names(on, RAY_CLUSTERS) == [first]
        assert len(names(on, PODS)) == 3
        await change(on, RAY_SERVICES, "serve", {"spec": {"rayClusterConfig": {"rayVersion": "2.50"}}})
        await on.advance(5)
        (second,) = names(on, RAY_CLUSTERS)
        assert second != first
        assert status(on, RAY_SERVICES, "serve")["activeServiceStatus"]["rayClusterName"] == second
        assert on.cluster.read(SERVICES, "serve-serve-svc", "default")["spec"]["selector"] == {"ray.io/cluster": second}


@scenario
async def test_a_suspended_ray_service_keeps_its_cluster_without_pods() -> None:
    async with world(RayClusterController, RayServiceController) as on:
        on.cluster.put(RAY_SERVICES, named("serve", {"rayClusterConfig": ray_spec(1)}))
        await on.advance(5)
        clusters = names(on, RAY_CLUSTERS)
        await change(on, RAY_SERVICES, "serve", {"spec": {"rayClusterConfig": {"suspend": True, "rayVersion": "3"}}})
        assert (names(on, PODS), names(on, RAY_CLUSTERS)) == ([], clusters)
        assert conditions(status(on, RAY_SERVICES, "serve"))["Ready"] == ("False", "ZeroServeEndpoints")
        await change(on, RAY_SERVICES, "serve", {"spec": {"rayClusterConfig": {"suspend": False}}})
        assert (len(names(on, PODS)), names(on, RAY_CLUSTERS)) == (2, clusters)


@scenario
async def test_a_ray_job_brings_a_cluster_submits_and_takes_it_away() -> None:
    async with world(RayClusterController, RayJobController, JobController) as on:
        spec = {"entrypoint": "sleep 20", "shutdownAfterJobFinishes": True, "rayClusterSpec": ray_spec(1)}
        on.cluster.put(RAY_JOBS, named("train", spec))
        await on.advance(10)
        found = status(on, RAY_JOBS, "train")
        assert (found["jobDeploymentStatus"], found["jobStatus"]) == ("Running", "RUNNING")
        assert names(on, RAY_CLUSTERS) == [found["rayClusterName"]]
        await on.advance(30)
        found = status(on, RAY_JOBS, "train")
        assert (found["jobDeploymentStatus"], found["jobStatus"]) == ("Complete", "SUCCEEDED")
        assert names(on, RAY_CLUSTERS) == []


@scenario
async def test_a_ray_job_that_takes_too_long_has_failed() -> None:
    async with world(RayClusterController, RayJobController, JobController) as on:
        spec = {"entrypoint": "sleep 100", "shutdownAfterJobFinishes": True, "rayClusterSpec": ray_spec(1)}
        on.cluster.put(RAY_JOBS, named("train", {**spec, "activeDeadlineSeconds": 30}))
        await on.advance(29)
        assert status(on, RAY_JOBS, "train")["jobDeploymentStatus"] == "Running"
        await on.advance(5)
        found = status(on, RAY_JOBS, "train")
        assert (found["jobDeploymentStatus"], found["reason"]) == ("Failed", "DeadlineExceeded")
        assert found["message"] == (
            "The RayJob has passed the activeDeadlineSeconds. StartTime: 2026-01-01 00:00:00 +0000 UTC. ActiveDeadlineSeconds: 30"
        )
        assert names(on, RAY_CLUSTERS) == names(on, JOBS) == []


@scenario
async def test_a_ray_job_may_have_to_run_by_a_certain_time() -> None:
    async with world(RayJobController) as on:
        spec = {"rayClusterSpec": ray_spec(1), "preRunningDeadlineSeconds": 30}
        on.cluster.put(RAY_JOBS, named("train", spec))
        await on.advance(29)
        assert status(on, RAY_JOBS, "train")["jobDeploymentStatus"] == "Initializing"
        await on.advance(5)
        found = status(on, RAY_JOBS, "train")
        assert (found["jobDeploymentStatus"], found["reason"]) == ("Failed", "PreRunningDeadlineExceeded")


@scenario
async def test_a_ray_job_that_failed_is_tried_again_with_a_new_cluster() -> None:
    async with world(RayClusterController, RayJobController, JobController) as on:
        tries = {"submitterConfig": {"backoffLimit": 0}}
        spec = {"entrypoint": "sleep 5; exit 1", "rayClusterSpec": ray_spec(1), "backoffLimit": 1}
        on.cluster.put(RAY_JOBS, named("train", spec | tries))
        await on.advance(1)
        first = status(on, RAY_JOBS, "train")["rayClusterName"]
        await on.advance(60)
        found = status(on, RAY_JOBS, "train")
        assert (found["jobDeploymentStatus"], found["jobStatus"], found["failed"]) == ("Failed", "FAILED", 2)
        assert names(on, RAY_CLUSTERS) == [found["rayClusterName"]] != [first]


@scenario
async def test_a_ray_job_that_was_too_late_is_not_tried_again() -> None:
    async with world(RayClusterController, RayJobController, JobController) as on:
        spec = {"entrypoint": "sleep 100", "rayClusterSpec": ray_spec(1), "activeDeadlineSeconds": 30}
        on.cluster.put(RAY_JOBS, named("train", {**spec, "backoffLimit": 3}))
        await on.advance(60)
        found = status(on, RAY_JOBS, "train")
        assert (found["jobDeploymentStatus"], found["failed"]) == ("Failed", 1)


@scenario
async def test_a_ray_job_that_cannot_be_run_says_why() -> None:
    async with world(RayJobController) as on:
        on.cluster.put(RAY_JOBS, named("train", {"submissionMode": "HTTPMode", "rayClusterSpec": ray_spec(1)}))
        await on.settle()
        found = status(on, RAY_JOBS, "train")
        assert found["jobDeploymentStatus"] == "ValidationFailed"
        assert "spec.submissionMode HTTPMode" in found["message"]


@scenario
async def test_a_notebook_runs_until_it_is_stopped_and_again_when_it_is_not() -> None:
    async with world(NotebookController, StatefulSetController) as on:
        on.cluster.put(NOTEBOOKS, named("nb", {"template": template(gpu=1)}))
        await on.advance(5)
        assert names(on, PODS) == ["nb-0"]
        assert names(on, SERVICES) == ["nb"]
        assert status(on, NOTEBOOKS, "nb")["readyReplicas"] == 1
        assert "running" in status(on, NOTEBOOKS, "nb")["containerState"]
        stopped = {"metadata": {"annotations": {"kubeflow-resource-stopped": "2026-01-01T00:00:00Z"}}}
        await change(on, NOTEBOOKS, "nb", stopped)
        assert names(on, PODS) == []
        assert on.cluster.read(STATEFUL_SETS, "nb", "default")["spec"]["replicas"] == 0
        assert status(on, NOTEBOOKS, "nb")["readyReplicas"] == 0
        await change(on, NOTEBOOKS, "nb", {"metadata": {"annotations": {"kubeflow-resource-stopped": None}}})
        assert names(on, PODS) == ["nb-0"]


@scenario
async def test_where_a_notebook_may_run_reaches_its_pod() -> None:
    async with world(NotebookController, StatefulSetController) as on:
        on.cluster.put(NOTEBOOKS, named("nb", {"template": template()}, kubeflow_resource_stopped="by hand"))
        await on.advance(1)
        spec = {**template()["spec"], "nodeSelector": {"kubernetes.io/hostname": "n"}}
        start = {"metadata": {"annotations": {"kubeflow-resource-stopped": None}}, "spec": {"template": {"spec": spec}}}
        await change(on, NOTEBOOKS, "nb", start)
        assert on.cluster.read(PODS, "nb-0", "default")["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "n"}


def job_template(command: str) -> Any:
    return {"spec": {"backoffLimit": 0, "template": template(command, policy="Never")}}


def set_spec(command: str, **more: Any) -> Any:
    return {"replicatedJobs": [{"name": "w", "replicas": 2, "template": job_template(command)}], **more}


@scenario
async def test_a_job_set_is_complete_when_all_its_jobs_are() -> None:
    async with world(JobSetController, JobController) as on:
        on.cluster.put(JOB_SETS, named("js", set_spec("sleep 10")))
        await on.advance(5)
        assert names(on, JOBS) == ["js-w-0", "js-w-1"]
        assert labels_of(on.cluster.read(JOBS, "js-w-1", "default"))["jobset.sigs.k8s.io/job-index"] == "1"
        (part,) = status(on, JOB_SETS, "js")["replicatedJobsStatus"]
        assert (part["active"], part["ready"], part["succeeded"]) == (2, 2, 0)
        await on.advance(10)
        assert status(on, JOB_SETS, "js")["terminalState"] == "Completed"
        assert holds(on, JOB_SETS, "js", "Completed")


@scenario
async def test_the_jobs_of_a_set_are_indexed_and_try_again_in_place_unless_it_says_otherwise() -> None:
    async with world(JobSetController, JobController) as on:
        plain = {"spec": {"template": template("sleep 10")}}
        said = {"spec": {"completionMode": "NonIndexed", "template": template("sleep 10", policy="Never")}}
        parts = [{"name": "plain", "template": plain}, {"name": "said", "template": said}]
        on.cluster.put(JOB_SETS, named("js", {"replicatedJobs": parts}))
        await on.settle()
        jobs = {name: on.cluster.read(JOBS, name, "default")["spec"] for name in names(on, JOBS)}
        shown = {
            name: (spec["completionMode"], spec["template"]["spec"]["restartPolicy"]) for name, spec in jobs.items()
        }
        assert shown == {"js-plain-0": ("Indexed", "OnFailure"), "js-said-0": ("NonIndexed", "Never")}


@scenario
async def test_a_job_set_starts_again_as_often_as_it_may_and_then_fails() -> None:
    async with world(JobSetController, JobController) as on:
        on.cluster.put(JOB_SETS, named("js", set_spec("sleep 1; exit 1", failurePolicy={"maxRestarts": 1})))
        await on.advance(60)
        found = status(on, JOB_SETS, "js")
        assert (found["restarts"], found["terminalState"]) == (1, "Failed")
        condition = condition_of(on.cluster.read(JOB_SETS, "js", "default"), "Failed")
        assert condition is not None
        assert condition["message"] == "jobset failed due to reaching max number of restarts"


@scenario
async def test_a_suspended_job_set_runs_nothing() -> None:
    async with world(JobSetController, JobController) as on:
        on.cluster.put(JOB_SETS, named("js", set_spec("sleep 100", suspend=True)))
        await on.advance(5)
        assert names(on, JOBS) == []
        await change(on, JOB_SETS, "js", {"spec": {"suspend": False}})
        assert len(names(on, PODS)) == 2
        await change(on, JOB_SETS, "js", {"spec": {"suspend": True}})
        assert names(on, PODS) == []
        assert holds(on, JOB_SETS, "js", "Suspended")


def torch(command: str, **more: Any) -> Any:
    role = {"replicas": 1, "restartPolicy": "Never", "template": template(command)}
    return {"pytorchReplicaSpecs": {"Master": role, "Worker": {**role, "replicas": 2}}, "runPolicy": more}


@scenario
async def test_a_training_job_succeeds_with_its_master() -> None:
    async with world(*TRAINING_CONTROLLERS) as on:
        on.cluster.put(PYTORCH, named("pt", torch("sleep 10")))
        await on.advance(5)
        assert names(on, PODS) == ["pt-master-0", "pt-worker-0", "pt-worker-1"]
        assert holds(on, PYTORCH, "pt", "Running")
        assert status(on, PYTORCH, "pt")["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 2}}
        environment = on.cluster.read(PODS, "pt-worker-1", "default")["spec"]["containers"][0]["env"]
        values = {one["name"]: one["value"] for one in environment}
        assert (values["RANK"], values["WORLD_SIZE"], values["MASTER_ADDR"]) == ("2", "3", "pt-master-0")
        await on.advance(10)
        assert holds(on, PYTORCH, "pt", "Succeeded")
        assert not holds(on, PYTORCH, "pt", "Running")


@scenario
async def test_a_training_job_fails_with_words_and_a_suspended_one_has_no_pods() -> None:
    async with world(*TRAINING_CONTROLLERS) as on:
        on.cluster.put(PYTORCH, named("bad", torch("sleep 1; exit 2")))
        on.cluster.put(PYTORCH, named("held", torch("sleep 1000", suspend=True)))
        await on.advance(10)
        condition = condition_of(on.cluster.read(PYTORCH, "bad", "default"), "Failed")
        assert condition is not None
        assert condition["message"] == "PyTorchJob bad is failed because 1 Master replica(s) failed."
        assert [name for name in names(on, PODS) if name.startswith("held")] == []
        assert holds(on, PYTORCH, "held", "Suspended")
        await change(on, PYTORCH, "held", {"spec": {"runPolicy": {"suspend": False}}})
        assert holds(on, PYTORCH, "held", "Running")
        await change(on, PYTORCH, "held", {"spec": {"runPolicy": {"suspend": True}}})
        assert [name for name in names(on, PODS) if name.startswith("held")] == []
