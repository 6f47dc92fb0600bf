"""Where the pods of one pod set (and the leader that goes with them) fit in a tree of places.

How many pods and slices each domain can take is `topology_count`'s. Here a level is found at which they fit, and they
are handed down from there with as few domains as possible. The best-fitting domain is taken for what is left;
unconstrained requests fill the fullest places first instead. What a domain gets is written into its counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from gpuaas.engine.topology_balance import Balance
from gpuaas.engine.topology_count import MAX_COUNT, Amounts, Domain, Identity, Requests, Slicing, Tally, Wanted
from gpuaas.engine.topology_tree import PlaceTree
from gpuaas.engine.topology_values import TopologyRequest
from gpuaas.engine.values import PodSet

PODS = "pods"

Domains = tuple[tuple[tuple[str, ...], int], ...]


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


def fit(
    tree: PlaceTree,
    workers: Ask,
    leader: Ask | None,
    assumed: dict[Identity, Amounts],
    empty: bool,
    within: tuple[str, ...] = (),
) -> tuple[Domains, Domains]:
    """Places for the workers and for the leader, within one domain if it is named. Raises NoPlace in upstream's words."""
    return _Search(tree, workers, leader).run(assumed, empty, within)


class _Search:
    __slots__ = (
        "_ask", "_count", "_inner", "_leader", "_leaders", "_level", "_loose", "_required", "_size", "_slice_level",
        "_tally", "_tree",
    )  # fmt: skip

    _tally: Tally

    def __init__(self, tree: PlaceTree, workers: Ask, leader: Ask | None) -> None:
        self._tree = tree
        self._ask = workers
        self._leader = leader
        self._count = workers.count
        self._leaders = 0 if leader is None else 1
        self._read_request(workers.request, workers.implied)

    def run(self, assumed: dict[Identity, Amounts], empty: bool, within: tuple[str, ...]) -> tuple[Domains, Domains]:
        self._tally = self._tree.tally(self._wanted(empty, within), assumed)
        balanced = self._balanced() if self._tree.balanced else None
        level, chosen = balanced or self._find_level(self._level)
        chosen = self._minimize(chosen, self._count, self._leaders, self._size, True)
        last = len(self._tree.levels) - 1
        while balanced is None and level < min(last, self._slice_level):
            below = self._sorted([child for domain in chosen for child in domain.children])
            chosen = self._minimize(below, self._count, self._leaders, self._size, True)
            level += 1
        while level < last:
            size = self._inner[level + 1] if level >= self._slice_level else self._size
            chosen = [child for domain in chosen for child in self._hand_down(domain, size)]
            level += 1
        return self._assigned(chosen, False), self._assigned(chosen, True) if self._leaders else ()

    def _balanced(self) -> tuple[int, list[Domain]] | None:
        """Domains that take all slices evenly, with what each takes; only a preferred level is looked at that way."""
        if self._required or self._loose:
            return None
        return Balance(
            self._count // self._size, self._leaders, self._size, self._level, self._slice_level,
            self._sorted, self._sorted_by_leader, self._slicing(()).roll_up,
        ).find(self._tally.domains)  # fmt: skip

    def _wanted(self, empty: bool, within: tuple[str, ...]) -> Wanted:
        pod_set = self._ask.pod_set
        return Wanted(
            self._ask.requests, None if self._leader is None else self._leader.requests,
            pod_set.tolerations + self._tree.tolerations, pod_set.node_selector, pod_set.affinity, pod_set.preferred,
            within, empty, self._slicing(self._inner),
        )  # fmt: skip

    def _slicing(self, inner: tuple[int, ...]) -> Slicing:
        """Without `inner` sizes: pods come in slices, and within them as they please."""
        sizes = inner or (1,) * (len(self._tree.levels) + 1)
        return Slicing(self._size, self._slice_level, sizes, bool(self._leaders))

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

    def _inner_sizes(self, slices: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
        """Slices within slices: at each level below the outermost, the size pods have to come in."""
        sizes = [1] * (len(self._tree.levels) + 1)
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
            sizes[level + 1 : found + 1] = [inner] * (found - level)
            size, level = inner, found
        return tuple(sizes)

    # At which level, and in which domains

    def _find_level(self, level: int) -> tuple[int, list[Domain]]:
        domains = list(self._tally.domains[level].values())
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
            self._tally.touched += children
        return self._minimize(children, domain.pods, domain.leaders, size, size > 1)

    def _minimize(self, domains: list[Domain], count: int, leaders: int, size: int, sliced: bool) -> list[Domain]:
        """Give the domains, in order, what is to be placed; what is left over at the end goes where it fits best."""
        domains = self._leader_first(domains, count, leaders, size, sliced)
        unit = "slices" if sliced else "pods"
        left = count // size if sliced else count
        chosen: list[Domain] = []
        touched = self._tally.touched
        for index, domain in enumerate(domains):
            room = getattr(domain, f"{unit}_led" if leaders > 0 else unit)
            if not self._loose and room >= left and domain.leaders >= leaders:
                domain = _best_fit(domains[index:], left, leaders, unit)
                room = getattr(domain, f"{unit}_led" if leaders > 0 else unit)
            chosen.append(domain)
            touched.append(domain)
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
        if request is not None and len(request.slices) > 1:
            best = min(self._tally.domains[level].values(), key=lambda d: (-d.slices, ",".join(d.values)))
            parts = [f'topology "{name}" doesn\'t allow to fit']
            for label, size in request.slices:
                target = self._tree.levels.index(label)
                found = _slices_below(best, target - level, size)
                parts.append(f"{found}/{self._count // size} slice(s) fit on level {label}")
            return NoPlace("; ".join(parts) + self._left_out())
        unit = "pod" if self._size == 1 else "slice"
        if fitting == 0:
            words = f'topology "{name}" doesn\'t allow to fit any of {needed} {unit}(s)'
        else:
            words = f'topology "{name}" allows to fit only {fitting} out of {needed} {unit}(s)'
        return NoPlace(words + self._left_out())

    def _left_out(self) -> str:
        """Why nodes were not looked at, and how many there are."""
        listed = ", ".join(sorted(f"{why}: {number}" for why, number in self._tally.excluded.items() if number))
        return f". Total nodes: {len(self._tree.leaves)}; excluded: {listed}" if listed else ""


def _best_fit(domains: list[Domain], needed: int, leaders: int, unit: str) -> Domain:
    """The first domain with the least room that is enough; the first of all if none is. Only those liked best count."""
    best, least = domains[0], MAX_COUNT
    liked, room_of = best.affinity, attrgetter(f"{unit}_led" if leaders > 0 else unit)
    for domain in domains:
        if domain.affinity != liked:
            break
        if domain.leaders < leaders:
            continue
        room = room_of(domain)
        if needed <= room < least:
            best, least = domain, room
    return best


def _slices_below(domain: Domain, levels: int, size: int) -> int:
    if levels == 0:
        return domain.pods // size
    return sum(_slices_below(child, levels - 1, size) for child in domain.children)
