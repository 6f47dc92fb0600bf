"""Keeps the nominal quota of ClusterQueues with the annotation `gpuaas.dev/quota-from: nodes` equal to what nodes offer.

A flavor stands for the nodes its nodeLabels select. Its nominal quota of each covered resource becomes the sum of what
those nodes offer as allocatable, of nodes that are ready and take pods. Resources of cards that such a node offers and no
group covers yet (slices after a MIG change, shares under a new name) are added to the group of the flavor.

What runs stays admitted when the quota falls below it, as with any change of a quota. A workload that was admitted to more
cards than there are by now and of which no pod has a node yet would hold quota and never start: it queues again.

A flavor of two such queues would be given away twice: the queue that was made first has it, the other gets an event.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.errors import NotFound
from gpuaas.base.quantity import ZERO, Quantity, parse_quantity
from gpuaas.client.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NODES, PODS
from gpuaas.devices.advertise import is_device_resource
from gpuaas.engine.lifecycle import NODE_FAILURES, evict
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.outcome import eviction_of, is_finished
from gpuaas.kueue.workload_state import conditions_of, status_with, workload_state_of
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import annotations_of, is_deleting, labels_of
from gpuaas.runtime.writes import write_status

View = Mapping[str, Any]
ANNOTATION: Final = "gpuaas.dev/quota-from"
NODES_OFFER: Final = "nodes"
_TOGETHER: Final = 0.05  # seconds: nodes that change at once are counted at once
_LATER: Final = 0.3  # seconds: what was admitted is compared with what there is when its pods had time to be placed
_BY_WORKLOAD: Final = "workload"
_MOST_RESOURCES: Final = 64  # Kueue's own limit of a group


class QuotaFromNodes(Controller):
    """Its only key is the empty one: nodes of several flavors change together."""

    name = "quota-from-nodes"
    component = "gpuaas-quota"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._queues = self.follow(deps.informers.of(CLUSTER_QUEUES), _all, by=_spec_of_queue, delay=0.01)
        self._flavors = self.follow(deps.informers.of(RESOURCE_FLAVORS), _all, by=_spec, delay=0.01)
        self._nodes = self.follow(deps.informers.of(NODES), _all, by=_offer, delay=_TOGETHER)
        self._workloads = self.follow(deps.informers.of(WORKLOADS), self._follows, by=_admission, delay=_LATER)
        self._pods = deps.informers.of(PODS)
        self._pods.add_index(_BY_WORKLOAD, _workload_of)
        self._followed.append(self._pods)

    def _follows(self, workload: View) -> Iterable[str]:
        queue = self._queues.get("", _queue_of(workload))
        return ("",) if queue is not None and _follows_nodes(queue) else ()

    async def reconcile(self, key: str) -> Requeue | None:
        queues = [one for one in self._queues.all() if _follows_nodes(one)]
        if not queues:
            return None
        taken: dict[str, str] = {}
        for queue in sorted(
            queues, key=lambda one: (one["metadata"].get("creationTimestamp", ""), one["metadata"]["name"])
        ):
            await self._settle(queue, taken)
        for queue in queues:
            await self._requeue_excess(queue)
        return None

    async def _settle(self, queue: Object, taken: dict[str, str]) -> None:
        name, groups = queue["metadata"]["name"], queue["spec"].get("resourceGroups") or ()
        offers: dict[str, Mapping[str, Quantity]] = {}
        for flavor in _flavors_of(groups):
            owner = taken.setdefault(flavor, name)
            if owner == name:
                offers[flavor] = self._offered(flavor)
                continue
            words = f"flavor {flavor} follows its nodes in ClusterQueue {owner} already: here its quota stays as it is"
            self.recorder.event(CLUSTER_QUEUES, queue, WARNING, "FlavorTaken", words)
        wanted = with_quota(groups, offers)
        if wanted == list(groups):
            return
        metadata = {"resourceVersion": queue["metadata"]["resourceVersion"]}
        await self.client.patch(CLUSTER_QUEUES, name, {"metadata": metadata, "spec": {"resourceGroups": wanted}})
        self.recorder.event(CLUSTER_QUEUES, queue, NORMAL, "QuotaFollowsNodes", in_words(offers))

    async def _requeue_excess(self, queue: Object) -> None:
        name = queue["metadata"]["name"]
        latest = self._queues.get("", name) or queue
        mine = [one for one in self._workloads.all() if _queue_of(one) == name and not is_finished(one)]
        left = _nominal(latest["spec"].get("resourceGroups") or ())
        for workload in mine:
            for key, amount in _used_cards(workload):
                left[key] = left.get(key, 0) - amount
        for workload in sorted(mine, key=_admitted_at, reverse=True):
            over = next((key for key, _ in _used_cards(workload) if left.get(key, 0) < 0), None)
            if over is None or eviction_of(workload) is not None or self._has_a_node(workload):
                continue
            for key, amount in _used_cards(workload):
                left[key] += amount
            message = f"the nodes of flavor {over[0]} do not offer its {over[1]} any more, and no pod of it had started"
            after = evict(workload_state_of(workload), NODE_FAILURES, message, round(self.clock.now() * 1000))
            with contextlib.suppress(NotFound):
                await write_status(self.client, WORKLOADS, workload, status_with(workload, after))
                self.recorder.event(WORKLOADS, workload, NORMAL, f"EvictedDueTo{NODE_FAILURES}", message)

    def _has_a_node(self, workload: View) -> bool:
        metadata = workload["metadata"]
        pods = self._pods.indexed(_BY_WORKLOAD, f"{metadata['namespace']}/{metadata['name']}")
        return any(pod["spec"].get("nodeName") for pod in pods)

    def _offered(self, flavor: str) -> Mapping[str, Quantity]:
        found = self._flavors.get("", flavor)
        selector = ((found or {}).get("spec") or {}).get("nodeLabels") or {}
        total: dict[str, Quantity] = {}
        if found is None:
            return total
        for node in self._nodes.all():
            labels = labels_of(node)
            if _takes_pods(node) and all(labels.get(key) == value for key, value in selector.items()):
                for resource, amount in ((node.get("status") or {}).get("allocatable") or {}).items():
                    total[resource] = total.get(resource, ZERO) + parse_quantity(amount)
        return total


def with_quota(groups: Sequence[View], offers: Mapping[str, Mapping[str, Quantity]]) -> list[Object]:
    """The groups with the nominal quotas of these flavors; resources of cards that are new among them are added."""
    covered = {resource for group in groups for resource in group.get("coveredResources") or ()}
    made: list[Object] = []
    for group in groups:
        names = list(group.get("coveredResources") or ())
        for flavor in group.get("flavors") or ():
            new = (
                one for one in sorted(offers.get(flavor["name"], ())) if is_device_resource(one) and one not in covered
            )
            for resource in new:
                if len(names) < _MOST_RESOURCES:
                    names.append(resource)
                    covered.add(resource)
        flavors = [_flavor(one, names, offers.get(one["name"])) for one in group.get("flavors") or ()]
        made.append({**group, "coveredResources": names, "flavors": flavors})
    return made


def _flavor(flavor: View, names: Sequence[str], offered: Mapping[str, Quantity] | None) -> Object:
    known = {one["name"]: one for one in flavor.get("resources") or ()}
    resources = []
    for name in names:
        before = known.get(name, {"name": name, "nominalQuota": "0"})
        amount = str((offered or {}).get(name, ZERO)) if offered is not None else before.get("nominalQuota", "0")
        same = parse_quantity(before.get("nominalQuota", "0")) == parse_quantity(amount)
        resources.append(before if same else {**before, "nominalQuota": amount})
    return {**flavor, "resources": resources}


def in_words(offers: Mapping[str, Mapping[str, Quantity]]) -> str:
    parts = []
    for flavor, offered in sorted(offers.items()):
        cards = ", ".join(f"{amount} {name}" for name, amount in sorted(offered.items()) if is_device_resource(name))
        parts.append(f"{flavor}: {cards or 'no cards'}")
    return "nominal quota is what the nodes offer: " + "; ".join(parts)


def _queue_of(workload: View) -> str:
    """The ClusterQueue that gave it quota."""
    admission = (workload.get("status") or {}).get("admission") or {}
    return str(admission.get("clusterQueue") or "")


def _admission(workload: View) -> Any:
    return (workload.get("status") or {}).get("admission"), eviction_of(workload) is None


def _admitted_at(workload: View) -> tuple[str, str]:
    reserved = conditions_of(workload).get("QuotaReserved") or {}
    return str(reserved.get("lastTransitionTime") or ""), workload["metadata"]["name"]


def _used_cards(workload: View) -> list[tuple[tuple[str, str], int]]:
    """By flavor and resource, of resources of cards."""
    found = []
    for pod_set in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ():
        usage = pod_set.get("resourceUsage") or {}
        for resource, flavor in (pod_set.get("flavors") or {}).items():
            if is_device_resource(resource):
                found.append(((flavor, resource), parse_quantity(usage.get(resource, "0")).value))
    return found


def _nominal(groups: Sequence[View]) -> dict[tuple[str, str], int]:
    return {
        (flavor["name"], one["name"]): parse_quantity(one.get("nominalQuota", "0")).value
        for group in groups
        for flavor in group.get("flavors") or ()
        for one in flavor.get("resources") or ()
    }


def _workload_of(pod: View) -> Iterable[str]:
    name = annotations_of(pod).get(keys.WORKLOAD)
    return (f"{pod['metadata']['namespace']}/{name}",) if name else ()


def _flavors_of(groups: Sequence[View]) -> list[str]:
    return list(dict.fromkeys(flavor["name"] for group in groups for flavor in group.get("flavors") or ()))


def _follows_nodes(queue: View) -> bool:
    return annotations_of(queue).get(ANNOTATION) == NODES_OFFER and not is_deleting(queue)


def _takes_pods(node: View) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not (node.get("spec") or {}).get("unschedulable")


def _all(_: View) -> Iterable[str]:
    return ("",)


def _spec(obj: View) -> Any:
    return obj.get("spec")


def _spec_of_queue(queue: View) -> Any:
    return annotations_of(queue).get(ANNOTATION), queue.get("spec"), is_deleting(queue)


def _offer(node: View) -> Any:
    return labels_of(node), (node.get("status") or {}).get("allocatable"), _takes_pods(node)
