"""A Notebook that names only an image, in a cluster whose nodes run processes alone: it becomes one of this machine.

Manifests that a dashboard or a repository made say nothing about runtime classes. Where every node runs processes such a
notebook would wait for ever, so its author, if allowed to run processes, gets the Jupyter of this machine, with a warning
that names the image which is not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from gpuaas.api.kinds import Object
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.security.identity import Asked
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.nodefit.names import EXECUTOR, PROCESS_CLASS

_LOOKED_AT: Final = 8  # nodes; a machine's own cluster has one


def install_notebook_rules(cluster: Cluster, rbac: Rbac) -> None:
    """Before the rules of runtime classes, which judge the result."""

    def run_here(op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if op.in_process or op.subresource or old is not None:
            return
        pod = ((obj.get("spec") or {}).get("template") or {}).get("spec")
        if not isinstance(pod, dict) or pod.get("runtimeClassName"):
            return
        containers = pod.get("containers")
        if not isinstance(containers, list) or len(containers) != 1:
            return
        if containers[0].get("command") or containers[0].get("args") or pod.get("initContainers"):
            return
        asked = Asked("use", "node.k8s.io", "runtimeclasses", namespace=op.namespace, name=PROCESS_CLASS)
        if not only_processes(cluster) or not rbac.authorize(op.user, asked).allowed:
            return
        pod["runtimeClassName"] = PROCESS_CLASS
        image = containers[0].get("image") or "its image"
        op.warnings.append(f"this machine runs processes, no images: its own Jupyter is started, not {image}")

    cluster.admission.register("kubeflow.org", "notebooks", run_here)


def only_processes(cluster: Cluster) -> bool:
    nodes = [entry.obj for entry in islice(cluster.store.list("/nodes/"), _LOOKED_AT)]
    return bool(nodes) and all((node["metadata"].get("labels") or {}).get(EXECUTOR) == "process" for node in nodes)
