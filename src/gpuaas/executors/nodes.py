"""Nodes as a kubelet registers them: what they have, their labels, that they are ready. Pure.

A node's cards are those of its fleet file (`gpu_*`) or those the driver of this machine reported (`found`). What the node
offers of them is derived (devices.advertise): a new node is born with what its cards offer without a configuration, and
from then on only the controller `gpu-nodes` writes resources and labels of cards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gpuaas
from gpuaas.base.clock import rfc3339
from gpuaas.client.protocol import Object
from gpuaas.devices import inventory
from gpuaas.devices.advertise import Advertised, advertise, default_config, is_device_resource
from gpuaas.devices.cards import Card
from gpuaas.devices.inventory import SIMULATED, Pool
from gpuaas.devices.labels import Machine
from gpuaas.nodefit.amounts import is_extended
from gpuaas.nodefit.names import EXECUTOR

GPU_DRIVER = "gpuaas.dev/GPUDriver"  # condition of this machine's node
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
    gpu_memory: int = 0  # MiB of one card; 0: what the product has
    gpu_nvlink: str = ""  # all, pairs or none; empty: as the product is usually wired
    gpu_numa: int = 1  # sockets the cards are spread over
    found: tuple[Card, ...] = ()  # by this machine's driver
    driver: Machine = SIMULATED
    gpu_fault: str = ""  # why the driver of this machine could not be asked, and what to do
    gpu_fault_kind: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, Any]] = ()
    executor: str = "simulated"
    address: str = "10.0.0.1"
    architecture: str = "amd64"

    def cards(self) -> tuple[Card, ...]:
        """Without MIG layouts of simulated cards, which are the cluster's state."""
        if self.found or not self.gpu_count:
            return self.found
        pool = Pool(self.gpu_product, self.gpu_count, self.gpu_memory, self.gpu_nvlink, self.gpu_numa)
        return inventory.simulated_cards(self.name, pool)


def node_object(spec: NodeSpec, now: float) -> Object:
    cards, amounts = spec.cards(), amounts_of(spec)
    born = as_born(spec, cards)
    made: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": {**born.labels, **labels_of(spec)}},
        "spec": {},
        "status": {
            "capacity": {**amounts, **born.capacity},
            "allocatable": {**amounts, **born.allocatable},
            "conditions": [*conditions(now), *driver_condition(spec, now)],
            "addresses": [
                {"type": "InternalIP", "address": spec.address},
                {"type": "Hostname", "address": spec.name},
            ],
            "nodeInfo": _node_info(spec),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        },
    }
    if cards:
        made["metadata"]["annotations"] = {inventory.ANNOTATION: inventory.encode(cards)}
    if spec.taints:
        made["spec"]["taints"] = [dict(taint) for taint in spec.taints]
    return made


def as_born(spec: NodeSpec, cards: tuple[Card, ...]) -> Advertised:
    return advertise(cards, default_config(cards), spec.driver)


def amounts_of(spec: NodeSpec) -> dict[str, str]:
    """Without what its cards offer."""
    return {"cpu": spec.cpu, "ephemeral-storage": spec.storage, "memory": spec.memory, "pods": str(spec.pods)}


def added_resources(spec: NodeSpec, node: Mapping[str, Any]) -> dict[str, str] | None:
    """Copies capacity that a client wrote into allocatable, as a kubelet does; None where it is there already.
    Not what cards offer: that is derived from the cards alone."""
    status, own = node.get("status") or {}, amounts_of(spec)
    capacity, offered = status.get("capacity") or {}, status.get("allocatable") or {}
    has_cards = bool(spec.gpu_count or spec.found)
    added = {
        name: amount
        for name, amount in capacity.items()
        if name not in own and is_extended(name) and not (has_cards and is_device_resource(name))
    }
    return added if any(offered.get(name) != amount for name, amount in added.items()) else None


def labels_of(spec: NodeSpec) -> dict[str, str]:
    """Without those that follow from its cards."""
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


def driver_condition(spec: NodeSpec, now: float) -> list[Object]:
    """What is wrong with the driver of this machine; nothing where it answers."""
    if not spec.gpu_fault:
        return []
    reason = "".join(word.title() for word in spec.gpu_fault_kind.split("-")) or "Failed"
    moment = rfc3339(now)
    condition = {"type": GPU_DRIVER, "status": "False", "reason": reason, "message": spec.gpu_fault}
    return [{**condition, "lastHeartbeatTime": moment, "lastTransitionTime": moment}]


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
