"""RayService → a RayCluster of its own; served is what runs there.

A change of the cluster's spec beyond its size is made to a new cluster, which takes over once it is ready; one that is
suspended, or not ready yet, is changed in place. What the applications do cannot be seen from here: they are taken to
run as soon as their cluster does.
"""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import SERVICES
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import Key, annotations_of, controller_reference, is_deleting, uid_of
from gpuaas.runtime.values import template_hash
from gpuaas.runtime.writes import merge_diff, write_status

RAY_SERVICES = Resource("ray.io", "v1", "rayservices", True, "RayService")
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", True, "RayCluster")
_OURS = "ray.io/kuberay-operator"
_HASH = "ray.io/hash-without-replicas-and-workers-to-delete"
_PASSED_ON = ("gpuaas.dev/start-seconds", "kueue.x-k8s.io/elastic-job")
_SIZES = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
_PORT = 8000

View = Mapping[str, Any]


def shape_of(config: View) -> str:
    """The fields whose change replaces the cluster: all but its size and whether it runs."""
    groups = [
        {key: value for key, value in group.items() if key not in _SIZES}
        for group in config.get("workerGroupSpecs") or ()
    ]
    kept = {key: value for key, value in config.items() if key != "suspend"}
    return template_hash({**kept, "workerGroupSpecs": groups})


def wanted_cluster(service: View, name: str) -> Object:
    metadata, config = service["metadata"], service["spec"]["rayClusterConfig"]
    wishes = {key: value for key, value in annotations_of(service).items() if key in _PASSED_ON}
    made: Object = {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": {"ray.io/originated-from-cr-name": metadata["name"], "ray.io/originated-from-crd": "RayService"},
        "annotations": {**wishes, _HASH: shape_of(config)},
        "ownerReferences": [controller_reference(service, RAY_SERVICES)],
    }
    return {"apiVersion": RAY_CLUSTERS.api_version, "kind": "RayCluster", "metadata": made, "spec": dict(config)}


def wanted_service(service: View, cluster: str) -> Object:
    metadata = service["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"{metadata['name'][:50]}-serve-svc",
            "namespace": metadata["namespace"],
            "ownerReferences": [controller_reference(service, RAY_SERVICES)],
        },
        "spec": {
            "selector": {"ray.io/cluster": cluster},
            "ports": [{"name": "serve", "port": _PORT, "targetPort": _PORT}],
        },
    }


def is_ready(cluster: View | None) -> bool:
    return cluster is not None and (cluster.get("status") or {}).get("state") == "ready"


def decide_status(service: View, active: View | None, pending: View | None, now: str) -> Object:
    ready = is_ready(active)
    endpoints = 1 + int((((active or {}).get("status") or {}).get("readyWorkerReplicas")) or 0) if ready else 0
    before = {each["type"]: each for each in (service.get("status") or {}).get("conditions") or ()}
    wanted = {"Ready": _readiness(ready, before.get("Ready")), "UpgradeInProgress": _upgrade(active, pending)}
    generation = service["metadata"].get("generation", 1)
    conditions = []
    for kind, (holds, reason, message) in wanted.items():
        state, known = "True" if holds else "False", before.get(kind)
        since = known["lastTransitionTime"] if known is not None and known["status"] == state else now
        condition = {"type": kind, "status": state, "reason": reason, "message": message}
        conditions.append({**condition, "lastTransitionTime": since, "observedGeneration": generation})
    status: Object = {"conditions": conditions, "observedGeneration": generation, "numServeEndpoints": endpoints}
    if ready:
        status["serviceStatus"] = "Running"
    for part, cluster in (("activeServiceStatus", active), ("pendingServiceStatus", pending)):
        if cluster is not None:
            status[part] = _told_of(cluster)
    return status


def _readiness(ready: bool, before: View | None) -> tuple[bool, str, str]:
    if ready:
        return True, "NonZeroServeEndpoints", "Number of serve endpoints is greater than 0"
    if before is not None and before["reason"] != "Initializing":
        return False, "ZeroServeEndpoints", "Number of serve endpoints dropped to 0"
    return False, "Initializing", "RayService is initializing"


def _upgrade(active: View | None, pending: View | None) -> tuple[bool, str, str]:
    if active is not None and pending is not None:
        return True, "BothActivePendingClustersExist", "Both active and pending Ray clusters exist"
    return False, "NoPendingCluster", "No pending Ray cluster"


def _told_of(cluster: View) -> Object:
    found = cluster.get("status") or {}
    shown = {key: found[key] for key in ("state", "head", "desiredWorkerReplicas") if key in found}
    return {"rayClusterName": cluster["metadata"]["name"], "rayClusterStatus": shown}


