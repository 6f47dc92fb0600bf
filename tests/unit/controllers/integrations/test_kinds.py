"""What every kind of job promises alike: held when made, started where its flavor says, stopped and as it was before."""

from typing import Any

import pytest

from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import JOBS, PODS
from gpuaas.kueue.integrations.job_set import JOB_SETS
from gpuaas.kueue.integrations.notebook import BY_KUEUE, NOTEBOOKS, STOPPED
from gpuaas.kueue.integrations.ray import CLUSTERS, RAY_JOBS, RAY_SERVICES
from gpuaas.kueue.integrations.train_job import RUNTIMES, TRAIN_JOBS
from gpuaas.kueue.integrations.training import TRAINING_KINDS
from gpuaas.testing.server import House, condition, job, template, with_label

QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
PYTORCH = TRAINING_KINDS[0].resource


def made(team: str, name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "namespace": team, "labels": {QUEUE: "lq"}}, "spec": spec}


def cluster_spec(workers: int) -> Object:
    group = {"groupName": "Workers", "replicas": workers, "minReplicas": 0, "maxReplicas": 9, "rayStartParams": {}}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": template(1)},
        "workerGroupSpecs": [{**group, "template": template(1)}],
    }


def ray_job_spec() -> Object:
    return {
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        "submitterPodTemplate": template(1),
        "rayClusterSpec": cluster_spec(1),
    }


def job_set_spec() -> Object:
    inner = {"spec": {"parallelism": 1, "completions": 1, "template": template(1)}}
    return {
        "replicatedJobs": [
            {"name": "driver", "replicas": 1, "template": inner},
            {"name": "workers", "replicas": 2, "template": inner},
        ]
    }


PYTORCH_SPEC = {
    "pytorchReplicaSpecs": {
        "Worker": {"replicas": 2, "template": template(1)},
        "Master": {"replicas": 1, "template": template(1)},
    }
}
KINDS: list[tuple[Resource, Object, dict[str, int], tuple[str, ...]]] = [
    (CLUSTERS, cluster_spec(2), {"head": 1, "workers": 2}, ("workerGroupSpecs", "0", "template")),
    (
        RAY_JOBS,
        ray_job_spec(),
        {"head": 1, "workers": 1, "submitter": 1},
        ("rayClusterSpec", "headGroupSpec", "template"),
    ),
    (
        RAY_SERVICES,
        {"rayClusterConfig": cluster_spec(2)},
        {"head": 1, "workers": 2},
        ("rayClusterConfig", "workerGroupSpecs", "0", "template"),
    ),
    (JOB_SETS, job_set_spec(), {"driver": 1, "workers": 2}, ("replicatedJobs", "1", "template", "spec", "template")),
    (PYTORCH, PYTORCH_SPEC, {"master": 1, "worker": 2}, ("pytorchReplicaSpecs", "Worker", "template")),
]


def at(obj: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        obj = obj[int(step)] if isinstance(obj, list) else obj[step]
    return obj


def suspended(obj: Object) -> bool:
    spec = obj["spec"]
    return bool((spec.get("runPolicy") or spec.get("rayClusterConfig") or spec).get("suspend"))


@pytest.mark.parametrize(("resource", "spec", "sizes", "path"), KINDS, ids=[each[0].kind for each in KINDS])
def test_a_job_of_any_kind_is_held_started_and_stopped(
    house: House, resource: Resource, spec: Object, sizes: dict[str, int], path: tuple[str, ...]
) -> None:
    team = house.team(gpus=3)
    assert suspended(house.create(resource, with_label(made(team, "work", spec), CLASS, "low")))
    workload = house.admitted(team, "work")
    assert {each["name"]: each["count"] for each in workload["spec"]["podSets"]} == sizes
    house.until(lambda: not suspended(house.get(resource, team, "work")))
    started = at(house.get(resource, team, "work")["spec"], path)
    assert started["spec"]["nodeSelector"] == {"card": "a100"}
    assert started["metadata"]["labels"]["kueue.x-k8s.io/cluster-queue-name"] == team
    house.create(JOBS, with_label(job(team, "urgent", gpus=3), CLASS, "high"))
    house.until(lambda: suspended(house.get(resource, team, "work")))
    assert "nodeSelector" not in at(house.get(resource, team, "work")["spec"], path)["spec"]
    house.admitted(team, "urgent")


def test_a_ray_cluster_that_grows_after_it_was_admitted_waits_again(house: House) -> None:
    team = house.team(gpus=3)
    house.create(CLUSTERS, made(team, "ray", cluster_spec(1)))
    first = house.admitted(team, "ray")
    house.until(lambda: not suspended(house.get(CLUSTERS, team, "ray")))
    house.patch(CLUSTERS, team, "ray", {"spec": cluster_spec(5)})
    house.until(lambda: suspended(house.get(CLUSTERS, team, "ray")))

    def replaced() -> bool:
        found = house.workload(team, "ray")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    house.until(replaced)
    house.until(lambda: condition(house.workload(team, "ray") or {}, "QuotaReserved") == "False")
    assert house.all(PODS, team) == []


def test_a_ray_cluster_is_counted_with_its_minimum(house: House) -> None:
    team = house.team(gpus=9)
    spec = cluster_spec(1)
    spec["workerGroupSpecs"][0]["minReplicas"] = 5
    house.create(CLUSTERS, made(team, "ray", spec))
    workload = house.until(lambda: house.workload(team, "ray"))
    assert [each["count"] for each in workload["spec"]["podSets"]] == [1, 5]


def test_a_train_job_is_what_its_runtime_says_with_its_own_wishes(house: House) -> None:
    team = house.team(gpus=4)
    node = {"containers": [{"name": "node", "image": "x"}], "restartPolicy": "Never"}
    replicated = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": node}},
        },
    }
    runtime = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [replicated]}}}
    trainer = {
        "numNodes": 2,
        "resourcesPerNode": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}},
    }
    ref = {"name": "torch", "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"}
    house.create(RUNTIMES, {"metadata": {"name": "torch", "namespace": team}, "spec": runtime})
    house.create(TRAIN_JOBS, made(team, "llm", {"runtimeRef": ref, "trainer": trainer}))
    workload = house.admitted(team, "llm")
    assert workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {"nvidia.com/gpu": "4"}
    house.until(lambda: not suspended(house.get(TRAIN_JOBS, team, "llm")))
    patches = house.get(TRAIN_JOBS, team, "llm")["spec"]["runtimePatches"]
    assert [each["manager"] for each in patches] == ["kueue.x-k8s.io/manager"]
    patch = patches[0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    assert patch["name"] == "node"
    assert patch["template"]["spec"]["template"]["spec"]["nodeSelector"] == {"card": "a100"}


def test_amounts_of_a_custom_kind_may_be_numbers_and_are_kept_as_kubernetes_writes_them(house: House) -> None:
    team = house.team()
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}}}
    pods = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    created = house.create(PYTORCH, made(team, "half", {"pytorchReplicaSpecs": {"Worker": {"template": pods}}}))
    asked = created["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"]
    assert asked == {"requests": {"cpu": "500m", "memory": "1Gi"}}


