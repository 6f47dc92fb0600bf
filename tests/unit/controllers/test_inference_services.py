"""What an InferenceService becomes, and what its status says: in tables, and once in virtual time on simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.client.resources import DEPLOYMENTS, NODES, PODS, SERVICES
from gpuaas.controllers.deployments import DeploymentController
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.controllers.inference_services import INFERENCE_SERVICES, InferenceServiceController
from gpuaas.controllers.inference_services.status import wanted_status
from gpuaas.controllers.inference_services.wanted import CLUSTER_RUNTIMES, RUNTIMES, Problem, wanted_deployment
from gpuaas.controllers.pod_scheduler import PodScheduler
from gpuaas.controllers.replica_sets import ReplicaSetController
from gpuaas.executors.nodes import NodeSpec, node_object
from gpuaas.executors.simulated import SimulatedKubelet
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.time import Stage, scenario, stage

QUEUE = "kueue.x-k8s.io/queue-name"
SPECS = [NodeSpec("n", cpu="64", memory="256Gi", gpu_count=4)]


def isvc(predictor: Any, name: str = "m", labels: Any = None, **annotations: str) -> Any:
    notes = {key.replace("__", "/"): text for key, text in annotations.items()}
    metadata = {"name": name, "namespace": "ns", "uid": "u", "labels": labels or {}, "annotations": notes}
    return {"metadata": metadata, "spec": {"predictor": predictor}}


def runtime(name: str, kind: str = "ServingRuntime", **spec: Any) -> Any:
    containers = [{"name": "kserve-container", "image": "served", "args": ["--name={{.Name}}"]}]
    return {"kind": kind, "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def template(service: Any, *runtimes: Any) -> Any:
    made = wanted_deployment(service, runtimes)
    assert not isinstance(made, Problem), made
    return made["spec"]["template"]


VLLM = {"modelFormat": {"name": "vLLM"}}
CHOSEN = runtime("chosen")
BY_ITSELF = runtime("a", supportedModelFormats=[{"name": "vLLM", "autoSelect": True}])


@pytest.mark.parametrize(
    ("predictor", "runtimes", "image", "args"),
    [
        ({"containers": [{"image": "own", "args": ["-v"]}]}, [], "own", ["-v"]),
        ({"model": {**VLLM, "image": "own"}}, [BY_ITSELF], "own", None),
        ({"model": {**VLLM, "runtime": "chosen"}}, [BY_ITSELF, CHOSEN], "served", ["--name=m"]),
        ({"model": {**VLLM, "args": ["-v"]}}, [CHOSEN, BY_ITSELF], "served", ["--name=m", "-v"]),
        ({"model": {**VLLM, "runtime": "chosen", "image": "own"}}, [CHOSEN], "own", ["--name=m"]),
        ({"sklearn": {"image": "own"}}, [], "own", None),
    ],
    ids=["containers", "an image", "a runtime by name", "a runtime by format", "an image over a runtime", "older form"],
)
def test_the_container(predictor: Any, runtimes: list[Any], image: str, args: Any) -> None:
    [container] = template(isvc(predictor), *runtimes)["spec"]["containers"]
    assert (container["name"], container["image"], container.get("args")) == ("kserve-container", image, args)


@pytest.mark.parametrize(
    ("service", "runtimes", "reason", "words"),
    [
        (isvc({}), [], "InvalidPredictorSpec", "neither a model nor containers"),
        (isvc({"model": VLLM}), [CHOSEN], "NoSupportingRuntime", 'model format "vLLM"'),
        (isvc({"model": {**VLLM, "runtime": "x"}}), [CHOSEN], "RuntimeNotRecognized", 'no ServingRuntime "x"'),
        (
            isvc({"model": {**VLLM, "runtime": "off"}}),
            [runtime("off", disabled=True)],
            "RuntimeDisabled",
            "off is disabled",
        ),
        (
            isvc({"sklearn": {"env": [{"value": "x"}]}}),
            [],
            "InvalidPredictorSpec",
            "sklearn.env: must be a list of objects",
        ),
        (isvc({"sklearn": {"args": 5}}), [], "InvalidPredictorSpec", "spec.predictor.sklearn.args: must be a list"),
        (isvc({"onnx": {"resources": {"limits": 1}}}), [], "InvalidPredictorSpec", "onnx.resources: must be limits"),
        (isvc({"containers": [{}]}, "m" * 49), [], "InvalidName", "has 49 characters, at most 48 are allowed"),
        (isvc({"containers": [{}]}, "1.5"), [], "InvalidName", "start with a letter"),
    ],
)
def test_why_there_is_no_deployment(service: Any, runtimes: list[Any], reason: str, words: str) -> None:
    found = wanted_deployment(service, runtimes)
    assert isinstance(found, Problem)
    assert found.reason == reason
    assert words in found.message


@pytest.mark.parametrize(
    ("predictor", "annotations", "replicas"),
    [
        ({}, {}, 1),
        ({"minReplicas": 3, "maxReplicas": 5}, {}, 3),
        ({"minReplicas": 0}, {}, 0),
        ({"minReplicas": 3}, {"serving.kserve.io__stop": "true"}, 0),
        ({"minReplicas": 3}, {"serving.kserve.io__stop": "false"}, 3),
    ],
)
def test_replicas(predictor: Any, annotations: Any, replicas: int) -> None:
    made = wanted_deployment(isvc({"containers": [{"image": "i"}], **predictor}, **annotations), [])
    assert not isinstance(made, Problem)
    assert made["spec"]["replicas"] == replicas


def test_what_a_deployment_carries() -> None:
    predictor = {
        "model": {
            **VLLM,
            "image": "i",
            "storageUri": "s3://b/m",
            "env": [{"name": "A", "value": "b"}],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        },
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "labels": {"tier": "gold"},
        "annotations": {"note": "x"},
        "deploymentStrategy": {"type": "Recreate"},
        "timeout": 60,
    }
    notes = {
        "opendatahub.io__hardware-profile-name": "l4",
        "gpuaas.dev__start-seconds": "2",
        "gpuaas.dev__owner": "eve",
    }
    made = wanted_deployment(isvc(predictor, labels={QUEUE: "q", "team": "x"}, **notes), [])
    assert not isinstance(made, Problem)
    own = {"app": "isvc.m-predictor", "component": "predictor", "serving.kserve.io/inferenceservice": "m"}
    assert made["metadata"]["labels"] == {QUEUE: "q", "team": "x", **own}
    assert made["spec"]["strategy"] == {"type": "Recreate"}
    pods = made["spec"]["template"]
    assert pods["metadata"] == {
        "labels": {"team": "x", "tier": "gold", **own},
        "annotations": {"gpuaas.dev/start-seconds": "2", "note": "x"},
    }
    assert {key: value for key, value in pods["spec"].items() if key != "containers"} == {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    assert pods["spec"]["containers"] == [
        {
            "name": "kserve-container",
            "image": "i",
            "env": [{"name": "A", "value": "b"}, {"name": "STORAGE_URI", "value": "s3://b/m"}],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
    ]


def pod(name: str = "p", *, ready: bool = False, spec: Any = None, labels: Any = None, **status: Any) -> Any:
    conditions = [{"type": "Ready", "status": str(ready)}, *status.pop("conditions", ())]
    metadata = {"name": name, "namespace": "ns", "labels": labels or {}}
    return {
        "metadata": metadata,
        "spec": spec or {},
        "status": {"phase": "Pending", **status, "conditions": conditions},
    }


def waiting(reason: str, message: str) -> Any:
    return [{"name": "c", "state": {"waiting": {"reason": reason, "message": message}}}]


SEEN = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1}}
GATED = pod(spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, labels={QUEUE: "q"})
NO_ROOM = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
REFUSED = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}


@pytest.mark.parametrize(
    ("deployment", "pods", "reason", "words", "model"),
    [
        (SEEN, [pod(ready=True)], "MinimumReplicasAvailable", "port-forward -n ns service/m-predictor", "Loaded"),
        (SEEN, [pod(ready=True, containerStatuses=[{"containerID": "gpuaas://x"}])], "MinimumReplicasAvailable",
         "its pods are simulated", "Loaded"),
        (SEEN, [pod(ready=True, spec={"runtimeClassName": "gpuaas-process"},
                    containerStatuses=[{"containerID": "gpuaas://x"}])], "MinimumReplicasAvailable", "port-forward", "Loaded"),
        (SEEN, [GATED], "WaitingForQuota", "0 of 1 replicas ready; 1 pod waits for quota in LocalQueue q", "Pending"),
        (SEEN, [pod(conditions=[NO_ROOM])], "Unschedulable", "pod p: 0/1 nodes are available", "Loading"),
        (SEEN, [pod(containerStatuses=waiting("CrashLoopBackOff", "back-off"))], "CrashLoopBackOff", "pod p: back-off",
         "FailedToLoad"),
        (SEEN, [pod(phase="Running")], "PodsNotReady", "are not ready", "Loading"),
        ({**SEEN, "status": {"conditions": [REFUSED]}}, [], "FailedCreate", "exceeded quota", "Loading"),
        (None, [], "Starting", "pods are being made", "Loading"),
    ],
)  # fmt: skip
def test_the_status(deployment: Any, pods: list[Any], reason: str, words: str, model: str) -> None:
    service = isvc({"containers": [{"image": "i"}]})
    status = wanted_status(service, None, deployment, pods, "2026-01-01T00:00:00Z")
    found = {each["type"]: each for each in status["conditions"]}
    assert (found["Ready"]["reason"], found["PredictorReady"]["reason"]) == (reason, reason)
    assert words in found["Ready"]["message"]
    assert found["Ready"]["status"] == str(model == "Loaded")
    assert status["modelStatus"]["states"]["activeModelState"] == model


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    service = isvc({"containers": [{"image": "i"}]})
    service["status"] = wanted_status(service, None, None, [], "2026-01-01T00:00:00Z")
    later = wanted_status(service, None, SEEN, [GATED], "2026-01-01T00:01:00Z")
    assert {each["lastTransitionTime"] for each in later["conditions"]} == {"2026-01-01T00:00:00Z"}


def ready(on: Stage, name: str = "m") -> tuple[str, str]:
    conditions = on.cluster.read(INFERENCE_SERVICES, name, "default")["status"]["conditions"]
    found = next(each for each in conditions if each["type"] == "Ready")
    return found["status"], found["reason"]


@scenario
async def test_what_others_own_is_left_alone() -> None:
    cluster = FakeCluster(resources=(*BUILT_IN, INFERENCE_SERVICES, RUNTIMES, CLUSTER_RUNTIMES))
    taken = {"metadata": {"name": "m-predictor", "namespace": "default"}, "spec": {"ports": [{"port": 1}]}}
    cluster.put(SERVICES, taken)
    async with stage(InferenceServiceController, cluster=cluster) as on:
        service = isvc({"containers": [{"image": "i"}]})
        cluster.put(INFERENCE_SERVICES, {**service, "metadata": {"name": "m", "namespace": "default"}})
        await on.advance(5)
        assert ready(on) == ("False", "NameTaken")
        assert cluster.read(SERVICES, "m-predictor", "default")["spec"] == taken["spec"]


@scenario
async def test_from_creation_to_deletion() -> None:
    cluster = FakeCluster(resources=(*BUILT_IN, INFERENCE_SERVICES, RUNTIMES, CLUSTER_RUNTIMES))
    cluster.put(NODES, node_object(SPECS[0], cluster.clock.now()))
    makers = (DeploymentController, ReplicaSetController, PodScheduler, GarbageCollector, InferenceServiceController)
    async with stage(*makers, lambda deps: SimulatedKubelet(deps, SPECS), cluster=cluster) as on:
        model = {**VLLM, "runtime": "late", "resources": {"requests": {"nvidia.com/gpu": "2"}}}
        service = isvc({"minReplicas": 3, "model": model})
        cluster.put(INFERENCE_SERVICES, {**service, "metadata": {"name": "m", "namespace": "default"}})
        await on.advance(5)
        assert ready(on) == ("False", "RuntimeNotRecognized")
        late = runtime("late")
        cluster.put(RUNTIMES, {**late, "metadata": {"name": "late", "namespace": "default"}})
        await on.advance(10)
        assert ready(on) == ("False", "Unschedulable"), "the node has cards for two of the three"
        await cluster.patch(INFERENCE_SERVICES, "m", {"spec": {"predictor": {"minReplicas": 2}}}, "default")
        await on.advance(10)
        assert ready(on) == ("True", "MinimumReplicasAvailable")
        assert [one["metadata"]["name"] for one in cluster.all(SERVICES, "default")] == ["m-predictor"]
        changed = {"runtime": None, "image": "other"}
        await cluster.patch(INFERENCE_SERVICES, "m", {"spec": {"predictor": {"model": changed}}}, "default")
        await on.advance(10)
        [deployment] = cluster.all(DEPLOYMENTS, "default")
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        assert (container["image"], "args" in container) == ("other", False), "what the runtime gave is gone"
        stop = {"metadata": {"annotations": {"serving.kserve.io/stop": "true"}}}
        await cluster.patch(INFERENCE_SERVICES, "m", stop, "default")
        await on.advance(60)
        assert (cluster.all(PODS, "default"), ready(on)) == ([], ("False", "Stopped"))
        writes = len(cluster.writes)
        await on.advance(600)
        assert len(cluster.writes) - writes < 200, "at rest only nodes report"
        await cluster.delete(INFERENCE_SERVICES, "m", "default")
        await on.advance(5)
        assert (cluster.all(DEPLOYMENTS, "default"), cluster.all(SERVICES, "default")) == ([], [])
