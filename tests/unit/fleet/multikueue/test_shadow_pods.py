"""Pods of workers on the hub: what is shown, whose logs can be read, and what stays out of reach of a hub's tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.apiserver.logs import LogOptions
from gpuaas.base.clock import VirtualClock
from gpuaas.client.resources import PODS
from gpuaas.fleet.multikueue.shadow_pods import HubLogs, remote_pod
from gpuaas.fleet.multikueue.view import RemoteView
from gpuaas.kueue.multikueue.names import CLUSTER, ELSEWHERE, ORIGIN
from gpuaas.kueue.multikueue.shadow_pods import is_shadow, shadow_of, shadow_status
from gpuaas.runtime.metadata import Key
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.time import scenario

Object = dict[str, Any]
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "hub-uid", "controller": True}


def pod(name: str = "train-x", namespace: str = "team", workload: str = "job-train") -> Object:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "job-name": "train",
                "controller-uid": "remote-uid",
                "kueue.x-k8s.io/multikueue-worker-workload-pod": "true",
                ORIGIN: "multikueue",
            },
            "annotations": {"kueue.x-k8s.io/workload": workload, "secret": "x"},
        },
        "spec": {
            "nodeName": "h200",
            "serviceAccountName": "runner",
            "containers": [
                {"name": "main", "image": "busybox", "env": [{"name": "TOKEN", "value": "x"}], "volumeMounts": []}
            ],
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
        },
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }


class Connections:
    def __init__(self, **workers: list[Object]) -> None:
        self._workers = [_Worker(name, pods) for name, pods in workers.items()]

    def all(self) -> list[Any]:
        return list(self._workers)


class _Worker:
    def __init__(self, name: str, pods: list[Object]) -> None:
        self.name = name
        self.client = FakeCluster(VirtualClock())
        self.extra = {"pods": RemoteView(self.client, PODS, "", lambda *_: None, self.client.clock)}
        for each in pods:
            self.client.put(PODS, each)
            self.client.logs[f"{each['metadata']['namespace']}/{each['metadata']['name']}"] = [b"from " + name.encode()]

    async def open(self) -> None:
        await self.extra["pods"].open()


def workloads(**found: str) -> Any:
    """Workloads of namespace `team`, by name the cluster that runs each."""

    def workload_of(namespace: str, name: str) -> Object | None:
        cluster = found.get(name.replace("-", "_")) if namespace == "team" else None
        return None if cluster is None else {"metadata": {"name": name}, "status": {"clusterName": cluster}}

    return workload_of


@pytest.mark.parametrize(
    ("why", "there", "asked", "running", "cluster"),
    [
        ("its own", pod(), Key("team", "train-x"), {"job_train": "worker1"}, "worker1"),
        ("of another namespace", pod(namespace="other"), Key("team", "train-x"), {"job_train": "worker1"}, None),
        ("of another namespace, asked there", pod(namespace="other"), Key("other", "train-x"), {"job_train": "worker1"}, None),
        ("of no workload of the hub", pod(workload="local"), Key("team", "train-x"), {"job_train": "worker1"}, None),
        ("of a workload that runs elsewhere", pod(), Key("team", "train-x"), {"job_train": "worker2"}, None),
    ],
)  # fmt: skip
def test_only_pods_that_run_for_a_workload_of_the_namespace_are_found(
    why: str, there: Object, asked: Key, running: dict[str, str], cluster: str | None
) -> None:
    @scenario
    async def body() -> None:
        connections = Connections(worker1=[there])
        for worker in connections.all():
            await worker.open()
        found = remote_pod(connections, workloads(**running), asked)  # type: ignore[arg-type]
        assert (found.worker.name if found else None) == cluster, why

    body()


class Here:
    async def read(self, pod: Any, options: Any) -> AsyncIterator[bytes]:
        yield b"from here"

    def waits_for(self, pod: Any) -> bool:
        return False


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        (pod(), b"from here"),
        ({**pod(), "spec": {"containers": [{"name": "main"}]}}, b"from worker1"),
        (
            {
                "metadata": {"name": "secret", "namespace": "team", "annotations": {CLUSTER: "worker1"}},
                "spec": {"schedulingGates": [{"name": ELSEWHERE}], "containers": [{"name": "main"}]},
            },
            b"from here",
        ),
    ],
)
def test_logs_come_from_the_worker_only_for_pods_that_run_there_for_the_hub(forged: Object, said: bytes) -> None:
    """A tenant who writes the annotation and the gate reaches nothing by them."""

    @scenario
    async def body() -> None:
        connections = Connections(worker1=[pod(), pod("secret", workload="of-the-worker")])
        for worker in connections.all():
            await worker.open()
        logs = HubLogs(Here(), connections, workloads(job_train="worker1"), VirtualClock())  # type: ignore[arg-type]
        assert b"".join([piece async for piece in logs.read(forged, LogOptions())]) == said

    body()


def test_a_shadow_shows_what_people_look_at_and_can_run_nowhere() -> None:
    shadow = shadow_of(pod(), "worker1", OWNER)
    assert is_shadow(shadow)
    assert not is_shadow(pod())
    meta, spec = shadow["metadata"], shadow["spec"]
    assert meta["labels"] == {"job-name": "train", "controller-uid": "hub-uid"}
    assert meta["annotations"] == {CLUSTER: "worker1", "gpuaas.dev/cluster-node": "h200"}
    assert meta["ownerReferences"] == [OWNER]
    assert spec["containers"] == [{"name": "main", "image": "busybox"}]
    assert "nodeName" not in spec
    assert "volumes" not in spec
    assert spec["nodeSelector"] == {CLUSTER: "worker1"}


def test_a_shadow_keeps_its_own_class_of_service() -> None:
    shadow = {"metadata": {}, "spec": {}, "status": {"phase": "Pending", "qosClass": "BestEffort"}}
    assert shadow_status(shadow, pod()) == {"phase": "Running", "qosClass": "BestEffort"}