def test_workers_of_an_mpi_job_come_after_a_launcher_that_works_too(house: House) -> None:
    mpi = TRAINING_KINDS[-1].resource
    team = house.team()
    roles = {"Launcher": {"template": template(1)}, "Worker": {"template": template(1)}}
    for name, spec, offset in (("with", {"runLauncherAsWorker": True}, "1"), ("without", {}, None)):
        obj = made(team, name, {**spec, "mpiReplicaSpecs": roles})
        obj["metadata"].pop("labels")
        worker = house.create(mpi, obj)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
        notes = (worker.get("metadata") or {}).get("annotations") or {}
        assert notes.get("kueue.x-k8s.io/pod-index-offset") == offset


def test_a_train_job_whose_runtime_is_not_there_is_refused(house: House) -> None:
    team = house.team()
    ref = {"name": "nowhere", "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"}
    said = house.refusal(lambda: house.create(TRAIN_JOBS, made(team, "llm", {"runtimeRef": ref})))
    assert said == "admission webhook \"vtrainjob.kb.io\" denied the request: runtime 'nowhere' not found"


def test_the_trainer_gives_every_job_a_pod_whatever_its_runtime_says(house: House) -> None:
    team = house.team(gpus=4)
    pod = {"template": {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}}
    jobs = [
        {"name": name, "template": {"spec": {**pod, **counts}}}
        for name, counts in (("none", {"parallelism": 0, "completions": 0}), ("some", {"parallelism": 3}))
    ]
    spec = {"template": {"spec": {"replicatedJobs": jobs}}}
    house.create(RUNTIMES, {"metadata": {"name": "odd", "namespace": team}, "spec": spec})
    ref = {"name": "odd", "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"}
    house.create(TRAIN_JOBS, made(team, "llm", {"runtimeRef": ref}))
    workload = house.until(lambda: house.workload(team, "llm"))
    assert {each["name"]: each["count"] for each in workload["spec"]["podSets"]} == {"none": 1, "some": 3}


def test_a_notebook_runs_when_admitted_and_holds_nothing_while_its_user_rests(house: House) -> None:
    team = house.team(gpus=1)
    made_ = house.create(NOTEBOOKS, made(team, "nb", {"template": template(1, restartPolicy="Always")}))
    assert made_["metadata"]["annotations"][STOPPED] == BY_KUEUE
    name = house.admitted(team, "nb")["metadata"]["name"]
    house.until(lambda: STOPPED not in (house.get(NOTEBOOKS, team, "nb")["metadata"].get("annotations") or {}))
    house.until(lambda: house.find(PODS, team, "nb-0"))
    assert house.get(PODS, team, "nb-0")["spec"]["nodeSelector"] == {"card": "a100"}
    house.patch(NOTEBOOKS, team, "nb", {"metadata": {"annotations": {STOPPED: "2026-01-01T00:00:00Z"}}})
    house.until(lambda: condition(house.get(WORKLOADS, team, name), "QuotaReserved") == "False")
    house.until(lambda: "nodeSelector" not in house.get(NOTEBOOKS, team, "nb")["spec"]["template"]["spec"])
    house.until(lambda: house.find(PODS, team, "nb-0") is None)
    house.patch(NOTEBOOKS, team, "nb", {"metadata": {"annotations": {STOPPED: None}}})
    house.until(lambda: condition(house.get(WORKLOADS, team, name), "Admitted") == "True")
    house.until(lambda: house.find(PODS, team, "nb-0"))


def test_a_notebook_that_must_wait_has_no_pod(house: House) -> None:
    team = house.team(gpus=0)
    house.create(NOTEBOOKS, made(team, "nb", {"template": template(1, restartPolicy="Always")}))
    house.until(lambda: house.workload(team, "nb"))
    house.settled()
    assert house.get(NOTEBOOKS, team, "nb")["metadata"]["annotations"][STOPPED] == BY_KUEUE
    assert house.all(PODS, team) == []
