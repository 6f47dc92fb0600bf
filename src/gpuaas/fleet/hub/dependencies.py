"""The ConfigMaps and Secrets that a dispatched job's pod templates name go to its cluster, and go from there with it.

A copy on the worker is owned by the remote Workload (by all of them, where several jobs name it), so that the worker's
garbage collector removes it with the last of them. Only copies carry the label; an object of the same name that is the
worker's own is used as it is. Tokens of service accounts never travel. Volume claims and service accounts are not copied:
where the cluster lacks one, the Workload's annotation `gpuaas.dev/missing-on-cluster` says so, and `gpuaas why` repeats it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.kubeconfig import KubeconfigError
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.ocm import MISSING
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import CLAIMS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from gpuaas.fleet.hub.applying import MANAGER, difference
from gpuaas.fleet.hub.names import status_of
from gpuaas.fleet.hub.workers import Workers
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.metadata import Key, annotations_of, is_deleting, key_of, labels_of, owners_of, uid_of

COPY: Final = "gpuaas.dev/copied-from-hub"  # label
TOKEN: Final = "kubernetes.io/service-account-token"
_ROOT_CA: Final = "kube-root-ca.crt"  # every namespace has its cluster's own
_MOST: Final = 100  # objects of one workload
_AGAIN: Final = 0.5
_LOOK_AGAIN: Final = 15.0
_WORDS: Final = 1_000


@dataclass(frozen=True, slots=True, order=True)
class Named:
    """One object that a pod template names."""

    kind: str
    name: str
    optional: bool = False


_RESOURCES: Final = {
    "ConfigMap": CONFIG_MAPS,
    "Secret": SECRETS,
    "PersistentVolumeClaim": CLAIMS,
    "ServiceAccount": SERVICE_ACCOUNTS,
}
_COPIED: Final = ("ConfigMap", "Secret")


def named_by(workload: Mapping[str, Any]) -> list[Named]:
    """Each object once, by kind and name; one that any place needs is not optional."""
    found: dict[tuple[str, str], Named] = {}
    for pod_set in (workload.get("spec") or {}).get("podSets") or ():
        for each in _in_template((pod_set.get("template") or {}).get("spec") or {}):
            known = found.get((each.kind, each.name))
            if each.name and each.name != _ROOT_CA and (known is None or known.optional):
                found[each.kind, each.name] = each
    return sorted(found.values())


def _in_template(spec: Mapping[str, Any]) -> Iterator[Named]:
    for volume in spec.get("volumes") or ():
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            yield from _in_source(source, "configMap", "secret")
        if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            yield Named("PersistentVolumeClaim", claim)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            yield from _in_source(source, "configMapRef", "secretRef")
        for variable in container.get("env") or ():
            yield from _in_source(variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")
    for each in spec.get("imagePullSecrets") or ():
        yield Named("Secret", each.get("name", ""), optional=True)  # a pod starts without one that is missing
    account = spec.get("serviceAccountName") or "default"
    if account != "default":
        yield Named("ServiceAccount", account)


def _in_source(source: Mapping[str, Any], config_map: str, secret: str) -> Iterator[Named]:
    for kind, key in (("ConfigMap", config_map), ("Secret", secret)):
        if found := source.get(key):
            yield Named(kind, str(found.get("name") or found.get("secretName") or ""), bool(found.get("optional")))


def copy_of(obj: Mapping[str, Any], owner: Object) -> Object:
    """What is made on the worker."""
    metadata = obj["metadata"]
    kept = {key: obj[key] for key in ("data", "binaryData", "immutable", "type") if key in obj}
    labels = {**labels_of(obj), COPY: "true"}
    head = {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels, "ownerReferences": [owner]}
    return {"metadata": head, **kept}


def owner_of(remote: Mapping[str, Any]) -> Object:
    """The remote Workload, as owner of what its pods need."""
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "name": remote["metadata"]["name"],
        "uid": uid_of(remote),
    }


class DependencyController(Controller):
    name = "job-dependencies"
    component = "multikueue"
    workers = 4

    def __init__(self, deps: Deps, workers: Workers) -> None:
        super().__init__(deps)
        self._workers = workers
        self._workloads = self.follow(deps.informers.of(WORKLOADS), _dispatched, by=_decides)

    async def reconcile(self, key: Key) -> Requeue | None:
        workload = self._workloads.get(*key)
        if workload is None or is_deleting(workload) or status_of(workload, "Finished") == "True":
            return None
        needed = named_by(workload)[:_MOST]
        clusters = clusters_of(workload)
        if not needed or not clusters:
            return None
        missing: list[str] = []
        waits = False
        for cluster in clusters:
            try:
                client = self._workers.of(cluster)
                if client is None:
                    continue  # wired by hand: what its pods need is its admin's matter
                remote = await client.get(WORKLOADS, key.name, key.namespace)
                missing += await self._bring(client, cluster, key.namespace, needed, owner_of(remote))
            except NotFound:
                waits = True  # its copy is being made
            except (ApiError, OSError, TimeoutError, KubeconfigError):
                waits = True  # the connection's own controllers say what is wrong
        await self._note(workload, missing)
        return Requeue(_AGAIN) if waits else Requeue(_LOOK_AGAIN) if missing else None

    async def _bring(
        self, client: Client, cluster: str, namespace: str, needed: Sequence[Named], owner: Object
    ) -> list[str]:
        """What is missing, in words."""
        missing = []
        for each in needed:
            resource = _RESOURCES[each.kind]
            there = await _find(client, resource, each.name, namespace)
            if each.kind not in _COPIED:
                if there is None:
                    missing.append(f'{each.kind} "{each.name}" does not exist on cluster {cluster}')
                continue
            if there is not None and COPY not in labels_of(there):
                continue  # the worker's own
            here = await _find(self.client, resource, each.name, namespace)
            if here is None or here.get("type") == TOKEN:
                if there is None and not each.optional:
                    missing.append(f'{each.kind} "{each.name}" exists neither here nor on cluster {cluster}')
                continue
            await _put(client, resource, copy_of(here, owner), there)
        return missing

    async def _note(self, workload: Object, missing: Sequence[str]) -> None:
        words = "; ".join(missing)[:_WORDS] or None
        if annotations_of(workload).get(MISSING) == words:
            return
        key = key_of(workload)
        try:
            await self.client.patch(WORKLOADS, key.name, {"metadata": {"annotations": {MISSING: words}}}, key.namespace)
        except NotFound:
            return
        if words:
            self.recorder.event(WORKLOADS, workload, WARNING, "MissingDependency", f"Pods cannot start: {words}")


def clusters_of(workload: Mapping[str, Any]) -> tuple[str, ...]:
    """Where it is, or where it is offered."""
    status = workload.get("status") or {}
    chosen = status.get("clusterName")
    return (chosen,) if chosen else tuple(status.get("nominatedClusterNames") or ())


async def _find(client: Client, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None


async def _put(client: Client, resource: Resource, wanted: Object, there: Object | None) -> None:
    metadata = wanted["metadata"]
    if there is None:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **wanted}
        try:
            await client.create(resource, whole, metadata["namespace"], field_manager=MANAGER)
        except AlreadyExists:
            return  # another job named it at the same moment; the next look adds the owner
        return
    patch = difference(there, wanted)
    (owner,) = metadata["ownerReferences"]
    if all(each.get("uid") != owner["uid"] for each in owners_of(there)):
        version = there["metadata"]["resourceVersion"]
        owners = [*owners_of(there), owner]
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": version, "ownerReferences": owners}
    if there.get("immutable"):
        patch = {key: value for key, value in patch.items() if key == "metadata"}
    if patch:
        await client.patch(resource, metadata["name"], patch, metadata["namespace"], field_manager=MANAGER)


def _dispatched(workload: Mapping[str, Any]) -> Iterable[Key]:
    return (key_of(workload),) if clusters_of(workload) else ()


def _decides(workload: Mapping[str, Any]) -> tuple[Any, ...]:
    return clusters_of(workload), workload["metadata"].get("deletionTimestamp"), status_of(workload, "Finished")
