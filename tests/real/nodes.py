"""Nodes for a real control plane: kwok plays the kubelets of a fleet file's nodes, and no container runs anywhere.

The nodes are the ones `gpuaas up --fleet` would make, so that both sides have the same room. A pod runs until it is
deleted, or as long as its annotation `gpuaas.dev/run-seconds` says, as on our simulated nodes. How a pod and a node go on
from state to state (kwok's stages) is read from kwok's own module.
"""

from __future__ import annotations

import contextlib
import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.real.parts import manifests
from tests.real.plane import RealControlPlane, free_port
from tests.real.sides import Side

from gpuaas.assembly.fleet import read_fleet
from gpuaas.base.clock import rfc3339
from gpuaas.executors.nodes import node_object
from gpuaas.nodefit.names import EXECUTOR

MARK = "kwok.x-k8s.io/node"
RUN_SECONDS = "gpuaas.dev/run-seconds"
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)
COMPLETION = "pod/fast/pod-complete.yaml"
LOG = ("step 1 of 2", "step 2 of 2")


def start_kubelets(plane: RealControlPlane) -> None:
    """Every pod's log says the same: there is nobody who could write one."""
    log = plane.home / "pod.log"
    moment = rfc3339(time.time())
    log.write_text("".join(f"{moment} stdout F {line}\n" for line in LOG))  # as a container runtime writes it
    config = plane.home / "kwok.yaml"
    config.write_text(yaml.safe_dump_all([*_stages(), _log_of_every_pod(log)]))
    certificate, key = plane.authority.issue("kubelet", "kubelet")
    port = free_port()
    plane.spawn(
        "kwok",
        kubeconfig=plane.kubeconfig,
        config=config,
        manage_all_nodes="false",
        manage_nodes_with_annotation_selector=f"{MARK}=fake",
        node_ip="127.0.0.1",
        node_port=port,
        server_address=f"127.0.0.1:{port}",
        tls_cert_file=certificate,
        tls_private_key_file=key,
    )


@contextlib.contextmanager
def added(side: Side, fleet: str) -> Iterator[None]:
    """The nodes of the fleet's first cluster, for a while."""
    names = add_nodes(side, fleet)
    try:
        yield
    finally:
        for name in names:
            side.send("DELETE", f"/api/v1/nodes/{name}")


def add_nodes(side: Side, fleet: str) -> list[str]:
    specs = read_fleet(fleet).clusters[0].nodes
    for spec in specs:
        node = node_object(spec, time.time())
        node["metadata"]["annotations"] = {MARK: "fake"}
        node["metadata"]["labels"].pop(EXECUTOR)  # nobody of ours runs their pods
        # Where logs are read and whether it is ready, kwok says.
        node["status"] = {name: node["status"][name] for name in ("capacity", "allocatable")}
        made = side.send("POST", "/api/v1/nodes", json.dumps(node), {"Content-Type": "application/json"})
        if made.status != 201:
            raise RuntimeError(f"node {spec.name}: {made.body.decode()}")
    return [spec.name for spec in specs]


def _stages() -> Iterator[dict[str, Any]]:
    folder = manifests("kwok") / "kustomize" / "stage"
    for name in STAGES:
        yield _document(folder / name)
    completion = _document(folder / COMPLETION)
    path = f'.metadata.annotations["{RUN_SECONDS}"]'
    stated = [
        each for each in completion["spec"]["selector"]["matchExpressions"] if "ownerReferences" not in each["key"]
    ]
    completion["spec"]["selector"]["matchExpressions"] = [*stated, {"key": path, "operator": "Exists"}]
    completion["spec"]["delay"] = {"durationFrom": {"expressionFrom": f'{path} + "s"'}}
    yield completion
    yield _ending(completion)


def _ending(completion: dict[str, Any]) -> dict[str, Any]:
    """A kubelet says how a pod that is told to go has ended; Kueue waits for that word before it lets its pods go."""
    ending: dict[str, Any] = copy.deepcopy(completion)
    ending["metadata"]["name"] = "pod-end"
    ending["spec"].pop("delay")
    ending["spec"]["weight"] = 1  # before it is deleted, which has none
    ending["spec"]["selector"]["matchExpressions"] = [
        {"key": ".metadata.deletionTimestamp", "operator": "Exists"},
        {"key": ".metadata.finalizers.[]", "operator": "In", "values": ["kueue.x-k8s.io/managed"]},
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
    ]
    status = ending["spec"]["next"]["statusTemplate"]
    status = status.replace("exitCode: 0", "exitCode: 137").replace("reason: Completed", "reason: Error")
    ending["spec"]["next"]["statusTemplate"] = status.replace("phase: Succeeded", "phase: Failed")
    return ending


def _document(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(file.read_text())
    return document


def _log_of_every_pod(log: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "every-pod"},
        "spec": {"logs": [{"logsFile": str(log), "follow": False}]},
    }
