"""The hub's queues on its workers: what a job needs there to be admitted, kept equal to the hub.

A ClusterQueue is mirrored to a cluster when one of its checks is MultiKueue's and the check's MultiKueueConfig names the
cluster, without its checks, with its flavors, their topologies, its LocalQueues, their namespaces, and all priority
classes (one that differs would make MultiKueue and the worker rewrite a job's priority for ever). Quotas are cut to what
the cluster has, so that a worker admits only what its nodes can run. A cluster that leaves the config keeps its queues:
what runs there is finished there. A queue that is deleted on the hub is deleted there; Kueue lets its last jobs end.

Only what carries the label of this module is changed; an object of the same name with another origin is left alone,
and where it differs the add-on's condition says so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.base.errors import ApiError, NotFound
from gpuaas.base.quantity import parse_quantity
from gpuaas.client.kubeconfig import KubeconfigError
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
)
from gpuaas.client.ocm import ADD_ONS, MANAGED_CLUSTERS, MULTIKUEUE_CONFIGS
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import NAMESPACES, SECRETS
from gpuaas.fleet.hub.addons import APPLIED
from gpuaas.fleet.hub.applying import difference, keep, remove
from gpuaas.fleet.hub.names import (
    ADD_ON,
    AGENT_SECRET,
    MIRRORED,
    MULTIKUEUE_CHECK,
    condition,
    is_local,
    with_conditions,
)
from gpuaas.fleet.hub.trouble import Trouble
from gpuaas.fleet.hub.workers import Workers
from gpuaas.kueue.multikueue.names import HUB
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.informer import Informers
from gpuaas.runtime.metadata import annotations_of, is_deleting, labels_of, uid_of
from gpuaas.runtime.writes import write_status

OFF: Final = "gpuaas.dev/mirror"  # annotation of a ClusterQueue; "off" leaves it to the workers' admins
LOOK_AGAIN: Final = 30.0  # seconds until drift on a worker is found
_TOGETHER: Final = 0.2
_RETRY: Final = 5.0
_NAMED: Final = 5
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


@dataclass(slots=True)
class Hub:
    """What the hub has of the kinds that are mirrored."""

    queues: Sequence[Object] = ()
    local_queues: Sequence[Object] = ()
    flavors: Mapping[str, Object] = field(default_factory=dict)
    topologies: Mapping[str, Object] = field(default_factory=dict)
    priorities: Sequence[Object] = ()
    namespaces: Mapping[str, Object] = field(default_factory=dict)
    checks: Mapping[str, Object] = field(default_factory=dict)
    configs: Mapping[str, Object] = field(default_factory=dict)

    def goes_to(self, queue: Mapping[str, Any], cluster: str) -> bool:
        """Whether jobs of the queue may be sent to the cluster."""
        if is_deleting(queue) or annotations_of(queue).get(OFF) == "off":
            return False
        return cluster in ((self.config_of(queue).get("spec") or {}).get("clusters") or ())

    def config_of(self, queue: Mapping[str, Any]) -> Mapping[str, Any]:
        return config_of(queue, self.checks.get, self.configs.get) or {}


def config_of(
    queue: Mapping[str, Any], check: Callable[[str], Object | None], config: Callable[[str], Object | None]
) -> Object | None:
    """The MultiKueueConfig of the queue's MultiKueue check; a queue has at most one such check."""
    for name in checks_of(queue):
        spec = (check(name) or {}).get("spec") or {}
        if spec.get("controllerName") == MULTIKUEUE_CHECK:
            return config(str((spec.get("parameters") or {}).get("name") or ""))
    return None


def checks_of(queue: Mapping[str, Any]) -> list[str]:
    spec = queue.get("spec") or {}
    strategy = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return [*(str(each.get("name", "")) for each in strategy), *(spec.get("admissionChecks") or ())]


Wanted = list[tuple[Resource, Object]]


def wanted_objects(hub: Hub, cluster: str, allocatable: Mapping[str, str]) -> Wanted:
    """What the cluster should have, in the order in which it is made."""
    queues = sorted((q for q in hub.queues if hub.goes_to(q, cluster)), key=lambda q: str(q["metadata"]["name"]))
    if not queues:
        return []
    names = {q["metadata"]["name"] for q in queues}
    flavors = sorted({f["name"] for q in queues for g in _groups(q) for f in g.get("flavors") or ()})
    known = [hub.flavors[name] for name in flavors if name in hub.flavors]
    topologies = sorted({str(f["spec"]["topologyName"]) for f in known if (f.get("spec") or {}).get("topologyName")})
    local = [q for q in hub.local_queues if (q.get("spec") or {}).get("clusterQueue") in names and not is_deleting(q)]
    namespaces = sorted({q["metadata"]["namespace"] for q in local})
    found: Wanted = [(NAMESPACES, _copy(hub.namespaces[name], {})) for name in namespaces if name in hub.namespaces]
    found += [(TOPOLOGIES, _with_spec(hub.topologies[name])) for name in topologies if name in hub.topologies]
    found += [(RESOURCE_FLAVORS, _with_spec(each)) for each in known]
    for each in sorted(hub.priorities, key=lambda p: str(p["metadata"]["name"])):
        body: Object = {key: each[key] for key in ("value", "description") if key in each}
        found.append((PRIORITY_CLASSES, _copy(each, body)))
    for each in queues:
        automated = (hub.config_of(each).get("spec") or {}).get("quotaManagement") == "Automated"
        found.append((CLUSTER_QUEUES, mirrored_queue(each, allocatable, automated=automated)))
    order = sorted(local, key=lambda q: (q["metadata"]["namespace"], q["metadata"]["name"]))
    found += [(LOCAL_QUEUES, _with_spec(each)) for each in order]
    return found


