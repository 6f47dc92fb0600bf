"""What AppWrappers promise: what they wrap is made when they are let go, and gone when they are stopped."""

from typing import Any

import pytest

from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import CONFIG_MAPS, JOBS, PODS
from gpuaas.kueue.integrations.app_wrapper import APP_WRAPPERS, inferred, value_at
from gpuaas.testing.server import House, condition, template

QUEUE = "kueue.x-k8s.io/queue-name"


def wrapper(team: str, *templates: Object, **notes: str) -> Object:
    annotations = {f"workload.codeflare.dev.appwrapper/{key}": value for key, value in notes.items()}
    metadata = {"name": "both", "namespace": team, "labels": {QUEUE: "lq"}, "annotations": annotations}
    return {"metadata": metadata, "spec": {"components": [{"template": each} for each in templates]}}


def wrapped_job(gpus: int = 1) -> Object:
    spec = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template(gpus)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}, "spec": spec}


SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}


def phase(house: House, team: str) -> str:
    return str((house.get(APP_WRAPPERS, team, "both").get("status") or {}).get("phase"))


def end(house: House, team: str, how: str) -> None:
    for pod in house.all(PODS, team):
        house.patch(PODS, team, pod["metadata"]["name"], {"status": {"phase": how}}, subresource="status")


def test_what_it_wraps_is_made_once_it_is_admitted(house: House) -> None:
    team = house.team()
    assert house.create(APP_WRAPPERS, wrapper(team, wrapped_job(), SETTINGS))["spec"]["suspend"]
    workload = house.admitted(team, "both")
    assert [(each["name"], each["count"]) for each in workload["spec"]["podSets"]] == [("both-0", 2)]
    job = house.until(lambda: house.find(JOBS, team, "inner"))
    assert not job["spec"].get("suspend"), "its wrapper has waited for it"
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"card": "a100"}
    house.until(lambda: house.find(CONFIG_MAPS, team, "settings"))
    house.until(lambda: len(house.all(PODS, team)) == 2)
    assert len(house.all(WORKLOADS, team)) == 1
    end(house, team, "Succeeded")
    house.until(lambda: phase(house, team) == "Succeeded")
    house.until(lambda: condition(house.workload(team, "both") or {}, "Finished") == "True")


def test_stopped_it_takes_everything_back(house: House) -> None:
    team = house.team()
    house.create(APP_WRAPPERS, wrapper(team, wrapped_job(), SETTINGS))
    house.until(lambda: house.find(JOBS, team, "inner") and house.find(CONFIG_MAPS, team, "settings"))
    name = house.admitted(team, "both")["metadata"]["name"]
    house.patch(WORKLOADS, team, name, {"spec": {"active": False}})
    house.until(lambda: phase(house, team) == "Suspended" and house.get(APP_WRAPPERS, team, "both")["spec"]["suspend"])
    assert house.find(JOBS, team, "inner") is None
    assert house.find(CONFIG_MAPS, team, "settings") is None
    assert "podSetInfos" not in house.get(APP_WRAPPERS, team, "both")["spec"]["components"][0]


def test_deleted_it_takes_everything_with_it(house: House) -> None:
    team = house.team()
    house.create(APP_WRAPPERS, wrapper(team, wrapped_job(), SETTINGS))
    house.until(lambda: house.find(JOBS, team, "inner") and house.find(CONFIG_MAPS, team, "settings"))
    house.delete(APP_WRAPPERS, team, "both")
    house.until(lambda: house.find(APP_WRAPPERS, team, "both") is None)
    assert (house.all(JOBS, team), house.find(CONFIG_MAPS, team, "settings")) == ([], None)


def test_it_fails_with_what_it_wraps_once_it_may_not_try_again(house: House) -> None:
    team = house.team()
    house.create(APP_WRAPPERS, wrapper(team, wrapped_job(), retryLimit="0"))
    house.until(lambda: len(house.all(PODS, team)) == 2)
    end(house, team, "Failed")
    house.until(lambda: phase(house, team) == "Failed")
    house.until(lambda: house.find(JOBS, team, "inner") is None)


def test_it_does_not_take_what_is_somebody_elses(house: House) -> None:
    team = house.team()
    house.create(CONFIG_MAPS, {**SETTINGS, "metadata": {"name": "settings", "namespace": team}})
    house.create(APP_WRAPPERS, wrapper(team, wrapped_job(), SETTINGS))
    house.until(lambda: phase(house, team) == "Failed")
    house.until(lambda: house.find(JOBS, team, "inner") is None)
    assert house.find(CONFIG_MAPS, team, "settings") is not None


POD: Any = {"spec": {"containers": []}}
KNOWN: dict[str, tuple[str, str, Any, list[tuple[str, int]]]] = {
    "a pod": ("v1", "Pod", {}, [("template", 1)]),
    "a deployment": ("apps/v1", "Deployment", {"replicas": 3}, [("template.spec.template", 3)]),
    "a job": ("batch/v1", "Job", {"parallelism": 4, "completions": 2}, [("template.spec.template", 2)]),
    "a job set": (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3}}}]},
        [("template.spec.replicatedJobs[0].template.spec.template", 6)],
    ),
    "a training job": (
        "kubeflow.org/v1",
        "PyTorchJob",
        {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": POD}}},
        [("template.spec.pytorchReplicaSpecs.Worker.template", 2)],
    ),
    "a Ray cluster": (
        "ray.io/v1",
        "RayCluster",
        {"workerGroupSpecs": [{"replicas": 2}]},
        [("template.spec.headGroupSpec.template", 1), ("template.spec.workerGroupSpecs[0].template", 2)],
    ),
    "something else": ("v1", "ConfigMap", {}, []),
}


@pytest.mark.parametrize(("version", "kind", "spec", "expected"), KNOWN.values(), ids=KNOWN)
def test_where_the_pods_of_known_kinds_are(version: str, kind: str, spec: Any, expected: list[tuple[str, int]]) -> None:
    found = inferred({"apiVersion": version, "kind": kind, "spec": spec})
    assert [(each["path"], each["replicas"]) for each in found] == expected


@pytest.mark.parametrize("path", ["", "spec", "template.a[1]", "template.a.b.c", "template..a", "template.a[x]"])
def test_a_path_to_nowhere_leads_nowhere(path: str) -> None:
    assert value_at({"a": [1]}, path) is None
