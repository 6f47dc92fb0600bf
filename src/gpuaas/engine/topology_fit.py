"""Where the pods of one pod set (and the leader that goes with them) fit in a tree of places.

First every domain learns how many pods and slices it can take, bottom up; then a level is found at which they fit, and
they are handed down from there with as few domains as possible. The best-fitting domain is taken for what is left;
unconstrained requests fill the fullest places first instead. Counts live in the tree's scratch fields and are valid for
one search only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuaas.engine.constraints import Toleration, first_untolerated, term_holds
from gpuaas.engine.topology_balance import Balance
from gpuaas.engine.topology_tree import Amounts, Domain, Leaf, PlaceTree
from gpuaas.engine.topology_values import TopologyRequest
from gpuaas.engine.values import PodSet

MAX_COUNT = 2**31 - 1
PODS = "pods"

Domains = tuple[tuple[tuple[str, ...], int], ...]
Requests = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A pod set that needs places: how many pods, what each takes (itself as one of `pods` included)."""

    index: int
    pod_set: PodSet
    count: int
    requests: Requests
    flavor: str
    implied: bool

    @property
    def request(self) -> TopologyRequest | None:
        return self.pod_set.topology


class NoPlace(Exception):
    """The pods fit nowhere; the words say why."""


@dataclass(slots=True)
class Excluded:
    """Why leaves were left out, for the message."""

    total: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def count(self, reason: str) -> None:
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def words(self) -> str:
        if not self.reasons:
            return ""
        listed = ", ".join(sorted(f"{reason}: {number}" for reason, number in self.reasons.items()))
        return f". Total nodes: {self.total}; excluded: {listed}"


def fit(
    tree: PlaceTree,
    workers: Ask,
    leader: Ask | None,
    assumed: dict[tuple[str, ...], Amounts],
    empty: bool,
    within: tuple[str, ...] = (),
) -> tuple[Domains, Domains]:
    """Places for the workers and for the leader, within one domain if it is named. Raises NoPlace in upstream's words."""
    return _Search(tree, workers, leader, within).run(assumed, empty)


