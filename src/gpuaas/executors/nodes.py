"""Nodes as a kubelet registers them: what they have, their labels, that they are ready. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gpuaas
from gpuaas.base.clock import rfc3339
from gpuaas.client.protocol import Object
from gpuaas.nodefit.amounts import is_extended
from gpuaas.nodefit.names import EXECUTOR

GPU = "nvidia.com/gpu"
VERSION = f"v1.36.0+gpuaas-{gpuaas.__version__}"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    storage: str = "200Gi"  # for what containers write, and their images
    instance_type: str = ""
    gpu_product: str = ""
    gpu_count: int = 0
    gpu_memory: int = 0  # MiB of one card; 0 where it is not known
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, Any]] = ()
    executor: str = "simulated"
    address: str = "10.0.0.1"
    architecture: str = "amd64"


def node_object(spec: NodeSpec, now: float) -> Object:
    amounts = amounts_of(spec)
    made: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels_of(spec)},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": conditions(now),
            "addresses": [
                {"type": "InternalIP", "address": spec.address},
                {"type": "Hostname", "address": spec.name},
            ],
            "nodeInfo": _node_info(spec),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        },
    }
    if spec.taints:
        made["spec"]["taints"] = [dict(taint) for taint in spec.taints]
    return made


def amounts_of(spec: NodeSpec) -> dict[str, str]:
    amounts = {"cpu": spec.cpu, "ephemeral-storage": spec.storage, "memory": spec.memory, "pods": str(spec.pods)}
    return amounts | ({GPU: str(spec.gpu_count)} if spec.gpu_count else {})


def added_resources(spec: NodeSpec, node: Mapping[str, Any]) -> dict[str, str] | None:
    """What somebody wrote into a node's capacity can be had, as a kubelet makes of it; None where that is so already."""
    status, own = node.get("status") or {}, amounts_of(spec)
    capacity, offered = status.get("capacity") or {}, status.get("allocatable") or {}
    added = {name: amount for name, amount in capacity.items() if name not in own and is_extended(name)}
    return added if any(offered.get(name) != amount for name, amount in added.items()) else None


def labels_of(spec: NodeSpec) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": spec.architecture,
        "beta.kubernetes.io/os": "linux",  # kubelets carry the names of old too, and many a manifest asks for them
        "beta.kubernetes.io/arch": spec.architecture,
        EXECUTOR: spec.executor,
    }
    if spec.instance_type:
        labels["node.kubernetes.io/instance-type"] = labels["beta.kubernetes.io/instance-type"] = spec.instance_type
    if spec.gpu_count:
        labels["nvidia.com/gpu.present"] = "true"
        labels["nvidia.com/gpu.count"] = str(spec.gpu_count)
        if spec.gpu_product:
            labels["nvidia.com/gpu.product"] = spec.gpu_product
        if spec.gpu_memory:
            labels["nvidia.com/gpu.memory"] = str(spec.gpu_memory)
    return labels | dict(spec.labels)


def conditions(now: float) -> list[Object]:
    good = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    moment = rfc3339(now)
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        for kind, status, reason, message in good
    ]


def is_ready(node: Mapping[str, Any]) -> bool:
    found = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)


def _node_info(spec: NodeSpec) -> Object:
    words = {
        "machineID": spec.name,
        "systemUUID": spec.name,
        "bootID": spec.name,
        "kernelVersion": spec.executor,
        "osImage": f"gpuaas {spec.executor} node",
        "containerRuntimeVersion": f"gpuaas-{spec.executor}://{gpuaas.__version__}",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": spec.architecture,
    }
    return dict(words)
