"""Which of the free devices a request should get.

Whole cards are aligned: every way to divide the free cards into sets of the size asked for is scored by how closely each
set's cards are connected, and the best set of the best division is taken, so that one request does not tear apart what
the next will need. Replicas and MIG devices are distributed: one by one from the card with the fewest in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import Final

from gpuaas.devices.cards import Card
from gpuaas.devices.go_sort import go_sort
from gpuaas.devices.offer import Device

_PCIE: Final = {50: 10, 40: 20, 30: 30, 20: 40, 10: 50, 0: 60}  # NVML's topology level to points; nearer is better
_SAME_NODE: Final = 40
_PER_NVLINK: Final = 100
MOST_DIVISIONS: Final = 20_000
"""How many divisions are looked at: all of 8 cards and fewer. Beyond, the best of the first ones is taken."""


class NotEnoughError(ValueError):
    pass


def prefer(known: dict[str, Device], available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
    """Ids to take. Raises NotEnoughError where fewer are free than asked for and devices are shared or sliced."""
    whole = all(device.mig is None and not device.is_replica for device in known.values())
    if whole and not any("::" in id_ for id_ in available):
        return _aligned([known[i] for i in available if i in known], [known[i] for i in required if i in known], size)
    return _distributed(known, available, required, size)


def _distributed(known: dict[str, Device], available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
    wanted = set(required)
    # In order of replica number, so that equally free cards take turns: the original starts from a random order.
    candidates = sorted(
        {id_ for id_ in available if id_ in known and id_ not in wanted}, key=lambda id_: (id_.partition("::")[2], id_)
    )
    needed = size - len(required)
    if len(candidates) < needed:
        raise NotEnoughError(
            "error getting list of preferred allocation devices: not enough available devices to satisfy allocation"
        )
    total = Counter(device.uuid for device in known.values())
    free = Counter(known[id_].uuid for id_ in candidates)
    taken: list[str] = []
    for _ in range(max(needed, 0)):
        go_sort(candidates, lambda id_: total[known[id_].uuid] - free[known[id_].uuid])
        best = candidates.pop(0)
        free[known[best].uuid] -= 1
        taken.append(best)
    return [*required, *taken]


def _aligned(available: list[Device], required: list[Device], size: int) -> list[str]:
    if size <= 0 or len(available) < size or len(required) > size or len(required) > len(available):
        return []
    cards = {device.card.uuid: device for device in available}
    wanted = {device.card.uuid for device in required}
    padded: list[Card | None] = [device.card for device in available]
    padded += [None] * (-len(padded) % size)
    best: list[tuple[Card | None, ...]] = []
    best_score = -1
    for division in islice(_divisions(padded, size), MOST_DIVISIONS):
        full = [group for group in division if None not in group and wanted <= {c.uuid for c in group if c}]
        if not full:
            continue
        score = sum(_score(group) for group in division)
        if score > best_score:
            best, best_score = full, score
    if not best:
        return []
    chosen = max(best, key=_score)  # the first of equals
    return [cards[card.uuid].id for card in chosen if card is not None]


def _divisions(cards: list[Card | None], size: int) -> Iterator[list[tuple[Card | None, ...]]]:
    """Divisions into sets of `size`, the first card fixed and its partners in order; padding stays in one set."""
    if size == 1:
        for card in cards:
            yield [(card,)]
        return
    yield from _divide(cards, size, sum(card is None for card in cards))


def _divide(cards: list[Card | None], size: int, padding: int) -> Iterator[list[tuple[Card | None, ...]]]:
    if len(cards) == size:
        yield [tuple(cards)]
        return
    for others in combinations(range(1, len(cards)), size - 1):
        group = (cards[0], *(cards[at] for at in others))
        if sum(card is None for card in group) not in (0, padding):
            continue
        left = [card for at, card in enumerate(cards) if at and at not in others]
        for rest in _divide(left, size, padding):
            yield [group, *rest]


def _score(group: Sequence[Card | None]) -> int:
    return sum(_pair(one, two) for one, two in combinations(group, 2))


def _pair(one: Card | None, two: Card | None) -> int:
    if one is None or two is None:
        return 0
    level = one.pcie[two.index] if two.index < len(one.pcie) else _SAME_NODE
    links = one.nvlinks[two.index] if two.index < len(one.nvlinks) else 0
    return _PCIE.get(level, 0) + _PER_NVLINK * links
