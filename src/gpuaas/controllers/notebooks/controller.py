"""Notebook → a StatefulSet of one and a Service, as Kubeflow's notebook controller makes them.

The annotation kubeflow-resource-stopped, whatever its value, means no replica. The status repeats what the pod says.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.errors import AlreadyExists
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import PODS, SERVICES, STATEFUL_SETS
from gpuaas.controllers.notebooks.command import COMMAND
from gpuaas.nodefit.names import PROCESS_CLASS
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import Key, annotations_of, controller_reference, is_deleting, labels_of
from gpuaas.runtime.writes import merge_diff, write_status

NOTEBOOKS = Resource("kubeflow.org", "v1", "notebooks", True, "Notebook")
STOPPED = "kubeflow-resource-stopped"
_NAME, _SET = "notebook-name", "statefulset"
_PORT = 8888
# Kueue holds the notebook itself; its StatefulSet and pod must not be held a second time.
_KEPT_BACK = "kueue.x-k8s.io/"


def wanted_set(notebook: Mapping[str, Any]) -> Object:
    metadata = notebook["metadata"]
    name = metadata["name"]
    template = (notebook["spec"].get("template") or {}).get("spec") or {}
    labels = {key: value for key, value in labels_of(notebook).items() if not key.startswith(_KEPT_BACK)}
    wishes = {key: value for key, value in annotations_of(notebook).items() if _is_passed_on(key)}
    pod: Object = {"labels": {**labels, _SET: name, _NAME: name}}
    if wishes:
        pod["annotations"] = wishes
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "ownerReferences": [controller_reference(notebook, NOTEBOOKS)],
        },
        "spec": {
            "replicas": 0 if STOPPED in annotations_of(notebook) else 1,
            "serviceName": name,
            "selector": {"matchLabels": {_SET: name}},
            "template": {"metadata": pod, "spec": _pod_spec(name, metadata["namespace"], template)},
        },
    }


def wanted_service(notebook: Mapping[str, Any]) -> Object:
    name, namespace = notebook["metadata"]["name"], notebook["metadata"]["namespace"]
    port = _ports(notebook)[0].get("containerPort", _PORT)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [controller_reference(notebook, NOTEBOOKS)],
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {_SET: name},
            "ports": [{"name": f"http-{name}"[:63], "port": 80, "targetPort": port, "protocol": "TCP"}],
        },
    }


def wanted_status(
    notebook: Mapping[str, Any], stateful_set: Mapping[str, Any] | None, pod: Mapping[str, Any] | None
) -> Object:
    ready = ((stateful_set or {}).get("status") or {}).get("readyReplicas") or 0
    state: Object = {}
    conditions: list[Object] = []
    if pod is not None:
        found = pod.get("status") or {}
        for one in found.get("containerStatuses") or ():
            if one["name"] == notebook["metadata"]["name"] or not state:
                state = dict(one.get("state") or {})
        conditions = [
            {key: value for key, value in one.items() if value is not None and key != "observedGeneration"}
            for one in found.get("conditions") or ()
        ]
    return {"conditions": conditions, "readyReplicas": ready, "containerState": state}


def _pod_spec(name: str, namespace: str, spec: Mapping[str, Any]) -> Object:
    containers = [dict(one) for one in spec.get("containers") or ()]
    if containers:
        first = containers[0]
        if spec.get("runtimeClassName") != PROCESS_CLASS:  # a process has no image with such a folder
            first.setdefault("workingDir", "/home/jovyan")
        elif not first.get("command") and not first.get("args"):
            first["command"] = list(COMMAND)
        first.setdefault("ports", [{"containerPort": _PORT, "name": "notebook-port", "protocol": "TCP"}])
        prefix = {"name": "NB_PREFIX", "value": f"/notebook/{namespace}/{name}"}
        others = [one for one in first.get("env") or () if one["name"] != "NB_PREFIX"]
        first["env"] = [*others, prefix]
    return {**spec, "containers": containers}


def _ports(notebook: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    containers = ((notebook["spec"].get("template") or {}).get("spec") or {}).get("containers") or [{}]
    return list(containers[0].get("ports") or ()) or [{}]


def _is_passed_on(annotation: str) -> bool:
    return "kubectl" not in annotation and "notebook" not in annotation and annotation != STOPPED


class NotebookController(Controller):
    name = "notebook-controller"
    component = "notebook-controller"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._notebooks = self.follow(deps.informers.of(NOTEBOOKS))
        self._sets = self.follow(deps.informers.of(STATEFUL_SETS), owner_key("Notebook"))
        self._services = self.follow(deps.informers.of(SERVICES), owner_key("Notebook"))
        self._pods = self.follow(deps.informers.of(PODS), notebook_of)

    async def reconcile(self, key: Key) -> Requeue | None:
        notebook = self._notebooks.get(*key)
        if notebook is None or not notebook.get("spec") or is_deleting(notebook):
            return None
        await self._ensure_set(notebook)
        if self._services.get(*key) is None:
            try:
                await self.client.create(SERVICES, wanted_service(notebook), key.namespace)
            except AlreadyExists:
                return None
        pod = self._pods.get(key.namespace, f"{key.name}-0")
        status = wanted_status(notebook, self._sets.get(*key), pod)
        await write_status(self.client, NOTEBOOKS, notebook, status)
        return None

    async def _ensure_set(self, notebook: Object) -> None:
        metadata = notebook["metadata"]
        wanted = wanted_set(notebook)
        known = self._sets.get(metadata["namespace"], metadata["name"])
        if known is None:
            await self.client.create(STATEFUL_SETS, wanted, metadata["namespace"])
            message = f"Created StatefulSet {metadata['name']}"
            self.recorder.event(NOTEBOOKS, notebook, NORMAL, "CreatedStatefulSet", message)
            return
        patch = _difference(known, wanted)
        if patch:
            await self.client.patch(STATEFUL_SETS, metadata["name"], patch, metadata["namespace"])


def _difference(known: Object, wanted: Object) -> Object:
    """Only what the notebook decides: the replicas and the pod; what the server filled in stays."""
    spec: Object = {}
    if known["spec"].get("replicas") != wanted["spec"]["replicas"]:
        spec["replicas"] = wanted["spec"]["replicas"]
    template, before = wanted["spec"]["template"], known["spec"]["template"]
    pod = {key: value for key, value in template["spec"].items() if not _covers(before["spec"].get(key), value)}
    gone = {
        key: None for key in ("nodeSelector", "tolerations") if key in before["spec"] and key not in template["spec"]
    }
    metadata = merge_diff({key: before["metadata"].get(key, {}) for key in template["metadata"]}, template["metadata"])
    changed = {key: value for key, value in (("metadata", metadata), ("spec", {**pod, **gone})) if value}
    if changed:
        spec["template"] = changed
    return {"spec": spec} if spec else {}


def _covers(have: Any, want: Any) -> bool:
    """Whether everything wanted is there; defaults that were added do not matter."""
    if isinstance(want, Mapping):
        return isinstance(have, Mapping) and all(_covers(have.get(key), value) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(have, list) and len(have) == len(want) and all(map(_covers, have, want))
    return bool(have == want)


def notebook_of(pod: Mapping[str, Any]) -> Iterable[Key]:
    name = labels_of(pod).get(_NAME)
    return (Key(pod["metadata"].get("namespace") or "", name),) if name else ()
