"""How much of one kind of pod fits where: counts for every domain, kept from one search to the next.

Counting every node again for every question is what costs with many nodes, and workloads of a kind ask the same again
and again. So a tally is kept for what counts depend on (`Wanted`): before a search it counts again the leaves that have
changed, and adds up again only the domains above them. A search writes what it hands out into the domains it chooses;
it names them (`touched`), and they are put right before the next. Who keeps tallies, and knows what changed, is
`topology_tree`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuaas.engine.constraints import Taint, Term, Toleration, first_untolerated, term_holds

MAX_COUNT = 2**31 - 1

Amounts = dict[str, int]
Requests = tuple[tuple[str, int], ...]
Identity = tuple[str, ...]


class Leaf:
    """A node, or all nodes with the same labels together: what it has, and what is used of it."""

    __slots__ = ("capacity", "labels", "taints", "usage", "values")

    def __init__(self, values: tuple[str, ...], usage: Amounts) -> None:
        self.values = values
        self.capacity: Amounts = {}
        self.usage = usage
        self.labels: Mapping[str, str] | None = None
        """The node's labels, where the leaf is a node."""
        self.taints: tuple[Taint, ...] = ()

    def free(self, empty: bool) -> Amounts:
        """What is left of it; all of it if no pod ran there."""
        left = dict(self.capacity)
        if not empty:
            for resource, amount in self.usage.items():
                left[resource] = left.get(resource, 0) - amount
        return left


class Domain:
    """A place at some level, with its counts."""

    __slots__ = ("affinity", "children", "leaders", "parent", "pods", "pods_led", "slices", "slices_led", "values")

    def __init__(self, values: tuple[str, ...], parent: Domain | None = None) -> None:
        self.values = values
        self.parent = parent
        self.children: list[Domain] = []
        self.clear()

    def clear(self) -> None:
        self.pods = 0
        """Pods that fit."""
        self.pods_led = 0
        """Pods that fit beside a leader."""
        self.slices = 0
        self.slices_led = 0
        self.leaders = 0
        self.affinity = 0
        """How much the pods would like to be there."""


