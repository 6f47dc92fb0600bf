"""A hub's quota that follows its workers' (KEP-9988): a ClusterQueue whose MultiKueueConfig says `quotaManagement: Automated`.

Its nominal quota becomes the sum of what the ClusterQueues behind the same LocalQueues have on the connected workers, over
all their flavors, each ClusterQueue once a worker; limits on borrowing and lending are taken away, as upstream does. It needs
exactly one flavor. On the workers, mirrored queues then have what the cluster has (module mirror) in place of a cut of the
hub's. The condition `MultiKueueManagerQuotaAutomation` says how it went.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.errors import ApiError, NotFound
from gpuaas.base.quantity import Quantity, parse_quantity
from gpuaas.client.kubeconfig import KubeconfigError
from gpuaas.client.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES
from gpuaas.client.ocm import MANAGED_CLUSTERS, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS
from gpuaas.client.protocol import Client, Object
from gpuaas.fleet.hub.mirror import config_of
from gpuaas.fleet.hub.names import condition, status_of, with_conditions
from gpuaas.fleet.hub.workers import Workers
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, is_deleting, key_of
from gpuaas.runtime.writes import write_status

CONDITION: Final = "MultiKueueManagerQuotaAutomation"
_ONE_FLAVOR: Final = "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"
_EVERY: Final = 30.0
_TOGETHER: Final = 0.3

Totals = dict[str, Quantity]


def is_automated(config: Mapping[str, Any] | None) -> bool:
    return ((config or {}).get("spec") or {}).get("quotaManagement") == "Automated"


def flavors_of(queue: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    groups = (queue.get("spec") or {}).get("resourceGroups") or ()
    return [flavor for group in groups for flavor in group.get("flavors") or ()]


def quota_of(queue: Mapping[str, Any]) -> Totals:
    """Of all flavors together, by resource."""
    total: Totals = {}
    for flavor in flavors_of(queue):
        for each in flavor.get("resources") or ():
            amount = parse_quantity(str(each.get("nominalQuota", "0")))
            total[each["name"]] = total[each["name"]] + amount if each["name"] in total else amount
    return total


def followed(queue: Mapping[str, Any], totals: Totals) -> tuple[list[Object] | None, Object]:
    """The resource groups the hub's queue should have, None where it cannot follow; and the condition."""
    if len(flavors_of(queue)) != 1:
        return None, condition(CONDITION, "False", "UnsupportedConfiguration", _ONE_FLAVOR)
    (group,) = queue["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    uncovered = sorted(set(totals) - set(group["coveredResources"]))
    if uncovered:
        words = f"manager-side coveredResources is missing resources configured on workers: [{' '.join(uncovered)}]"
        return None, condition(CONDITION, "False", "UnsupportedConfiguration", words)
    resources = [
        {"name": each["name"], "nominalQuota": str(totals[each["name"]]) if each["name"] in totals else "0"}
        for each in flavor["resources"]
    ]
    said = condition(CONDITION, "True", "QuotaAutomated", "The quota follows the workers'")
    return [{**group, "flavors": [{"name": flavor["name"], "resources": resources}]}], said


class QuotaController(Controller):
    """Keys are the hub's ClusterQueues."""

    name = "multikueue-quota"

    def __init__(self, deps: Deps, workers: Workers) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._workers = workers
        self._queues = self.follow(of(CLUSTER_QUEUES), by=lambda queue: queue.get("spec"))
        self._locals = self.follow(of(LOCAL_QUEUES), _queue_of, by=lambda queue: queue.get("spec"))
        self._checks = self.follow(of(ADMISSION_CHECKS), lambda _: self._all(), by=lambda check: check.get("spec"))
        self._configs = self.follow(of(MULTIKUEUE_CONFIGS), lambda _: self._all(), delay=_TOGETHER)
        self._connections = self.follow(of(MULTIKUEUE_CLUSTERS), lambda _: self._all(), delay=_TOGETHER)
        self.follow(
            of(MANAGED_CLUSTERS),
            lambda _: self._all(),
            delay=_TOGETHER,
            by=lambda cluster: (cluster.get("status") or {}).get("allocatable"),
        )

    def _all(self) -> Iterable[Key]:
        return [key_of(each) for each in self._queues.all()]

    async def reconcile(self, key: Key) -> Requeue | None:
        queue = self._queues.get("", key.name)
        if queue is None or is_deleting(queue):
            return None
        config = config_of(queue, self._check, self._config)
        if not is_automated(config) or config is None:
            return None
        totals = await self._sum(queue, config["spec"]["clusters"])
        groups, said = followed(queue, totals)
        if groups is not None and groups != queue["spec"].get("resourceGroups"):
            version = queue["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"resourceGroups": groups}}
            queue = await self.client.patch(CLUSTER_QUEUES, key.name, patch)
        status = queue.get("status") or {}
        conditions = with_conditions(status.get("conditions"), [said], self.clock.now())
        await write_status(self.client, CLUSTER_QUEUES, queue, {**status, "conditions": conditions})
        return Requeue(_EVERY)

    def _check(self, name: str) -> Object | None:
        return self._checks.get("", name)

    def _config(self, name: str) -> Object | None:
        return self._configs.get("", name)

    async def _sum(self, queue: Object, clusters: Sequence[str]) -> Totals:
        """Over the connected workers; one that does not answer counts nothing, at once."""
        names = [
            key_of(each)
            for each in self._locals.all()
            if (each.get("spec") or {}).get("clusterQueue") == queue["metadata"]["name"]
        ]
        total: Totals = {}
        for cluster in clusters:
            if status_of(self._connections.get("", cluster), "Active") != "True":
                continue
            try:
                client = self._workers.of(cluster)
                found = await _queues_behind(client, names) if client is not None else ()
            except (ApiError, OSError, TimeoutError, KubeconfigError):
                continue
            for each in found:
                for name, amount in quota_of(each).items():
                    total[name] = total[name] + amount if name in total else amount
        return total


async def _queues_behind(client: Client, names: Iterable[Key]) -> list[Object]:
    """The ClusterQueues that these LocalQueues lead to on a worker, each once."""
    found: dict[str, Object] = {}
    for key in names:
        try:
            local = await client.get(LOCAL_QUEUES, key.name, key.namespace)
            name = str((local.get("spec") or {}).get("clusterQueue") or "")
            if name not in found:
                found[name] = await client.get(CLUSTER_QUEUES, name)
        except NotFound:
            continue
    return list(found.values())


def _queue_of(local: Mapping[str, Any]) -> Iterable[Key]:
    return (Key("", str((local.get("spec") or {}).get("clusterQueue") or "")),)