def mirrored_queue(queue: Mapping[str, Any], allocatable: Mapping[str, str], *, automated: bool = False) -> Object:
    """`automated`: the hub's quota follows this one (module quotas), which is then all that the cluster has."""
    spec = {k: v for k, v in queue["spec"].items() if k not in ("admissionChecksStrategy", "admissionChecks")}
    spec["resourceGroups"] = [_cut(group, allocatable, automated=automated) for group in _groups(queue)]
    return _copy(queue, {"spec": spec})


def _cut(group: Mapping[str, Any], allocatable: Mapping[str, str], *, automated: bool) -> Object:
    flavors = [
        {
            **flavor,
            "resources": [
                _cut_resource(each, allocatable, automated=automated) for each in flavor.get("resources") or ()
            ],
        }
        for flavor in group.get("flavors") or ()
    ]
    return {**group, "flavors": flavors}


def _cut_resource(resource: Mapping[str, Any], allocatable: Mapping[str, str], *, automated: bool) -> Object:
    """Not more than the cluster has; a resource it does not have at all is none. Unknown while no node has been seen."""
    if not allocatable:
        return dict(resource)
    has = parse_quantity(str(allocatable.get(resource["name"], "0")))
    if automated:
        return {"name": resource["name"], "nominalQuota": str(has)}
    asked = parse_quantity(str(resource.get("nominalQuota", "0")))
    return dict(resource) if asked.nano <= has.nano else {**resource, "nominalQuota": str(has)}


def _groups(queue: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (queue.get("spec") or {}).get("resourceGroups") or ()


def _with_spec(obj: Mapping[str, Any]) -> Object:
    return _copy(obj, {"spec": obj.get("spec") or {}})


def _copy(obj: Mapping[str, Any], body: Mapping[str, Any]) -> Object:
    metadata = obj["metadata"]
    labels = {key: value for key, value in labels_of(obj).items() if key != _NAME_LABEL}
    kept: Object = {"name": metadata["name"], "labels": {**labels, MIRRORED: "true"}}
    if metadata.get("namespace"):
        kept["namespace"] = metadata["namespace"]
    return {"metadata": kept, **body}


@dataclass(slots=True)
class Outcome:
    kept: int = 0
    foreign: list[str] = field(default_factory=list)


async def apply(client: Client, wanted: Wanted, hub_uid: str) -> Outcome:
    """Makes the worker have them; objects of another origin are only compared."""
    outcome = Outcome()
    for resource, obj in wanted:
        metadata = obj["metadata"]
        try:
            known = await client.get(resource, metadata["name"], metadata.get("namespace", ""))
        except NotFound:
            known = None
        if known is not None and not _is_of(known, hub_uid):
            body = {key: value for key, value in obj.items() if key != "metadata"}
            if difference(known, {**body, "metadata": {}}):
                outcome.foreign.append(f"{resource.kind} {metadata['name']}")
            continue
        await keep(client, resource, {**obj, "metadata": {**metadata, "annotations": {HUB: hub_uid}}})
        outcome.kept += 1
    return outcome


def _is_of(obj: Mapping[str, Any], hub_uid: str) -> bool:
    """Whether this hub keeps the object; another hub's is foreign here."""
    return labels_of(obj).get(MIRRORED) == "true" and annotations_of(obj).get(HUB, hub_uid) == hub_uid


async def sweep(client: Client, hub: Hub, hub_uid: str) -> None:
    """Deletes mirrored queues that this hub has no more; another hub's are its own matter."""
    names = {each["metadata"]["name"] for each in hub.queues}
    local_names = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in hub.local_queues}
    for each in (await client.list(LOCAL_QUEUES, labels=f"{MIRRORED}=true")).items:
        metadata = each["metadata"]
        if (metadata["namespace"], metadata["name"]) not in local_names and _is_of(each, hub_uid):
            await remove(client, LOCAL_QUEUES, metadata["name"], metadata["namespace"])
    for each in (await client.list(CLUSTER_QUEUES, labels=f"{MIRRORED}=true")).items:
        if each["metadata"]["name"] not in names and not is_deleting(each) and _is_of(each, hub_uid):
            await remove(client, CLUSTER_QUEUES, each["metadata"]["name"])