class RayServiceController(Controller):
    name = "rayservice-controller"
    component = "rayservice-controller"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._services = self.follow(deps.informers.of(RAY_SERVICES))
        self._clusters = self.follow(deps.informers.of(RAY_CLUSTERS), owner_key("RayService"))
        self._endpoints = deps.informers.of(SERVICES)
        self._followed.append(self._endpoints)

    async def reconcile(self, key: Key) -> Requeue | None:
        service = self._services.get(*key)
        if service is None or not service.get("spec") or is_deleting(service):
            return None
        if (service["spec"].get("managedBy") or _OURS) != _OURS:
            return None
        active, pending = self._known(service)
        active, pending = await self._make(service, active, pending)
        if active is not None and is_ready(active):
            await self._serve(service, active["metadata"]["name"])
        status = decide_status(service, active, pending, rfc3339(self.clock.now()))
        await write_status(self.client, RAY_SERVICES, service, status)
        kept = {uid_of(each) for each in (active, pending) if each is not None}
        for cluster in self._clusters.owned_by(uid_of(service)):
            if uid_of(cluster) not in kept and not is_deleting(cluster):
                await self._remove(cluster)
        return None

    def _known(self, service: Object) -> tuple[Object | None, Object | None]:
        """(the cluster that serves, the one that shall). One that is ready takes over."""
        owned = [each for each in self._clusters.owned_by(uid_of(service)) if not is_deleting(each)]
        owned.sort(key=lambda each: (str(each["metadata"]["creationTimestamp"]), str(each["metadata"]["name"])))
        recorded = ((service.get("status") or {}).get("activeServiceStatus") or {}).get("rayClusterName")
        active = next((each for each in owned if each["metadata"]["name"] == recorded), owned[0] if owned else None)
        others = [each for each in owned if each is not active]
        pending = others[-1] if others else None
        return (pending, None) if pending is not None and is_ready(pending) else (active, pending)

    async def _make(
        self, service: Object, active: Object | None, pending: Object | None
    ) -> tuple[Object | None, Object | None]:
        shape = shape_of(service["spec"]["rayClusterConfig"])
        if active is None:
            return await self._create(service, shape), None
        suspended = service["spec"]["rayClusterConfig"].get("suspend")
        if suspended or not is_ready(active) or annotations_of(active).get(_HASH) == shape:
            return await self._bring_in_line(service, active), None
        if pending is None:
            return active, await self._create(service, shape)
        return active, await self._bring_in_line(service, pending)

    async def _create(self, service: Object, shape: str) -> Object | None:
        metadata = service["metadata"]
        suffix = template_hash({"uid": uid_of(service), "shape": shape, "now": rfc3339(self.clock.now())})[:5]
        wanted = wanted_cluster(service, f"{metadata['name'][:40]}-{suffix}")
        try:
            made = await self.client.create(RAY_CLUSTERS, wanted, metadata["namespace"])
        except AlreadyExists:
            return None
        words = f"Created the RayCluster {metadata['namespace']}/{made['metadata']['name']}"
        self.recorder.event(RAY_SERVICES, service, NORMAL, "CreatedRayCluster", words)
        return made

    async def _bring_in_line(self, service: Object, cluster: Object) -> Object:
        name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
        wanted = wanted_cluster(service, name)
        patch: Object = {}
        if annotations_of(cluster).get(_HASH) != annotations_of(wanted)[_HASH]:
            patch = {"metadata": {"annotations": wanted["metadata"]["annotations"]}}
            patch["spec"] = merge_diff(cluster["spec"], {**cluster["spec"], **wanted["spec"]})
        elif not wanted["spec"].get("enableInTreeAutoscaling") and _sizes(cluster["spec"]) != _sizes(wanted["spec"]):
            patch["spec"] = {"workerGroupSpecs": wanted["spec"].get("workerGroupSpecs")}
        if bool(cluster["spec"].get("suspend")) != bool(wanted["spec"].get("suspend")):
            patch["spec"] = {**patch.get("spec", {}), "suspend": bool(wanted["spec"].get("suspend"))}
        if not patch:
            return cluster
        return await self.client.patch(RAY_CLUSTERS, name, patch, namespace)

    async def _serve(self, service: Object, cluster: str) -> None:
        wanted = wanted_service(service, cluster)
        name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
        known = self._endpoints.get(namespace, name)
        if known is None:
            try:
                await self.client.create(SERVICES, wanted, namespace)
            except AlreadyExists:
                return
        elif known["spec"].get("selector") != wanted["spec"]["selector"]:
            await self.client.patch(SERVICES, name, {"spec": {"selector": wanted["spec"]["selector"]}}, namespace)

    async def _remove(self, cluster: Object) -> None:
        metadata = cluster["metadata"]
        try:
            await self.client.delete(
                RAY_CLUSTERS,
                metadata["name"],
                metadata["namespace"],
                uid=uid_of(cluster),
                propagation=Propagation.FOREGROUND,
            )
        except NotFound:
            return


def _sizes(spec: View) -> list[tuple[Any, ...]]:
    return [tuple(group.get(key) for key in _SIZES) for group in spec.get("workerGroupSpecs") or ()]
