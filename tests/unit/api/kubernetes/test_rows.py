"""What `kubectl get -o wide` shows after the name."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import KINDS, NOW, job, made, pod, row, service, workload

_RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
_READY = {"type": "Ready", "status": "True"}


def _ended(code: int, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, **({"reason": reason} if reason else {}), **more}}


def _waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def _status(name: str, state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, **more}


@pytest.mark.parametrize(
    ("status", "ready", "word"),
    [
        ({"phase": "Pending"}, "0/2", "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "0/2", "Evicted"),
        ({"phase": "Running", "containerStatuses": [_status("a", _RUNNING, ready=True), _status("b", _RUNNING, ready=True)]}, "2/2", "Running"),
        ({"phase": "Succeeded", "containerStatuses": [_status("a", _ended(0, "Completed"))]}, "0/2", "Completed"),
        ({"phase": "Failed", "containerStatuses": [_status("a", _ended(1, "Error")), _status("b", _ended(0, "Completed"))]}, "0/2", "Error"),
        ({"phase": "Failed", "containerStatuses": [_status("a", _ended(137, signal=9))]}, "0/2", "Signal:9"),
        ({"phase": "Failed", "containerStatuses": [_status("a", _ended(3))]}, "0/2", "ExitCode:3"),
        ({"phase": "Running", "containerStatuses": [_status("a", _waiting("CrashLoopBackOff")), _status("b", _RUNNING, ready=True)]}, "1/2", "CrashLoopBackOff"),
        ({"phase": "Running", "containerStatuses": [_status("a", _ended(0, "Completed")), _status("b", _RUNNING, ready=True)]}, "1/2", "NotReady"),
        ({"phase": "Running", "conditions": [_READY], "containerStatuses": [_status("a", _ended(0, "Completed")), _status("b", _RUNNING, ready=True)]}, "1/2", "Running"),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}, "0/2", "SchedulingGated"),
    ],
)  # fmt: skip
def test_the_status_of_a_pod(status: dict[str, Any], ready: str, word: str) -> None:
    two = pod(containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "y"}])
    assert row(two, **status)[:2] == [ready, word]


@pytest.mark.parametrize(
    ("statuses", "ready", "word", "restarts"),
    [
        ([_status("once", _RUNNING)], "0/2", "Init:0/2", "0"),
        ([_status("once", _ended(3), restartCount=4)], "0/2", "Init:ExitCode:3", "4"),
        ([_status("once", _waiting("ImagePullBackOff"))], "0/2", "Init:ImagePullBackOff", "0"),
        ([_status("once", _ended(0)), _status("side", _RUNNING, started=True, ready=True, restartCount=2)], "1/2", "Pending", "2"),
    ],
)  # fmt: skip
def test_init_containers_and_sidecars(statuses: list[dict[str, Any]], ready: str, word: str, restarts: str) -> None:
    init = [{"name": "once", "image": "x"}, {"name": "side", "image": "x", "restartPolicy": "Always"}]
    assert row(pod(initContainers=init), phase="Pending", initContainerStatuses=statuses)[:3] == [ready, word, restarts]


def test_when_a_container_last_restarted() -> None:
    last = _ended(1, finishedAt="2025-12-31T23:55:00Z")
    state = _status("main", _RUNNING, ready=True, restartCount=3, lastState=last)
    assert row(pod(), phase="Running", containerStatuses=[state])[2] == "3 (5m ago)"


def test_a_pod_that_is_being_deleted() -> None:
    obj = made(pod())
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    show = KINDS["v1", "Pod"].row
    assert show is not None
    assert show(obj, NOW)[1] == "Terminating"
    obj["status"]["phase"] = "Succeeded"
    assert show(obj, NOW)[1] == "Succeeded"


def test_where_a_pod_is() -> None:
    obj = pod(nodeName="n1", readinessGates=[{"conditionType": "a/b"}])
    cells = row(obj, phase="Running", podIPs=[{"ip": "10.0.0.5"}], conditions=[{"type": "a/b", "status": "True"}])
    assert cells[4:] == ["10.0.0.5", "n1", "<none>", "1/1"]
    assert row(pod())[4:] == ["<none>", "<none>", "<none>", "<none>"]


_DONE = [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({}, {}, ["Running", "0/1", ""]),
        ({"parallelism": 3}, {}, ["Running", "0/1 of 3", ""]),
        ({"completions": 5}, {"succeeded": 2, "startTime": "2025-12-31T23:58:00Z"}, ["Running", "2/5", "2m"]),
        ({}, {"succeeded": 1, "startTime": "2025-12-31T23:58:00Z", "completionTime": "2025-12-31T23:58:30Z", "conditions": _DONE}, ["Complete", "1/1", "30s"]),
        ({}, {"conditions": [{"type": "Failed", "status": "True"}]}, ["Failed", "0/1", ""]),
        ({}, {"conditions": [{"type": "Suspended", "status": "True"}]}, ["Suspended", "0/1", ""]),
        ({}, {"conditions": [{"type": "FailureTarget", "status": "True"}]}, ["FailureTarget", "0/1", ""]),
    ],
)  # fmt: skip
def test_jobs(spec: dict[str, Any], status: dict[str, Any], cells: list[str]) -> None:
    assert row(job(**spec), **status)[:3] == cells


def test_workloads() -> None:
    status = {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}
    expressions = [{"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "old", "operator": "DoesNotExist"}]
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": expressions}
    cells = row(workload("Deployment", replicas=4, selector=selector), **status)
    assert cells == ["2/4", 1, 2, "0s", "main", "busybox:1", "app=a,!old,tier in (a,b)"]
    assert row(workload("ReplicaSet"), **status)[:3] == [1, 3, 2]
    assert row(workload("StatefulSet", replicas=2), readyReplicas=1)[0] == "1/2"
    assert row(workload("DaemonSet"), desiredNumberScheduled=3, numberReady=1)[:6] == [3, 0, 1, 0, 0, "<none>"]


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({"clusterIP": "10.96.0.9"}, {}, ["ClusterIP", "10.96.0.9", "<none>", "80/TCP"]),
        ({"clusterIP": "None"}, {}, ["ClusterIP", "None", "<none>", "80/TCP"]),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}], "externalIPs": ["1.2.3.4"]}, {}, ["NodePort", "<none>", "1.2.3.4", "80:30080/TCP"]),
        ({"type": "LoadBalancer"}, {}, ["LoadBalancer", "<none>", "<pending>", "80/TCP"]),
        ({"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}, {"hostname": "a.b"}]}}, ["LoadBalancer", "<none>", "5.6.7.8,a.b", "80/TCP"]),
        ({"type": "ExternalName", "externalName": "a.b", "ports": None}, {}, ["ExternalName", "<none>", "a.b", "<none>"]),
    ],
)  # fmt: skip
def test_services(spec: dict[str, Any], status: dict[str, Any], cells: list[str]) -> None:
    assert row(service(**spec), **status)[:4] == cells


def test_nodes() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"labels": {"node-role.kubernetes.io/gpu": "", "node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": True},
    }
    info = {"kubeletVersion": "v1.36.3", "kernelVersion": "6.1", "architecture": "amd64"}
    addresses = [{"type": "InternalIP", "address": "10.1.1.1"}]
    cells = row(node, conditions=[_READY], nodeInfo=info, addresses=addresses)
    assert cells[:4] == ["Ready,SchedulingDisabled", "control-plane,gpu", "0s", "v1.36.3"]
    assert cells[4:] == ["10.1.1.1", "<none>", "<unknown>", "6.1 (amd64)", "<unknown>"]
    assert row({"apiVersion": "v1", "kind": "Node"}, conditions=[])[:2] == ["Unknown", "<none>"]


def test_events_are_told_by_when_they_were_last_seen() -> None:
    core = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started",
        "message": " up \n",
        "type": "Normal",
        "firstTimestamp": "2025-12-31T23:59:00Z",
        "lastTimestamp": "2025-12-31T23:59:30Z",
        "count": 3,
        "source": {"component": "kubelet", "host": "n1"},
    }
    assert row(core) == ["30s", "Normal", "Started", "pod/p", "", "kubelet, n1", "up", "60s", 3, "e"]


def test_claims_quotas_and_classes() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "v", "storageClassName": "fast"},
    }
    status = {"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany", "ReadOnlyMany"]}
    assert row(claim, **status)[:5] == ["Bound", "v", "5Gi", "ROX,RWX", "fast"]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {}}
    hard = {"pods": "5", "limits.cpu": "4", "cpu": "2"}
    assert row(quota, hard=hard, used={"pods": "1"})[:2] == ["cpu: 0/2, pods: 1/5", "limits.cpu: 0/4"]
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": annotations},
        "provisioner": "p",
    }
    assert row(storage)[:4] == ["fast (default)", "p", "Delete", "Immediate"]


def test_autoscalers_show_what_is_wanted_of_resources() -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    spec = {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "metrics": [cpu]}
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}
    assert row(scaler, currentReplicas=2)[:5] == ["Deployment/d", "cpu: <unknown>/50%", "1", 5, 2]