@dataclass(frozen=True, slots=True)
class Slicing:
    """In which groups pods come: the size at its level, and at each level below the size within it."""

    size: int
    level: int
    inner: tuple[int, ...]
    with_leader: bool

    def roll_up(self, domain: Domain, level: int) -> None:
        """Count a domain from its leaves up."""
        for child in domain.children:
            self.roll_up(child, level + 1)
        self.add_up(domain, level)

    def add_up(self, domain: Domain, level: int) -> None:
        """A parent takes what its children take; one of them pays for the leader, the one it costs least."""
        if domain.children:
            self._gather(domain, self.inner[level + 1])
        if level == self.level:
            domain.slices, domain.slices_led = domain.pods // self.size, domain.pods_led // self.size

    def _gather(self, domain: Domain, inner: int) -> None:
        pods = slices = affinity = 0
        for child in domain.children:
            pods += child.pods // inner * inner
            slices += child.slices
            affinity += child.affinity
        domain.pods, domain.slices, domain.affinity = pods, slices, affinity
        if not self.with_leader:
            domain.pods_led, domain.slices_led, domain.leaders = pods, slices, 0
            return
        led = [child for child in domain.children if child.leaders]
        costs = [child.pods // inner * inner - child.pods_led // inner * inner for child in led]
        domain.pods_led = pods - min(costs) if led else 0
        domain.slices_led = slices - min(child.slices - child.slices_led for child in led) if led else 0
        domain.leaders = max((child.leaders for child in led), default=0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What counts depend on: what each pod takes and tolerates, and in which groups they come."""

    requests: Requests
    leader: Requests | None
    tolerations: tuple[Toleration, ...]
    node_selector: tuple[tuple[str, str], ...]
    affinity: tuple[Term, ...] | None
    preferred: tuple[tuple[int, Term], ...]
    within: tuple[str, ...]
    empty: bool
    slicing: Slicing


class Tally:
    """The counts of all domains for one kind of pod."""

    __slots__ = (
        "_barred", "_borrowed", "_counted", "_identities", "_leaves", "_liked", "_places", "_wanted", "domains",
        "excluded", "seen", "touched",
    )  # fmt: skip

    def __init__(self, levels: int, leaves: Mapping[Identity, Leaf], wanted: Wanted) -> None:
        self._leaves, self._wanted = leaves, wanted
        self.domains: list[dict[tuple[str, ...], Domain]] = [{} for _ in range(levels)]
        self.excluded: Counter[str] = Counter()
        """Why leaves are left out, and how many."""
        self.touched: list[Domain] = []
        """Domains a search has written into."""
        self.seen: tuple[int, int] = (-1, 0)
        """Up to where the changes of the tree are counted in (`topology_tree`)."""
        self._places = {identity: self._attach(leaf.values) for identity, leaf in leaves.items()}
        self._identities = {leaf.values: identity for identity, leaf in leaves.items()}
        self._barred = {identity: why for identity, leaf in leaves.items() if (why := self._why_not(leaf))}
        self._liked = {i: liked for i, leaf in leaves.items() if (liked := self._liking(i, leaf))}
        self._counted: dict[Identity, tuple[int, int, int, str]] = {}
        self._borrowed: Iterable[Identity] = ()

    def refresh(self, changed: Iterable[Identity], assumed: Mapping[Identity, Amounts]) -> None:
        """Count in what has changed, and that so much more is taken (`assumed`, maybe elsewhere too) for this search."""
        assumed = {identity: amounts for identity, amounts in assumed.items() if identity in self._leaves}
        above: dict[int, Domain] = {}
        for identity in {*changed, *self._borrowed, *assumed}:
            if self._count(identity, assumed.get(identity)):
                place = self._places[identity]
                self._put(place, identity)
                if place.parent is not None:
                    above[id(place.parent)] = place.parent
        self._borrowed = tuple(assumed)
        for domain in sorted(self.touched, key=lambda each: -len(each.values)):
            if domain.children:
                self._wanted.slicing.add_up(domain, len(domain.values) - 1)
            else:
                self._put(domain, self._identities[domain.values])
        self.touched = []
        for level in range(len(self.domains) - 2, -1, -1):
            higher: dict[int, Domain] = {}
            for domain in above.values():
                self._wanted.slicing.add_up(domain, level)
                if domain.parent is not None:
                    higher[id(domain.parent)] = domain.parent
            above = higher

    def _count(self, identity: Identity, assumed: Amounts | None) -> bool:
        """How much fits on a leaf; whether that is news."""
        wanted, before = self._wanted, self._counted.get(identity)
        if identity in self._barred:
            found = (0, 0, 0, self._barred[identity])
        else:
            found = self._fitting(wanted, self._leaves[identity].free(wanted.empty), assumed)
        if found == before:
            return False
        if before is not None and before[3]:
            self.excluded[before[3]] -= 1
        if found[3]:
            self.excluded[found[3]] += 1
        self._counted[identity] = found
        return True

    def _fitting(self, wanted: Wanted, free: Amounts, assumed: Amounts | None) -> tuple[int, int, int, str]:
        for resource, amount in (assumed or {}).items():
            free[resource] = free.get(resource, 0) - amount
        pods, scarcest = _times(wanted.requests, free)
        why = f'resource "{scarcest}"' if pods == 0 and scarcest else ""
        if wanted.leader is None:
            return pods, pods, 0, why
        leaders = 0
        if _times(wanted.leader, free)[0] > 0:
            leaders = 1
            for resource, amount in wanted.leader:
                free[resource] = free.get(resource, 0) - amount
        return pods, _times(wanted.requests, free)[0], leaders, why

    def _put(self, domain: Domain, identity: Identity) -> None:
        slicing = self._wanted.slicing
        domain.pods, domain.pods_led, domain.leaders, _ = self._counted[identity]
        domain.affinity = self._liked.get(identity, 0)
        domain.slices = domain.slices_led = 0
        slicing.add_up(domain, len(self.domains) - 1)

    def _why_not(self, leaf: Leaf) -> str:
        """Why the pods may not go there at all. Only a leaf that is a node is asked for more than where it is."""
        wanted = self._wanted
        if leaf.labels is not None:
            taint = first_untolerated(leaf.taints, wanted.tolerations)
            if taint is not None:
                return f'taint "{taint}"'
            if any(leaf.labels.get(key) != value for key, value in wanted.node_selector):
                return "nodeSelector"
            if wanted.affinity is not None and not any(t and term_holds(t, leaf.labels) for t in wanted.affinity):
                return "affinity"
        return "topologyDomain" if leaf.values[: len(wanted.within)] != wanted.within else ""

    def _liking(self, identity: Identity, leaf: Leaf) -> int:
        if leaf.labels is None or self._barred.get(identity, "topologyDomain") != "topologyDomain":
            return 0
        return sum(weight for weight, term in self._wanted.preferred if term_holds(term, leaf.labels))

    def _attach(self, values: tuple[str, ...]) -> Domain:
        siblings = self.domains[len(values) - 1]
        domain = siblings.get(values)
        if domain is None:
            parent = self._attach(values[:-1]) if len(values) > 1 else None
            domain = siblings[values] = Domain(values, parent)
            if parent is not None:
                parent.children.append(domain)
        return domain


def _times(requests: Requests, free: Amounts) -> tuple[int, str]:
    """How often the requests fit, and the scarcest resource, by name where several are."""
    least, scarcest = MAX_COUNT + 1, ""
    for resource, amount in requests:
        times = MAX_COUNT if amount == 0 else max(0, min(free.get(resource, 0) // amount, MAX_COUNT))
        if times < least or (times == least and resource < scarcest):
            least, scarcest = times, resource
    return (0 if least > MAX_COUNT else least), scarcest
