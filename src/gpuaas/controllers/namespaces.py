"""Ending namespaces: empty them of everything, then let them go.

Pods first, then every other namespaced resource discovery tells of; what remains (finalizers, pods that are still
stopping) is said in the namespace's conditions. Only when nothing is left does the `kubernetes` finalizer come off.
What each new namespace contains from the start is service_accounts' and root_ca's business.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import ApiError, NotFound
from gpuaas.client.protocol import Object, Propagation, Resource, Served
from gpuaas.client.resources import NAMESPACES, PODS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, finalizers_of, is_deleting, key_of
from gpuaas.runtime.writes import write_status

FINALIZER = "kubernetes"
FINALIZER_ESTIMATE = 15  # seconds given to the owners of finalizers
LONGEST_WAIT = 2.0  # before looking again; the real controller waits half the estimate

_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass(slots=True)
class Remains:
    """What a pass through a namespace left behind."""

    discovery_failure: str = ""
    failures: list[str] = field(default_factory=list)
    by_resource: Counter[str] = field(default_factory=Counter)
    by_finalizer: Counter[str] = field(default_factory=Counter)
    estimate: int = 0  # seconds until it may be gone


def decide_conditions(old: Sequence[Object], remains: Remains, now: str) -> list[Object]:
    """The five deletion conditions after a pass; a condition that says the same keeps its time."""
    bad: dict[str, tuple[str, str]] = {}
    if remains.discovery_failure:
        bad["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", remains.discovery_failure)
    if remains.failures:
        count = len(remains.failures)
        texts = ", ".join(sorted(remains.failures))
        message = f"Failed to delete all resource types, {count} remaining: {texts}"
        bad["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
    if remains.by_resource:
        texts = ", ".join(sorted(f"{name} has {n} resource instances" for name, n in remains.by_resource.items()))
        bad["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {texts}")
    if remains.by_finalizer:
        texts = ", ".join(sorted(f"{name} in {n} resource instances" for name, n in remains.by_finalizer.items()))
        message = f"Some content in the namespace has finalizers remaining: {texts}"
        bad["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    conditions = {condition["type"]: condition for condition in old}
    for kind, fine in _FINE.items():
        reason, message = bad.get(kind, fine)
        status = "True" if kind in bad else "False"
        known = conditions.get(kind)
        moment = known["lastTransitionTime"] if known and known["status"] == status else now
        conditions[kind] = {
            "type": kind,
            "status": status,
            "lastTransitionTime": moment,
            "reason": reason,
            "message": message,
        }
    return list(conditions.values())


class NamespaceController(Controller):
    name = "namespace-controller"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._discovery = deps.discovery
        self._namespaces = self.follow(
            deps.informers.of(NAMESPACES), lambda obj: (key_of(obj),) if is_deleting(obj) else ()
        )

    async def reconcile(self, key: Key) -> Requeue | None:
        try:
            namespace = await self.client.get(NAMESPACES, key.name)
            if not is_deleting(namespace):
                return None
            if namespace.get("status", {}).get("phase") != "Terminating":
                await write_status(
                    self.client, NAMESPACES, namespace, {**namespace.get("status", {}), "phase": "Terminating"}
                )
            if not namespace.get("spec", {}).get("finalizers"):
                return None
            return await self._empty(namespace)
        except NotFound:
            return None

    async def _empty(self, namespace: Object) -> Requeue | None:
        remains = await self._delete_content(namespace)
        await self._tell(namespace["metadata"]["name"], remains)
        if remains.failures or remains.discovery_failure:
            raise ApiError("; ".join([*remains.failures, remains.discovery_failure]))
        if remains.estimate:
            return Requeue(min(remains.estimate / 2 + 1, LONGEST_WAIT))
        latest = await self.client.get(NAMESPACES, namespace["metadata"]["name"])
        others = [name for name in latest.get("spec", {}).get("finalizers") or () if name != FINALIZER]
        released = {**latest, "spec": {**latest.get("spec", {}), "finalizers": others}}
        await self.client.update(NAMESPACES, released, subresource="finalize")
        return None

    async def _tell(self, name: str, remains: Remains) -> None:
        latest = await self.client.get(NAMESPACES, name)
        status = latest.get("status") or {}
        conditions = decide_conditions(status.get("conditions") or (), remains, rfc3339(self.clock.now()))
        await write_status(self.client, NAMESPACES, latest, {**status, "conditions": conditions})

    async def _delete_content(self, namespace: Object) -> Remains:
        remains = Remains()
        served: Sequence[Served] = ()
        try:
            served = await self._discovery.resources()
        except ApiError as error:
            remains.discovery_failure = error.message
        content = [one for one in served if one.resource.namespaced and one.allows("delete")]
        # A pod may need what the namespace holds until its last moment, so nothing else goes before the pods.
        content.sort(key=lambda one: one.resource != PODS)
        for one in content:
            try:
                await self._delete_all(one, namespace, remains)
            except ApiError as error:
                remains.failures.append(error.message)
            if one.resource == PODS and remains.by_resource:
                break
        return remains

    async def _delete_all(self, one: Served, namespace: Object, remains: Remains) -> None:
        resource, name = one.resource, namespace["metadata"]["name"]
        if not one.allows("list"):
            return
        before = (await self.client.list(resource, name)).items
        if not before:
            return
        estimate = self._graceful_seconds(resource, before, namespace)
        await self._delete_each(one, name, before)
        left = (await self.client.list(resource, name)).items
        if not left:
            return
        finalizers = Counter(finalizer for obj in left for finalizer in finalizers_of(obj))
        remains.by_resource[f"{resource.plural}.{resource.group}"] += len(left)
        remains.by_finalizer.update(finalizers)
        if not estimate and not finalizers:
            gvr = f"{resource.group}/{resource.version}, Resource={resource.plural}"
            raise ApiError(f"unexpected items still remain in namespace: {name} for gvr: {gvr}")
        remains.estimate = max(remains.estimate, estimate or FINALIZER_ESTIMATE)

    async def _delete_each(self, one: Served, namespace: str, items: Sequence[Object]) -> None:
        if one.allows("deletecollection"):
            await self.client.delete_collection(one.resource, namespace, propagation=Propagation.BACKGROUND)
            return
        for obj in items:
            try:
                name = obj["metadata"]["name"]
                await self.client.delete(one.resource, name, namespace, propagation=Propagation.BACKGROUND)
            except NotFound:
                continue

    def _graceful_seconds(self, resource: Resource, items: Sequence[Object], namespace: Object) -> int:
        """The longest grace period of a pod that still runs, unless that much time has passed already."""
        if resource != PODS:
            return 0
        longest = max((_grace(pod) for pod in items), default=0)
        since = self.clock.now() - parse_rfc3339(namespace["metadata"]["deletionTimestamp"])
        return longest if since < longest else 0


def _grace(pod: Mapping[str, Any]) -> int:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(pod["spec"].get("terminationGracePeriodSeconds") or 0)
