"""A deleted PersistentVolume stays while a claim is bound to it: the finalizer comes off when it is free."""

from gpuaas.client.resources import VOLUMES
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, finalizers_of, is_deleting

FINALIZER = "kubernetes.io/pv-protection"


class VolumeProtectionController(Controller):
    name = "persistentvolume-protection-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._volumes = self.follow(deps.informers.of(VOLUMES))

    async def reconcile(self, key: Key) -> Requeue | None:
        volume = self._volumes.get(*key)
        if volume is None or not is_deleting(volume) or FINALIZER not in finalizers_of(volume):
            return None
        if (volume.get("status") or {}).get("phase") == "Bound":
            return None
        left = [name for name in finalizers_of(volume) if name != FINALIZER]
        metadata = {"resourceVersion": volume["metadata"]["resourceVersion"], "finalizers": left or None}
        await self.client.patch(VOLUMES, key.name, {"metadata": metadata})
        return None
