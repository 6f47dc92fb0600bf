"""Pods spread evenly over as few domains as hold them: behind the gate TASBalancedPlacement, for preferred levels.

One level above the one asked for, each domain is asked how evenly its children could take all slices: the threshold is
the most that the least filled of them gets. The best domain wins; those of its children that could not take that many
are left out, and of the rest the fewest, with the least room to spare, take the slices. Counts are changed on copies of
the tree's domains only. Where it cannot be done evenly, `topology_fit` places as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2

from gpuaas.engine.topology_count import Domain

Sort = Callable[[list[Domain]], list[Domain]]


@dataclass(frozen=True, slots=True)
class Balance:
    """What is to be spread, and how domains are counted and put in order (`topology_fit` says)."""

    slices: int
    leaders: int
    size: int
    level: int
    slice_level: int
    in_order: Sort
    leaders_first: Sort
    roll_up: Callable[[Domain, int], None]

    def find(self, levels: list[dict[tuple[str, ...], Domain]]) -> tuple[int, list[Domain]] | None:
        """The level and the domains that take everything, with what each takes; None if it cannot be even."""
        threshold, candidates = self._best(levels) if self.slices > 0 else (0, [])
        if threshold <= 0:
            return None
        level = self.level
        if level < self.slice_level:
            chosen = self._fewest(candidates, evenly=True)
            if chosen is None:
                return None
            candidates = [child for domain in chosen for child in domain.children]
            level += 1
        placed = self._spread(candidates, threshold)
        return None if placed is None else (level, placed)

    def _best(self, levels: list[dict[tuple[str, ...], Domain]]) -> tuple[int, list[Domain]]:
        """The highest threshold, and the copies of the domains with which it is reached."""
        if self.level == 0:
            families = [list(levels[0].values())]
        else:
            above = levels[self.level - 1]
            families = [above[values].children for values in sorted(above)]
        best, fewest, found = 0, 0, list[Domain]()
        for family in families:
            tried = self._try(family, best)
            if tried is not None:
                threshold, number, candidates = tried
                if threshold > best or (threshold == best and number < fewest):
                    best, fewest, found = threshold, number, candidates
        return best, found

    def _try(self, family: list[Domain], best: int) -> tuple[int, int, list[Domain]] | None:
        candidates = [_copy(domain) for domain in family]
        greedy = self._greedy(self._to_fill(candidates))
        if greedy is None:
            return None
        number, led, last = greedy
        threshold = min(
            self.slices // number,
            led.slices_led if led is not None else self.slices,
            last.slices if last is not None else self.slices,
        )
        beside_leader = min(threshold, last.slices_led) if self.leaders and last is not None else threshold
        if threshold < best:
            return None
        self._prune(candidates, threshold)
        after = self._greedy(candidates)
        if after is None and beside_leader < threshold:
            if beside_leader <= 0 or beside_leader < best:
                return None
            threshold, candidates = beside_leader, [_copy(domain) for domain in family]
            self._prune(candidates, threshold)
            after = self._greedy(candidates)
        return None if after is None else (threshold, after[0], candidates)

    def _to_fill(self, domains: list[Domain]) -> list[Domain]:
        if self.level >= self.slice_level:
            return domains
        return [child for domain in domains for child in domain.children]

    def _greedy(self, domains: list[Domain]) -> tuple[int, Domain | None, Domain | None] | None:
        """How many domains the fullest first would need, the last with a leader and the last without; None: too few."""
        left, leaders, number = self.slices, self.leaders, 0
        led: Domain | None = None
        last: Domain | None = None
        rest = domains
        if leaders > 0:
            rest = self.leaders_first(domains)
            while leaders > 0 and rest and rest[0].leaders > 0:
                led, rest = rest[0], rest[1:]
                number += 1
                leaders -= led.leaders
                left -= led.slices_led
        for domain in self.in_order(rest):
            if left <= 0 or domain.slices <= 0:
                break
            last = domain
            number += 1
            left -= domain.slices
        return None if leaders > 0 or left > 0 else (number, led, last)

    def _prune(self, domains: list[Domain], threshold: int) -> None:
        """Leave out what cannot take the threshold; and what cannot beside a leader has none."""
        for domain in domains:
            for child in domain.children:
                self._prune_one(child, threshold)
        for domain in domains:
            self.roll_up(domain, self.level)
            self._prune_one(domain, threshold)

    def _prune_one(self, domain: Domain, threshold: int) -> None:
        if domain.slices < threshold:
            _clear(domain)
        elif self.leaders and domain.leaders > 0 and domain.slices_led < threshold:
            _clear_leader(domain)

    def _fewest(self, domains: list[Domain], *, evenly: bool) -> list[Domain] | None:
        """As few domains as the fullest first would need, but with the least room to spare."""
        greedy = self._greedy(domains)
        if greedy is None:
            return None
        number = greedy[0]
        order = sorted(domains, key=_by_room_and_evenness if evenly else lambda d: d.values)
        ways: list[dict[tuple[int, int], list[Domain]]] = [{} for _ in range(number + 1)]
        ways[0][self.leaders, self.slices * self.size] = []
        for domain in order:
            for used in range(number, 0, -1):
                for (leaders, pods), chosen in sorted(ways[used - 1].items()):
                    if leaders <= 0 and pods <= 0:
                        continue
                    if leaders > 0 and domain.leaders > 0:
                        ways[used].setdefault((leaders - domain.leaders, pods - domain.pods_led), [*chosen, domain])
                    if domain.slices > 0:
                        ways[used].setdefault((leaders, pods - domain.pods), [*chosen, domain])
        enough = [pods for leaders, pods in ways[number] if leaders == 0 and pods <= 0]
        return ways[number][0, max(enough)] if enough else None

    def _spread(self, domains: list[Domain], threshold: int) -> list[Domain] | None:
        """The threshold to each, and what is left over to the first that have room."""
        chosen = self._fewest(domains, evenly=False)
        if chosen is None or self.slices < len(chosen) * threshold:
            return None
        chosen = self.leaders_first(chosen)
        left, leaders = self.slices - len(chosen) * threshold, self.leaders
        for domain in chosen:
            if leaders > 0:
                more, domain.leaders = min(domain.slices_led - threshold, left), 1
                leaders -= 1
            else:
                more, domain.leaders = min(domain.slices - threshold, left) if left > 0 else 0, 0
            domain.slices = domain.slices_led = threshold + more
            domain.pods = domain.slices * self.size
            domain.pods_led = domain.pods - domain.leaders
            left -= more
        return None if left > 0 or leaders > 0 else chosen


def _by_room_and_evenness(domain: Domain) -> tuple[int, int, float, tuple[str, ...]]:
    return -domain.leaders, -domain.slices_led, -_evenness(domain.children), domain.values


def _evenness(domains: list[Domain]) -> float:
    """The entropy of how pods would be spread."""
    total = sum(domain.pods for domain in domains)
    parts = [domain.pods / total for domain in domains if domain.pods > 0] if total else []
    return -sum(part * log2(part) for part in parts)


def _copy(domain: Domain, parent: Domain | None = None) -> Domain:
    made = Domain(domain.values, parent)
    made.pods, made.pods_led, made.slices, made.slices_led = (
        domain.pods,
        domain.pods_led,
        domain.slices,
        domain.slices_led,
    )
    made.leaders, made.affinity = domain.leaders, domain.affinity
    made.children = [_copy(child, made) for child in domain.children]
    return made


def _clear(domain: Domain) -> None:
    liked = domain.affinity
    domain.clear()
    domain.affinity = liked
    for child in domain.children:
        _clear(child)


def _clear_leader(domain: Domain) -> None:
    domain.pods_led = domain.slices_led = domain.leaders = 0
    for child in domain.children:
        _clear_leader(child)
