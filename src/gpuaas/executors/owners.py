"""What a pod's owners say in annotations: a wish may stand on the job as well as on its template."""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Client, Discovery, Resource
from gpuaas.runtime.metadata import annotations_of, controller_of

_PREFIX = "gpuaas.dev/"
_DEPTH = 4  # pod, job, job set, train job


class Owners:
    def __init__(self, client: Client, discovery: Discovery) -> None:
        self._client = client
        self._discovery = discovery
        self._resources: dict[tuple[str, str], Resource] = {}

    async def wishes(self, pod: Mapping[str, Any]) -> dict[str, str]:
        """Our annotations of the pod and of those it belongs to; the nearest one counts."""
        found: dict[str, str] = {}
        for obj in await self.chain(pod):
            for name, value in annotations_of(obj).items():
                if name.startswith(_PREFIX):
                    found.setdefault(name, value)
        return found

    async def chain(self, pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The pod and those it belongs to, the nearest first."""
        found: list[Mapping[str, Any]] = []
        obj: Mapping[str, Any] | None = pod
        while obj is not None and len(found) < _DEPTH:
            found.append(obj)
            obj = await self._owner(obj)
        return found

    async def _owner(self, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
        reference = controller_of(obj)
        if reference is None or reference["kind"] == "Node":
            return None
        resource = await self._resource(reference["apiVersion"], reference["kind"])
        if resource is None:
            return None
        try:
            return await self._client.get(resource, reference["name"], obj["metadata"].get("namespace") or "")
        except ApiError:
            return None  # gone, or not ours to read: then it says nothing

    async def _resource(self, api_version: str, kind: str) -> Resource | None:
        group = api_version.rpartition("/")[0]
        known = self._resources.get((group, kind))
        if known is None:
            for served in await self._discovery.resources():
                self._resources[served.resource.group, served.resource.kind] = served.resource
            known = self._resources.get((group, kind))
        return known
