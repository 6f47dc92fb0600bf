"""All places: topologies, nodes, what is used where, and the question whether pods find room.

Owns usage per place. Where a topology's lowest level is the host name, usage belongs to the host and counts in every
flavor that has it. Trees are built per flavor when needed and dropped when nodes or flavors change. The search itself
is `topology_fit`; what an assignment makes of the answer is `topology_assign`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpuaas.engine.queues import Queue
from gpuaas.engine.topology_count import Amounts, Requests
from gpuaas.engine.topology_fit import PODS, Ask, Domains, NoPlace, fit
from gpuaas.engine.topology_replace import joined, relocated
from gpuaas.engine.topology_tree import PlaceTree
from gpuaas.engine.topology_values import HOSTNAME, Node, Topology
from gpuaas.engine.values import Flavor, PodSet, PodSetAdmission, Workload

HOSTS = ""
"""The owner of usage that belongs to hosts rather than to one flavor."""
_KEPT = 1024  # answers for empty nodes


@dataclass(frozen=True, slots=True)
class Placed:
    """Pods at a place: which, what each of them takes there, and how many."""

    owner: str
    identity: tuple[str, ...]
    requests: Requests
    count: int
    flavor: str


@dataclass(frozen=True, slots=True)
class Found:
    """Places for each pod set asked about (by index), or the one that has none and why."""

    domains: Mapping[int, Domains]
    failure: tuple[int, str, str] | None = None
    """(index of the pod set, flavor, words)"""


class Places:
    def __init__(self, flavors: Mapping[str, Flavor]) -> None:
        self.topologies: dict[str, Topology] = {}
        self.nodes: dict[str, Node] = {}
        self._flavors = flavors
        self._usage: dict[str, defaultdict[tuple[str, ...], Amounts]] = {}
        self._trees: dict[str, PlaceTree] = {}
        self._if_empty: dict[tuple[tuple[str, tuple[Ask, ...]], ...], Found] = {}
        """Assignments on empty nodes: valid until nodes change, and needed for each pending workload."""
        self.balanced = False
        self.moved = False
        """Flavors or topologies changed: what is held may be held elsewhere."""

    def learn(self, value: Topology | Node) -> None:
        if isinstance(value, Topology):
            self.topologies[value.name] = value
            self.moved = True
        else:
            self.nodes[value.name] = value
        self._forget_trees()

    def forget(self, kind: str, name: str) -> None:
        (self.topologies if kind == "Topology" else self.nodes).pop(name, None)
        self.moved = self.moved or kind == "Topology"
        self._forget_trees()

    def flavors_changed(self) -> None:
        self._forget_trees()

    def others_take(self, name: str, amounts: Requests) -> None:
        """Pods that are not placed here take this of a node. It happens often: trees are updated, not rebuilt."""
        before = self.nodes.get(name)
        if before is None or before.other_usage == amounts:
            return
        self.nodes[name] = replace(before, other_usage=amounts)
        self._if_empty.clear()
        more = dict(amounts)
        for resource, amount in before.other_usage:
            more[resource] = more.get(resource, 0) - amount
        for name, tree in self._trees.items():
            flavor = self._flavors.get(name)
            if flavor is not None and before.usable and _offers(before, dict(flavor.node_labels), tree.levels):
                tree.take(before, more)

    def matters(self, name: str) -> bool:
        """Whether some flavor has places on the node."""
        return any(self.flavors_at(name))

    def flavors_at(self, name: str) -> Iterator[Flavor]:
        """Those that have places on the node."""
        node = self.nodes.get(name)
        if node is None:
            return
        for flavor in self._flavors.values():
            topology = self.topologies.get(flavor.topology or "")
            if topology is not None and _offers(node, dict(flavor.node_labels), topology.levels):
                yield flavor

    def missing_topology(self, flavor: Flavor) -> bool:
        return flavor.topology is not None and flavor.topology not in self.topologies

    def only(self, queue: Queue) -> bool:
        """Whether every flavor of the queue has a topology: then pods that ask for no place get one all the same."""
        names = [name for group in queue.groups for name in group.flavors]
        return bool(names) and all(self.has_places(name) for name in names)

    def has_places(self, flavor: str) -> bool:
        found = self._flavors.get(flavor)
        return found is not None and found.topology is not None and found.topology in self.topologies

    def mismatch(self, queue: Queue, pod_set: PodSet, flavor: Flavor, resources: Iterable[str]) -> str:
        """Why these pods and this flavor do not go together as to places; empty when they do."""
        request = pod_set.topology
        if request is None or not request.explicit:
            if flavor.topology is None or self.only(queue):
                return ""
            return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
        if flavor.topology is None:
            if not set(resources).intersection(name for name, _ in placement_of(pod_set)):
                return ""
            return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
        topology = self.topologies.get(flavor.topology)
        if topology is None:
            return f'Flavor "{flavor.name}" information missing in TAS cache'
        labels = {request.required, request.preferred, *(label for label, _ in request.slices)} - {None}
        if not labels.issubset(topology.levels):
            return f'Flavor "{flavor.name}" does not contain the requested level'
        return ""

    def find(self, asks: Mapping[str, list[Ask]], empty: bool = False) -> Found:
        """Places for all pod sets of a workload, one after the other, each seeing what those before it take."""
        if not empty:
            return self._search(asks, empty)
        key = tuple((flavor, tuple(group)) for flavor, group in asks.items())
        found = self._if_empty.get(key)
        if found is None:
            if len(self._if_empty) >= _KEPT:
                self._if_empty.clear()
            found = self._if_empty[key] = self._search(asks, empty)
        return found

    def _search(self, asks: Mapping[str, list[Ask]], empty: bool) -> Found:
        domains: dict[int, Domains] = {}
        by_host: dict[tuple[str, ...], Amounts] = {}
        for flavor in sorted(asks):
            tree = self._tree(flavor)
            assumed = by_host if tree.by_host else {}
            for group in _grouped(asks[flavor]):
                workers, leader = _leader_apart(group)
                try:
                    given, led = fit(tree, workers, leader, assumed, empty)
                except NoPlace as no:
                    return Found(domains, (group[0].index, flavor, str(no)))
                for ask, its in ((workers, given), (leader, led)):
                    if ask is not None:
                        domains[ask.index] = its
                        _assume(assumed, its, ask.requests)
        return Found(domains)

    def relocate(self, asks: Mapping[str, list[Ask]], held: Mapping[int, Domains], failed: str) -> Found:
        """Other places for the pods on a failed node; everything else stays where it is (`held`)."""
        domains: dict[int, Domains] = {}
        by_host: dict[tuple[str, ...], Amounts] = {}
        for flavor in sorted(asks):
            tree = self._tree(flavor)
            assumed = by_host if tree.by_host else {}
            for ask in asks[flavor]:
                try:
                    domains[ask.index], fresh = relocated(tree, ask, held[ask.index], failed, assumed)
                except NoPlace as no:
                    return Found(domains, (ask.index, flavor, str(no)))
                _assume(assumed, fresh, ask.requests)
        return Found(domains)

    def still_there(self, flavor: str, domains: Domains) -> bool:
        leaves = self._tree(flavor).leaves
        return all(values in leaves for values, _ in domains)

    def joined(self, flavor: str, kept: Domains, fresh: Domains) -> Domains:
        return joined(self._tree(flavor), kept, fresh)

    def fits(self, placed: Iterable[Placed]) -> bool:
        """Whether there still is room for pods at the very places chosen for them."""
        for place in placed:
            leaf = self._tree(place.flavor).leaves.get(place.identity)
            if leaf is None:
                return False
            free = leaf.free(empty=False)
            # The number of pods is not looked at again, as upstream does not; pods that ask for nothing fit nowhere.
            asked = [(resource, amount) for resource, amount in place.requests if resource != PODS]
            if not asked or any(amount * place.count > max(0, free.get(r, 0)) for r, amount in asked):
                return False
        return True

    def add(self, placed: Iterable[Placed]) -> None:
        self._move(placed, 1)

    def remove(self, placed: Iterable[Placed]) -> None:
        self._move(placed, -1)

    def _move(self, placed: Iterable[Placed], sign: int) -> None:
        for place in placed:
            used = self._used(place.owner)[place.identity]
            for resource, amount in place.requests:
                used[resource] = used.get(resource, 0) + sign * amount * place.count
            for flavor, tree in self._trees.items():
                if place.owner == (HOSTS if tree.by_host else flavor) and place.identity in tree.leaves:
                    tree.changed(place.identity)

    def placed(self, workload: Workload, pod_sets: Iterable[PodSetAdmission]) -> tuple[Placed, ...]:
        """What an admission takes of places."""
        by_name = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        found: list[Placed] = []
        for given in pod_sets:
            if given.domains is not None and given.name in by_name:
                flavor = next((f for _, f in given.flavors if self.has_places(f)), None)
                if flavor is not None:
                    found += self.at(flavor, given.domains, by_name[given.name])
        return tuple(found)

    def at(self, flavor: str, domains: Domains, pod_set: PodSet) -> list[Placed]:
        requests = with_pod(placement_of(pod_set))
        owner = HOSTS if self._by_host(flavor) else flavor
        return [Placed(owner, values, requests, count, flavor) for values, count in domains]

    def memento(self) -> dict[str, dict[tuple[str, ...], Amounts]]:
        return {owner: {key: dict(used) for key, used in usage.items()} for owner, usage in self._usage.items()}

    def restore(self, memento: dict[str, dict[tuple[str, ...], Amounts]]) -> None:
        self._usage = {}
        for owner, usage in memento.items():
            self._usage[owner] = defaultdict(dict, {key: dict(used) for key, used in usage.items()})
        self._forget_trees()

    def usage(self) -> dict[tuple[str, tuple[str, ...]], Amounts]:
        """What is used at each place where something is."""
        return {
            (owner, identity): kept
            for owner, usage in self._usage.items()
            for identity, used in usage.items()
            if (kept := {resource: amount for resource, amount in used.items() if amount})
        }

    def _used(self, owner: str) -> defaultdict[tuple[str, ...], Amounts]:
        if owner not in self._usage:
            self._usage[owner] = defaultdict(dict)
        return self._usage[owner]

    def _by_host(self, flavor: str) -> bool:
        topology = self.topologies[self._flavors[flavor].topology or ""]
        return topology.levels[-1] == HOSTNAME

    def _forget_trees(self) -> None:
        self._trees.clear()
        self._if_empty.clear()

    def _tree(self, flavor: str) -> PlaceTree:
        tree = self._trees.get(flavor)
        if tree is None:
            spec = self._flavors[flavor]
            topology = self.topologies[spec.topology or ""]
            tree = PlaceTree(flavor, topology.name, topology.levels, spec.tolerations)
            tree.balanced = self.balanced
            wanted = dict(spec.node_labels)
            nodes = [node for node in self.nodes.values() if node.usable and _offers(node, wanted, topology.levels)]
            tree.grow(nodes, self._used(HOSTS if tree.by_host else flavor))
            self._trees[flavor] = tree
        return tree


def placement_of(pod_set: PodSet) -> Requests:
    return pod_set.requests if pod_set.placement is None else pod_set.placement


def with_pod(requests: Requests) -> Requests:
    """What a pod takes of a node, itself as one of the node's `pods` included."""
    return (*((resource, amount) for resource, amount in requests if resource != PODS), (PODS, 1))


def _offers(node: Node, wanted: Mapping[str, str], levels: tuple[str, ...]) -> bool:
    labels = dict(node.labels)
    return all(labels.get(key) == value for key, value in wanted.items()) and all(level in labels for level in levels)


def _grouped(asks: list[Ask]) -> list[list[Ask]]:
    groups: dict[str, list[Ask]] = {}
    for position, ask in enumerate(asks):
        name = ask.request.group if ask.request is not None else None
        groups.setdefault(f"={name}" if name is not None else str(position), []).append(ask)
    return list(groups.values())


def _leader_apart(group: list[Ask]) -> tuple[Ask, Ask | None]:
    """Of two pod sets in a group the smaller one leads; of two equal ones the second."""
    if len(group) == 1:
        return group[0], None
    first, second = group[0], group[1]
    return (second, first) if second.count > first.count else (first, second)


def _assume(assumed: dict[tuple[str, ...], Amounts], domains: Domains, requests: Requests) -> None:
    for identity, count in domains:
        used = assumed.setdefault(identity, {})
        for resource, amount in requests:
            used[resource] = used.get(resource, 0) + amount * count