def described(outcome: Outcome) -> Object:
    """The add-on's condition. A foreign object does not make it fail: a worker's admin may want another quota."""
    words = "manifests of addon are applied successfully"
    if outcome.foreign:
        named = ", ".join(outcome.foreign[:_NAMED])
        words += f"; not ours and different from the hub's: {named} (label {MIRRORED}=true hands them over)"
    return condition(APPLIED, "True", "AddonManifestApplied", words)


class MirrorController(Controller):
    """Keys are clusters."""

    name = "queue-mirror"
    workers = 8

    def __init__(self, deps: Deps, workers: Workers) -> None:
        super().__init__(deps)
        self._workers = workers
        self._read = _Reader(deps.informers)
        of = deps.informers.of
        self._clusters = self.follow(of(MANAGED_CLUSTERS), lambda c: (c["metadata"]["name"],), by=_decides)
        self._add_ons = self.follow(of(ADD_ONS), _of_add_on, by=lambda each: each["metadata"]["uid"])
        self.follow(of(SECRETS), _of_cluster)
        for resource in self._read.resources:
            self.follow(of(resource), lambda _: self._all(), delay=_TOGETHER, by=_content)
        self._trouble = Trouble(deps, "mirror")

    def _all(self) -> Iterable[str]:
        return [each["metadata"]["name"] for each in self._clusters.all()]

    async def reconcile(self, key: str) -> Requeue | None:
        cluster = self._clusters.get("", key)
        if cluster is None or is_deleting(cluster) or is_local(cluster):
            return None
        hub = self._read.hub()
        wanted = wanted_objects(hub, key, (cluster.get("status") or {}).get("allocatable") or {})
        try:
            client = self._workers.of(key)
            if client is None:
                return None
            outcome = await apply(client, wanted, self._read.uid())
            await sweep(client, hub, self._read.uid())
        except (ApiError, OSError, TimeoutError, KubeconfigError) as error:
            await self._trouble.note(key, error)
            await self._describe(key, condition(APPLIED, "False", "AddonManifestAppliedFailed", str(error)[:500]))
            return Requeue(_RETRY)
        await self._describe(key, described(outcome))
        await self._trouble.clear(key)
        return Requeue(LOOK_AGAIN)

    async def _describe(self, cluster: str, said: Object) -> None:
        add_on = self._add_ons.get(cluster, ADD_ON)
        if add_on is None:
            return
        status = add_on.get("status") or {}
        conditions = with_conditions(status.get("conditions"), [said], self.clock.now())
        await write_status(self.client, ADD_ONS, add_on, {**status, "conditions": conditions})


class _Reader:
    """The hub's objects, from informers."""

    resources = (
        CLUSTER_QUEUES,
        LOCAL_QUEUES,
        RESOURCE_FLAVORS,
        TOPOLOGIES,
        PRIORITY_CLASSES,
        ADMISSION_CHECKS,
        MULTIKUEUE_CONFIGS,
        NAMESPACES,
    )

    def __init__(self, informers: Informers) -> None:
        self._of = informers.of

    def hub(self) -> Hub:
        return Hub(
            self._of(CLUSTER_QUEUES).all(),
            self._of(LOCAL_QUEUES).all(),
            self._by_name(RESOURCE_FLAVORS),
            self._by_name(TOPOLOGIES),
            self._of(PRIORITY_CLASSES).all(),
            self._by_name(NAMESPACES),
            self._by_name(ADMISSION_CHECKS),
            self._by_name(MULTIKUEUE_CONFIGS),
        )

    def uid(self) -> str:
        """Of this hub: of its namespace kube-system."""
        namespace = self._of(NAMESPACES).get("", "kube-system")
        return uid_of(namespace) if namespace is not None else ""

    def _by_name(self, resource: Resource) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in self._of(resource).all()}


def _content(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is mirrored of an object: its status changes with every job and means nothing here."""
    metadata = obj["metadata"]
    said = (metadata.get("labels"), metadata.get("annotations"), metadata.get("deletionTimestamp"))
    return (*said, obj.get("spec"), obj.get("value"), obj.get("description"))


def _decides(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    return (cluster.get("status") or {}).get("allocatable"), cluster["metadata"].get("deletionTimestamp")


def _of_add_on(obj: Mapping[str, Any]) -> Iterable[str]:
    return (obj["metadata"]["namespace"],) if obj["metadata"]["name"] == ADD_ON else ()


def _of_cluster(secret: Mapping[str, Any]) -> Iterable[str]:
    metadata = secret["metadata"]
    return (metadata["namespace"],) if metadata["name"] == AGENT_SECRET else ()
