"""The book of nodes: what each offers, and which pods hold how much of it.

`Ask` is a pod as far as placing it is concerned, read once. The book changes only through its methods, so that what is
used is always the sum over the pods it lists; a pod is on one node at most. Decisions are in `place`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gpuaas.base.memo import Repeats
from gpuaas.nodefit.amounts import PODS, Amounts, allocatable_of, requests_of
from gpuaas.nodefit.constraints import NodeAffinity, Tolerations

View = Mapping[str, Any]
Port = tuple[str, str, int]  # address, protocol, number
# What reading an object raises that has not the shape of its kind.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_FINISHED = ("Succeeded", "Failed")
_DEFAULT_PODS = 110
_compiled = Repeats[tuple[Tolerations, NodeAffinity]]()
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A pod and what it takes; `owner` is the uid of its controller."""

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: View
    requests: Amounts
    priority: int
    owner: str
    ports: frozenset[Port]
    shuns: bool  # has a required anti-affinity, which also keeps later pods away
    leaving: bool
    since: str  # when it started, or was made
    tolerations: Tolerations
    affinity: NodeAffinity

    @property
    def node(self) -> str:
        return str(self.spec.get("nodeName") or "")

    @property
    def may_preempt(self) -> bool:
        return self.spec.get("preemptionPolicy") != "Never"


def read_pod(pod: View) -> Ask:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    tolerations, node_affinity = _about_nodes(spec)
    owners = [one["uid"] for one in metadata.get("ownerReferences") or () if one.get("controller")]
    return Ask(
        uid=metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}",
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or "",
        labels=metadata.get("labels") or {},
        spec=spec,
        requests=requests_of(pod),
        priority=int(spec.get("priority") or 0),
        owner=owners[0] if owners else "",
        ports=host_ports(spec),
        shuns=bool(((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(REQUIRED)),
        leaving=bool(metadata.get("deletionTimestamp")),
        since=status.get("startTime") or metadata.get("creationTimestamp") or "",
        tolerations=tolerations,
        affinity=node_affinity,
    )


def _about_nodes(spec: View) -> tuple[Tolerations, NodeAffinity]:
    """The same for all pods of one template: compiled, and kept in memory, once."""
    tolerations, affinity = spec.get("tolerations") or (), (spec.get("affinity") or {}).get("nodeAffinity")
    said = (tolerations, spec.get("nodeSelector"), affinity)
    return _compiled.of(said, lambda: (Tolerations(tolerations), NodeAffinity(spec)))


@dataclass(slots=True, eq=False)
class Place:
    """A node: what it says of itself, and who is there."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[View] = ()
    unschedulable: bool = False
    known: bool = False  # False: only pods speak of it so far
    allocatable: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    pods: dict[str, Ask] = field(default_factory=dict)

    @property
    def most_pods(self) -> int:
        return self.allocatable.get(PODS, _DEFAULT_PODS)

    def describe(self, node: View) -> None:
        spec = node.get("spec") or {}
        self.labels = node["metadata"].get("labels") or {}
        self.taints = spec.get("taints") or ()
        self.unschedulable = bool(spec.get("unschedulable"))
        self.allocatable = allocatable_of(node)

    def free(self, resource: str) -> int:
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)

    def add(self, ask: Ask) -> None:
        self.pods[ask.uid] = ask
        for name, amount in ask.requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def remove(self, uid: str) -> None:
        ask = self.pods.pop(uid)
        for name, amount in ask.requests.items():
            self.used[name] -= amount


class Book:
    """`spares` says of a pod's uid whether nothing may evict it, whatever its priority."""

    def __init__(self, spares: Callable[[str], bool] | None = None) -> None:
        self.spares = spares or _no_one
        self._places: dict[str, Place] = {}
        self._order: list[Place] | None = None  # the known ones by name, made when asked for
        self._where: dict[str, str] = {}  # uid of a pod -> node
        self.shunning: dict[str, Ask] = {}  # the pods with a required anti-affinity
        self.shunned_terms: dict[str, Sequence[Any]] = {}  # theirs, compiled (module neighbours); by uid
        self.namespaces: dict[str, Mapping[str, str]] = {}  # their labels, for affinity across namespaces

    def __len__(self) -> int:
        return len(self.places())

    def places(self) -> Sequence[Place]:
        """The nodes that exist, in the order of their names."""
        if self._order is None:
            self._order = [self._places[name] for name in sorted(self._places) if self._places[name].known]
        return self._order

    def place(self, name: str) -> Place | None:
        found = self._places.get(name)
        return found if found is not None and found.known else None

    def put_node(self, node: View) -> None:
        place = self._at(node["metadata"]["name"])
        place.describe(node)
        if not place.known:
            place.known, self._order = True, None

    def drop_node(self, name: str) -> None:
        place = self._places.get(name)
        if place is None:
            return
        place.known, self._order = False, None
        self._tidy(place)

    def put_pod(self, pod: View) -> None:
        """A pod as it is now: one without a node, or finished, holds nothing."""
        ask = read_pod(pod)
        self.drop_pod(ask.uid)
        if ask.node and (pod.get("status") or {}).get("phase") not in _FINISHED:
            self.assume(ask, ask.node)

    def assume(self, ask: Ask, node: str) -> None:
        self.drop_pod(ask.uid)
        self._at(node).add(ask)
        if ask.shuns:
            self.shunning[ask.uid] = ask
        self._where[ask.uid] = node

    def drop_pod(self, uid: str) -> None:
        node = self._where.pop(uid, None)
        if node is not None:
            self.shunning.pop(uid, None)
            self.shunned_terms.pop(uid, None)
            self._places[node].remove(uid)
            self._tidy(self._places[node])

    def where(self, uid: str) -> str:
        return self._where.get(uid, "")

    def _at(self, name: str) -> Place:
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = Place(name)
        return place

    def _tidy(self, place: Place) -> None:
        if not place.known and not place.pods:
            self._places.pop(place.name, None)


def _no_one(_: str) -> bool:
    return False


def place_of(node: View, pods: Iterable[View]) -> Place:
    """One node with these pods on it, for who only wants to ask. A pod that cannot be read takes no room, and must not
    keep the others from theirs."""
    place = Place(node["metadata"]["name"])
    place.describe(node)
    for pod in pods:
        with suppress(*_UNREADABLE):
            place.add(read_pod(pod))
    return place


def book_of(nodes: Iterable[View], pods: Iterable[View]) -> Book:
    """A book of objects as they are, for who only wants to ask."""
    book = Book()
    for node in nodes:
        with suppress(*_UNREADABLE):
            book.put_node(node)
    for pod in pods:
        with suppress(*_UNREADABLE):
            book.put_pod(pod)
    return book


def host_ports(spec: View) -> frozenset[Port]:
    return frozenset(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
