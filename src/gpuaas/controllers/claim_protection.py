"""A deleted PersistentVolumeClaim stays while a pod uses it: the finalizer comes off when the last such pod is gone."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.client.resources import CLAIMS, PODS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, finalizers_of, is_deleting
from gpuaas.runtime.pods import is_finished

FINALIZER = "kubernetes.io/pvc-protection"
USED = "claims"  # index of pods by the claims they mount


def claims_used(pod: Mapping[str, Any]) -> list[str]:
    """Names of the claims a pod mounts, those made for it alone included."""
    names = []
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            names.append(volume["persistentVolumeClaim"]["claimName"])
        elif volume.get("ephemeral"):
            names.append(f"{pod['metadata']['name']}-{volume['name']}")
    return names


def _keys(pod: Mapping[str, Any]) -> Iterable[Key]:
    namespace = pod["metadata"].get("namespace") or ""
    return [Key(namespace, name) for name in claims_used(pod)]


class ClaimProtectionController(Controller):
    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._claims = self.follow(deps.informers.of(CLAIMS))
        pods = deps.informers.of(PODS)
        pods.add_index(USED, lambda pod: map(str, _keys(pod)))
        self._pods = self.follow(pods, _keys)

    async def reconcile(self, key: Key) -> Requeue | None:
        claim = self._claims.get(*key)
        if claim is None or not is_deleting(claim) or FINALIZER not in finalizers_of(claim):
            return None
        if any(not is_finished(pod) for pod in self._pods.indexed(USED, str(key))):
            return None
        left = [name for name in finalizers_of(claim) if name != FINALIZER]
        metadata = {"resourceVersion": claim["metadata"]["resourceVersion"], "finalizers": left or None}
        await self.client.patch(CLAIMS, key.name, {"metadata": metadata}, key.namespace)
        return None
