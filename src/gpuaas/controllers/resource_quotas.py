"""ResourceQuota: `status.used` is kept true when objects go away or cost less.

What a new object costs is booked by the API server as it is created (so that two at once cannot both have the last
of it); this recounts everything when something was given back, and when the limits themselves change. What an object
costs is `api.kubernetes.quota_usage`'s knowledge.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.api.kubernetes.quota_usage import quota_usage, usage_of
from gpuaas.base.errors import qualified
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, key_of
from gpuaas.runtime.writes import write_status

SETTLE = 0.2  # seconds: a booking and the object it is for become visible together
_SERVICES = ("services", "services.nodeports", "services.loadbalancers")


def counted(name: str) -> str:
    """The resource, as messages name it (`jobs.batch`), whose objects a limit of this name counts."""
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name in _SERVICES:
        return "services"
    if name.endswith(("persistentvolumeclaims", "requests.storage")):
        return "persistentvolumeclaims"
    if name in ("configmaps", "secrets", "replicationcontrollers", "resourcequotas"):
        return name
    return "pods"


class ResourceQuotaController(Controller):
    name = "resourcequota-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._discovery = deps.discovery
        self._known = {str(resource): resource for resource in (PODS, SERVICES, CLAIMS)}
        self._watched: set[Resource] = set()
        self._quotas = self.follow(deps.informers.of(RESOURCE_QUOTAS), delay=SETTLE)

    async def reconcile(self, key: Key) -> Requeue | None:
        quota = self._quotas.get(*key)
        if quota is None:
            return None
        hard = quota["spec"].get("hard") or {}
        resources = [one for one in [await self._find(name) for name in {*map(counted, hard)}] if one is not None]
        for resource in resources:
            await self._watch(resource)
        used = quota_usage(quota, self._objects(resources, key.namespace))
        covered = {str(resource) for resource in resources}
        shown = {name: amount for name, amount in used.items() if counted(name) in covered}
        await write_status(self.client, RESOURCE_QUOTAS, quota, {"hard": hard, "used": shown})
        return None

    def _objects(self, resources: Iterable[Resource], namespace: str) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
        for resource in resources:
            for obj in self.informers.of(resource).in_namespace(namespace):
                yield resource.group, resource.plural, obj

    async def _find(self, name: str) -> Resource | None:
        if name not in self._known:
            for one in await self._discovery.resources():
                if one.resource.namespaced and one.allows("list", "watch"):
                    self._known[qualified(one.resource.group, one.resource.plural)] = one.resource
        return self._known.get(name)

    async def _watch(self, resource: Resource) -> None:
        informer = self.informers.of(resource)
        if resource not in self._watched:
            self._watched.add(resource)

            def changed(old: Object | None, new: Object | None) -> None:
                if old is not None and (new is None or self._costs_otherwise(resource, old, new)):
                    self._recount(old)

            await informer.synced()
            informer.subscribe(changed)
        await informer.synced()

    def _costs_otherwise(self, resource: Resource, old: Object, new: Object) -> bool:
        """Less or more, or to another quota: which quotas a pod counts for may hang on whether it has a deadline."""
        if resource == PODS and _has_deadline(old) is not _has_deadline(new):
            return True
        return usage_of(resource.group, resource.plural, old) != usage_of(resource.group, resource.plural, new)

    def _recount(self, obj: Mapping[str, Any]) -> None:
        for quota in self._quotas.in_namespace(obj["metadata"].get("namespace") or ""):
            self.queue.add_after(key_of(quota), SETTLE)


def _has_deadline(pod: Mapping[str, Any]) -> bool:
    return pod["spec"].get("activeDeadlineSeconds") is not None
