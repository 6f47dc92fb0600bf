"""An InferenceService in a cluster whose nodes run processes alone: its command becomes a process of this machine.

Manifests made for clusters say nothing about runtime classes, and their pods would wait for ever. An author who may run
processes gets the class with a warning; a predictor without a command gets a warning that names the missing field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.security.identity import Asked
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.assembly.notebook_rules import only_processes
from gpuaas.nodefit.names import PROCESS_CLASS


def install_serving_rules(cluster: Cluster, rbac: Rbac) -> None:
    """Before the rules of runtime classes, which judge the result."""

    def run_here(op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if op.in_process or op.subresource or old is not None:
            return
        spec = obj.get("spec")
        predictor = spec.get("predictor") if isinstance(spec, dict) else None
        if not isinstance(predictor, dict) or predictor.get("runtimeClassName"):
            return
        asked = Asked("use", "node.k8s.io", "runtimeclasses", namespace=op.namespace, name=PROCESS_CLASS)
        if not only_processes(cluster) or not rbac.authorize(op.user, asked).allowed:
            return
        where, container = _container(predictor)
        if not container.get("command"):
            op.warnings.append(f"this machine runs processes, no images: {where}.command is needed to serve")
            return
        predictor["runtimeClassName"] = PROCESS_CLASS
        image = container.get("image") or "its image"
        op.warnings.append(f"this machine runs processes, no images: {where}.command is started, not {image}")

    cluster.admission.register("serving.kserve.io", "inferenceservices", run_here)


def _container(predictor: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The one that serves, and its path."""
    model, containers = predictor.get("model"), predictor.get("containers")
    if isinstance(model, dict):
        return "spec.predictor.model", model
    if isinstance(containers, list) and containers and isinstance(containers[0], dict):
        return "spec.predictor.containers[0]", containers[0]
    return "spec.predictor.model", {}
