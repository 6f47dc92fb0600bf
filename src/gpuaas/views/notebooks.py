"""Rows of notebooks: what each does and waits for, its profile, its GPUs, when it was last used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gpuaas.base.numbers import is_digits
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import PODS
from gpuaas.nodefit.names import PROCESS_CLASS
from gpuaas.profiles.notebook_state import state_of
from gpuaas.profiles.paths import annotation, label
from gpuaas.profiles.webhook import NAME as PROFILE

if TYPE_CHECKING:
    from gpuaas.client.protocol import Client

View = Mapping[str, Any]
NOTEBOOKS: Final = Resource("kubeflow.org", "v1", "notebooks", True, "Notebook")
QUEUE: Final = "kueue.x-k8s.io/queue-name"
LAST_ACTIVITY: Final = "notebooks.kubeflow.org/last-activity"


class NotebookRow(msgspec.Struct, rename="camel"):
    notebook: str
    state: str
    what: str
    profile: str
    gpus: str
    last_activity: str
    namespace: str
    queue: str
    waits: bool
    simulated: bool
    """Whether it runs on a simulated node: then there is nothing to open."""

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


async def read_rows(client: Client, namespace: str, name: str = "") -> list[NotebookRow]:
    """Of one notebook, or of all of a namespace."""
    if name:
        notebooks = [await client.get(NOTEBOOKS, name, namespace)]
        selected = f"notebook-name={name}"
    else:
        notebooks, selected = list((await client.list(NOTEBOOKS, namespace)).items), "notebook-name"
    pods = (await client.list(PODS, namespace, labels=selected)).items
    workloads = (await client.list(WORKLOADS, namespace)).items
    return rows(notebooks, workloads, pods)


def rows(notebooks: Iterable[View], workloads: Iterable[View], pods: Iterable[View]) -> list[NotebookRow]:
    by_owner = {
        owner["uid"]: each
        for each in workloads
        for owner in each["metadata"].get("ownerReferences") or ()
        if owner.get("kind") == "Notebook"
    }
    by_name = {(pod["metadata"].get("namespace"), label(pod, "notebook-name")): pod for pod in pods}
    found = []
    for notebook in sorted(notebooks, key=lambda each: str(each["metadata"]["name"])):
        metadata = notebook["metadata"]
        pod = by_name.get((metadata.get("namespace"), metadata["name"]))
        found.append(row_of(notebook, by_owner.get(metadata.get("uid", "")), pod))
    return found


def row_of(notebook: View, workload: View | None, pod: View | None) -> NotebookRow:
    metadata, queue = notebook["metadata"], label(notebook, QUEUE)
    state = state_of(notebook, workload, pod, queue)
    spec = ((notebook.get("spec") or {}).get("template") or {}).get("spec") or {}
    running = pod is not None and bool((pod.get("spec") or {}).get("nodeName"))
    return NotebookRow(
        notebook=metadata["name"],
        state=state.state,
        what=state.sentence,
        profile=annotation(notebook, PROFILE),
        gpus=_gpus(spec),
        last_activity=annotation(notebook, LAST_ACTIVITY),
        namespace=metadata.get("namespace") or "",
        queue=queue,
        waits=state.waits,
        simulated=running and spec.get("runtimeClassName") != PROCESS_CLASS and _is_simulated(pod),
    )


def _is_simulated(pod: View | None) -> bool:
    """A simulated node's pod has an address like any other, but no container that anything runs in."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or ()
    return any(str(one.get("containerID", "")).startswith("gpuaas://") for one in statuses)


def _gpus(spec: View) -> str:
    found: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name.startswith("nvidia.com/") and is_digits(str(amount)):
                found[name] = found.get(name, 0) + int(amount)
    return ", ".join(f"{count} {name.removeprefix('nvidia.com/')}" for name, count in sorted(found.items()))
