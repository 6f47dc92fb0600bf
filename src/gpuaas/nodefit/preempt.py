"""Which pods would have to leave so that one of higher priority fits.

On each node where leaving could help, all pods of lower priority go in thought, and those come back, the most
important first, without whom it still fits. Among the nodes the one is taken whose most important victim matters
least, then whose victims matter least together, then with the fewest, then by name. Budgets are not looked at. Pods
that the book spares, those of admitted workloads, stay: which of them have to go is Kueue's decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.nodefit.book import Ask, Book, Place
from gpuaas.nodefit.fit import Refusal, refusal
from gpuaas.nodefit.neighbours import Neighbourhood, concerns_others


@dataclass(frozen=True, slots=True)
class Eviction:
    node: str
    victims: tuple[Ask, ...]


def find_victims(ask: Ask, book: Book, refusals: Mapping[str, Refusal]) -> Eviction | None:
    candidates: list[tuple[tuple[int, int, int, str], Eviction]] = []
    for name, found in refusals.items():
        place = book.place(name)
        if not found.helped or place is None:
            continue
        victims = _victims(ask, book, place)
        if victims:
            priorities = [one.priority for one in victims]
            rank = (max(priorities), sum(priorities), len(victims), name)
            candidates.append((rank, Eviction(name, tuple(victims))))
    return min(candidates, key=lambda one: one[0])[1] if candidates else None


def _victims(ask: Ask, book: Book, place: Place) -> list[Ask]:
    """Tried on the book itself, which is as before afterwards."""
    lower = [one for one in place.pods.values() if one.priority < ask.priority and not book.spares(one.uid)]
    if not lower:
        return []
    for one in lower:
        book.drop_pod(one.uid)
    victims: list[Ask] = []
    gone = {one.uid for one in lower}
    try:
        if not _fits(ask, book, place):
            return []
        for one in sorted(lower, key=lambda pod: (-pod.priority, pod.since, pod.uid)):
            book.assume(one, place.name)
            if _fits(ask, book, place):
                gone.discard(one.uid)
            else:
                book.drop_pod(one.uid)
                victims.append(one)
    finally:
        for one in lower:
            if one.uid in gone:
                book.assume(one, place.name)
    return victims


def _fits(ask: Ask, book: Book, place: Place) -> bool:
    neighbourhood = Neighbourhood(ask, book) if concerns_others(ask.spec) else None
    return refusal(ask, place, neighbourhood) is None