class _Search:
    __slots__ = (
        "_ask", "_count", "_excluded", "_inner", "_leader", "_leaders", "_level", "_loose", "_required", "_size",
        "_slice_level", "_tree", "_within",
    )  # fmt: skip

    def __init__(self, tree: PlaceTree, workers: Ask, leader: Ask | None, within: tuple[str, ...]) -> None:
        self._tree = tree
        self._within = within
        self._ask = workers
        self._leader = leader
        self._count = workers.count
        self._leaders = 0 if leader is None else 1
        self._excluded = Excluded()
        self._inner: dict[int, int] = {}
        self._read_request(workers.request, workers.implied)

    def run(self, assumed: dict[tuple[str, ...], Amounts], empty: bool) -> tuple[Domains, Domains]:
        self._count_leaves(assumed, empty)
        for root in self._tree.domains[0].values():
            self._roll_up(root, 0)
        balanced = self._balanced() if self._tree.balanced else None
        level, chosen = balanced or self._find_level(self._level)
        chosen = self._minimize(chosen, self._count, self._leaders, self._size, True)
        last = len(self._tree.levels) - 1
        while balanced is None and level < min(last, self._slice_level):
            below = self._sorted([child for domain in chosen for child in domain.children])
            chosen = self._minimize(below, self._count, self._leaders, self._size, True)
            level += 1
        while level < last:
            size = self._inner.get(level + 1, 1) if level >= self._slice_level else self._size
            chosen = [child for domain in chosen for child in self._hand_down(domain, size)]
            level += 1
        return self._assigned(chosen, False), self._assigned(chosen, True) if self._leaders else ()

    def _balanced(self) -> tuple[int, list[Domain]] | None:
        """Domains that take all slices evenly, with what each takes; only a preferred level is looked at that way."""
        if self._required or self._loose:
            return None
        return Balance(
            self._count // self._size, self._leaders, self._size, self._level, self._slice_level,
            self._sorted, self._sorted_by_leader, self._roll_up_outermost,
        ).find(self._tree.domains)  # fmt: skip

    def _roll_up_outermost(self, domain: Domain, level: int) -> None:
        """Without a look at slices within slices."""
        inner = self._inner
        self._inner = {}
        self._roll_up(domain, level)
        self._inner = inner

    # What was asked for

    def _read_request(self, request: TopologyRequest | None, implied: bool) -> None:
        tree = self._tree
        slices = request.slices if request else ()
        sliced_only = bool(request and slices and request.required is None and request.preferred is None)
        self._required = bool(request and request.required is not None)
        self._loose = implied or sliced_only or bool(request and request.unconstrained)
        self._size = slices[0][1] if slices else 1
        if self._size <= 0:
            raise NoPlace("slice topology requested, but slice size not provided")
        label = self._wanted_level(request, implied, sliced_only)
        if label is None:
            raise NoPlace("topology level not specified")
        level = tree.level(label)
        if level is None:
            raise NoPlace(f"no requested topology level: {label}")
        slice_label = slices[0][0] if slices else tree.levels[-1]
        slice_level = tree.level(slice_label)
        if slice_level is None:
            raise NoPlace(f"no requested topology level for slices: {slice_label}")
        if level > slice_level:
            raise NoPlace(f"podset slice topology {slice_label} is above the podset topology {label}")
        self._level, self._slice_level = level, slice_level
        self._inner = self._inner_sizes(slices)

    def _wanted_level(self, request: TopologyRequest | None, implied: bool, sliced_only: bool) -> str | None:
        levels = self._tree.levels
        if request is not None:
            if request.required is not None:
                return request.required
            if request.preferred is not None:
                return request.preferred
            if sliced_only:
                return levels[0]
            if request.unconstrained:
                return levels[-1]
        return levels[-1] if implied else None

    def _inner_sizes(self, slices: tuple[tuple[str, int], ...]) -> dict[int, int]:
        """Slices within slices: at each level below the outermost, the size pods have to come in."""
        sizes: dict[int, int] = {}
        size, level = self._size, self._slice_level
        for label, inner in slices[1:]:
            found = self._tree.level(label)
            if found is None:
                raise NoPlace(f"no requested topology level for additional slice layer: {label}")
            if found <= level:
                above = self._tree.levels[level]
                raise NoPlace(f"additional slice layer topology {label} must be at a lower level than {above}")
            if size % inner:
                raise NoPlace(f"additional slice layer size {inner} must evenly divide parent layer size {size}")
            sizes |= dict.fromkeys(range(level + 1, found + 1), inner)
            size, level = inner, found
        return sizes

    # How much fits where

    def _count_leaves(self, assumed: dict[tuple[str, ...], Amounts], empty: bool) -> None:
        tree, excluded, within = self._tree, self._excluded, self._within
        tolerations, preferred = self._ask.pod_set.tolerations + tree.tolerations, self._ask.pod_set.preferred
        excluded.total = len(tree.leaves)
        for identity, leaf in tree.leaves.items():
            leaf.clear()
            if self._infeasible(leaf, tolerations):
                continue
            if preferred and leaf.labels is not None:
                leaf.affinity = sum(weight for weight, term in preferred if term_holds(term, leaf.labels))
            if within and leaf.values[: len(within)] != within:
                excluded.count("topologyDomain")
                continue
            free = leaf.free(empty)
            for resource, amount in assumed.get(identity, {}).items():
                free[resource] = free.get(resource, 0) - amount
            leaf.pods, scarcest = _times(self._ask.requests, free)
            if leaf.pods == 0 and scarcest:
                excluded.count(f'resource "{scarcest}"')
            if self._leader is not None and _times(self._leader.requests, free)[0] > 0:
                leaf.leaders = 1
                for resource, amount in self._leader.requests:
                    free[resource] = free.get(resource, 0) - amount
            leaf.pods_led = leaf.pods if self._leader is None else _times(self._ask.requests, free)[0]

    def _infeasible(self, leaf: Leaf, tolerations: tuple[Toleration, ...]) -> bool:
        """Whether the pods may not go to this node at all. Only a leaf that is a node is asked."""
        if leaf.labels is None:
            return False
        pod_set = self._ask.pod_set
        taint = first_untolerated(leaf.taints, tolerations)
        if taint is not None:
            self._excluded.count(f'taint "{taint}"')
        elif any(leaf.labels.get(key) != value for key, value in pod_set.node_selector):
            self._excluded.count("nodeSelector")
        elif pod_set.affinity is not None and not any(t and term_holds(t, leaf.labels) for t in pod_set.affinity):
            self._excluded.count("affinity")
        else:
            return False
        return True

    def _roll_up(self, domain: Domain, level: int) -> None:
        size = self._size
        if domain.children:
            self._gather(domain, level)
        if level == self._slice_level:
            domain.slices, domain.slices_led = domain.pods // size, domain.pods_led // size

    def _gather(self, domain: Domain, level: int) -> None:
        """A parent takes what its children take; one of them pays for the leader, the one it costs least."""
        inner = self._inner.get(level + 1, 1)
        domain.clear()
        costs: list[tuple[int, int]] = []
        for child in domain.children:
            self._roll_up(child, level + 1)
            pods, led = child.pods // inner * inner, child.pods_led // inner * inner
            domain.pods += pods
            domain.slices += child.slices
            domain.leaders = max(domain.leaders, child.leaders)
            domain.affinity += child.affinity
            if not self._leaders or child.leaders:
                costs.append((pods - led, child.slices - child.slices_led))
        if costs:
            domain.pods_led = domain.pods - min(pods for pods, _ in costs)
            domain.slices_led = domain.slices - min(slices for _, slices in costs)

    # At which level, and in which domains

    def _find_level(self, level: int) -> tuple[int, list[Domain]]:
        domains = list(self._tree.domains[level].values())
        if not domains:
            raise NoPlace(f"no topology domains at level: {self._tree.levels[level]}")
        ordered = self._sorted_by_leader(domains)
        needed, leaders = self._count // self._size, self._leaders
        top = ordered[0]
        if self._loose:
            for domain in ordered:
                room = domain.slices_led if leaders else domain.slices
                if domain.leaders >= leaders and room >= needed:
                    return level, [domain]
            if self._required:
                raise self._no_fit(level, ordered[-1].pods, needed)
        elif top.slices_led >= needed and top.leaders >= leaders:
            top = _best_fit(ordered, needed, leaders, "slices")
        if top.slices_led >= needed and top.leaders >= leaders:
            return level, [top]
        if self._required:
            for index, domain in enumerate(ordered if self._ask.pod_set.preferred else ()):
                if domain.slices_led >= needed and domain.leaders >= leaders:  # not the favourite, but it fits
                    return level, [_best_fit(ordered[index:], needed, leaders, "slices")]
            raise self._no_fit(level, top.slices, needed)
        if level > 0 and not self._loose:
            return self._find_level(level - 1)
        return level, self._greedy(level, ordered, needed)

    def _greedy(self, level: int, ordered: list[Domain], needed: int) -> list[Domain]:
        """Domains in order until all slices have room: first one for the leader, then for the rest."""
        ordered = self._leader_first(ordered, self._count, self._leaders, self._size, True)
        chosen: list[Domain] = []
        slices, leaders = needed, self._leaders
        at = 0
        while leaders > 0 and at < len(ordered) and ordered[at].leaders > 0:
            domain = ordered[at]
            if not self._loose and domain.slices_led >= slices:
                domain = _best_fit(ordered[at:], slices, leaders, "slices")
            chosen.append(domain)
            leaders -= domain.leaders
            slices -= domain.slices_led
            at += 1
        if leaders > 0:
            raise self._no_fit(level, self._leaders - leaders, needed)
        rest = self._sorted(ordered[at:])
        for index, domain in enumerate(rest):
            if slices <= 0:
                break
            if not self._loose and domain.slices >= slices:
                domain = _best_fit(rest[index:], slices, 0, "slices")
            chosen.append(domain)
            slices -= domain.slices
        if slices > 0:
            raise self._no_fit(level, needed - slices, needed)
        return chosen

    def _leader_first(self, domains: list[Domain], count: int, leaders: int, size: int, sliced: bool) -> list[Domain]:
        """Move up the first domain that takes the leader without the others losing the room the pods need."""
        if leaders == 0 or len(domains) < 2:
            return domains
        needed = count // size if sliced else count
        room = sum(d.slices if sliced else d.pods for d in domains)
        for index, domain in enumerate(domains):
            if domain.leaders < leaders:
                continue
            cost = domain.slices - domain.slices_led if sliced else domain.pods - domain.pods_led
            if room - cost >= needed:
                return [domain, *domains[:index], *domains[index + 1 :]]
        return domains

    # Down to the leaves

    def _hand_down(self, domain: Domain, size: int) -> list[Domain]:
        """Share out what the domain got among its own children, in groups of `size`."""
        children = self._sorted(domain.children)
        if size > 1:
            for child in children:
                child.slices, child.slices_led = child.pods // size, child.pods_led // size
        return self._minimize(children, domain.pods, domain.leaders, size, size > 1)

    def _minimize(self, domains: list[Domain], count: int, leaders: int, size: int, sliced: bool) -> list[Domain]:
        """Give the domains, in order, what is to be placed; what is left over at the end goes where it fits best."""
        domains = self._leader_first(domains, count, leaders, size, sliced)
        unit = "slices" if sliced else "pods"
        left = count // size if sliced else count
        chosen: list[Domain] = []
        for index, domain in enumerate(domains):
            room = getattr(domain, f"{unit}_led" if leaders > 0 else unit)
            if not self._loose and room >= left and domain.leaders >= leaders:
                domain = _best_fit(domains[index:], left, leaders, unit)
                room = getattr(domain, f"{unit}_led" if leaders > 0 else unit)
            chosen.append(domain)
            domain.leaders = min(domain.leaders, leaders)
            given = min(room, left)
            setattr(domain, unit, given)
            if sliced:
                domain.pods = given * size
            left -= given
            done = left == 0 and domain.leaders >= leaders
            leaders -= domain.leaders
            if done:
                return chosen
        return []

    def _assigned(self, chosen: list[Domain], leader: bool) -> Domains:
        at = len(self._tree.levels) - 1 if self._tree.by_host else 0
        pairs = ((d, d.leaders if leader else d.pods) for d in sorted(chosen, key=lambda d: d.values))
        return tuple((domain.values[at:], count) for domain, count in pairs if count > 0)

    # Order

    def _sorted(self, domains: list[Domain]) -> list[Domain]:
        if self._loose:
            return sorted(domains, key=lambda d: (-d.affinity, d.slices, d.pods, d.values))
        return sorted(domains, key=lambda d: (-d.affinity, -d.slices, d.pods, d.values))

    def _sorted_by_leader(self, domains: list[Domain]) -> list[Domain]:
        sign = 1 if self._loose else -1
        return sorted(domains, key=lambda d: (-d.leaders, -d.affinity, sign * d.slices_led, d.pods_led, d.values))

    # Words

    def _no_fit(self, level: int, fitting: int, needed: int) -> NoPlace:
        name = self._tree.name
        request = self._ask.request
        if self._inner and request is not None:
            best = min(self._tree.domains[level].values(), key=lambda d: (-d.slices, ",".join(d.values)))
            parts = [f'topology "{name}" doesn\'t allow to fit']
            for label, size in request.slices:
                target = self._tree.levels.index(label)
                found = _slices_below(best, target - level, size)
                parts.append(f"{found}/{self._count // size} slice(s) fit on level {label}")
            return NoPlace("; ".join(parts) + self._excluded.words())
        unit = "pod" if self._size == 1 else "slice"
        if fitting == 0:
            words = f'topology "{name}" doesn\'t allow to fit any of {needed} {unit}(s)'
        else:
            words = f'topology "{name}" allows to fit only {fitting} out of {needed} {unit}(s)'
        return NoPlace(words + self._excluded.words())


def _best_fit(domains: list[Domain], needed: int, leaders: int, unit: str) -> Domain:
    """The first domain with the least room that is enough; the first of all if none is. Only those liked best count."""
    best, least = domains[0], MAX_COUNT
    liked = best.affinity
    for domain in domains:
        if domain.affinity != liked:
            break
        if domain.leaders < leaders:
            continue
        room = getattr(domain, f"{unit}_led" if leaders > 0 else unit)
        if needed <= room < least:
            best, least = domain, room
    return best


def _times(requests: Requests, free: Amounts) -> tuple[int, str]:
    """How often the requests fit, and the scarcest resource, by name where several are."""
    least, scarcest = MAX_COUNT + 1, ""
    for resource, amount in requests:
        times = MAX_COUNT if amount == 0 else max(0, min(free.get(resource, 0) // amount, MAX_COUNT))
        if times < least or (times == least and resource < scarcest):
            least, scarcest = times, resource
    return (0 if least > MAX_COUNT else least), scarcest


def _slices_below(domain: Domain, levels: int, size: int) -> int:
    if levels == 0:
        return domain.pods // size
    return sum(_slices_below(child, levels - 1, size) for child in domain.children)
