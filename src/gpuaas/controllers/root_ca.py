"""Every namespace has the ConfigMap `kube-root-ca.crt`: with it a pod can verify the API server it talks to."""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import CONFIG_MAPS, NAMESPACES
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, annotations_of, is_deleting
from gpuaas.runtime.writes import namespace_is_ending

NAME = "kube-root-ca.crt"
DESCRIPTION = "kubernetes.io/description"
_TEXT = "The certificate authority of this cluster: clients in pods verify the API server with it."


def is_right(config_map: Mapping[str, Any], root_ca: str) -> bool:
    return config_map.get("data") == {"ca.crt": root_ca} and bool(annotations_of(config_map).get(DESCRIPTION))


class RootCaController(Controller):
    name = "root-ca-certificate-publisher-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._root_ca = deps.root_ca
        self._namespaces = self.follow(deps.informers.of(NAMESPACES))
        self._config_maps = self.follow(
            deps.informers.outline(CONFIG_MAPS),  # there may be many, and one in each namespace is looked into
            lambda obj: (Key("", obj["metadata"]["namespace"]),) if obj["metadata"]["name"] == NAME else (),
        )

    async def _published(self, namespace: str) -> Object | None:
        if self._config_maps.get(namespace, NAME) is None:
            return None
        try:
            return await self.client.get(CONFIG_MAPS, NAME, namespace)
        except NotFound:
            return None

    async def reconcile(self, key: Key) -> Requeue | None:
        namespace = self._namespaces.get("", key.name)
        if not self._root_ca or namespace is None or is_deleting(namespace):
            return None
        known = await self._published(key.name)
        if known is not None and is_right(known, self._root_ca):
            return None
        data = {"ca.crt": self._root_ca}
        if known is not None:
            drop = dict.fromkeys(known.get("data") or ())
            patch = {"metadata": {"annotations": {DESCRIPTION: _TEXT}}, "data": {**drop, **data}}
            await self.client.patch(CONFIG_MAPS, NAME, patch, key.name)
            return None
        metadata = {"name": NAME, "namespace": key.name, "annotations": {DESCRIPTION: _TEXT}}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        try:
            await self.client.create(CONFIG_MAPS, made, key.name)
        except AlreadyExists:
            pass
        except ApiError as error:
            if not namespace_is_ending(error):
                raise
        return None
