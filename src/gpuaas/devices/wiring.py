"""Whether the cards given to one container are connected well: the topology trap of asking for several GPUs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from gpuaas.devices.cards import Card


def trouble(given: Sequence[Card], on_node: Sequence[Card]) -> str:
    """Why data between these cards takes a slow way; empty where it does not, or where the node has no faster one.
    `on_node`: all cards of the node."""
    pairs = list(combinations(sorted(given, key=lambda card: card.index), 2))
    if any(any(card.nvlinks) for card in on_node):
        for one, other in pairs:
            if not _linked(one, other):
                return f"GPUs {one.index} and {other.index} share no NVLink, though other cards of the node do{_sockets(one, other)}"
    for one, other in pairs:
        if one.numa is not None and other.numa is not None and one.numa != other.numa and not _linked(one, other):
            return f"GPUs {one.index} and {other.index} share no NVLink{_sockets(one, other)}"
    return ""


def _linked(one: Card, other: Card) -> bool:
    return other.index < len(one.nvlinks) and one.nvlinks[other.index] > 0


def _sockets(one: Card, other: Card) -> str:
    if one.numa is None or other.numa is None or one.numa == other.numa:
        return ""
    return f" and are on different sockets (NUMA {one.numa} and {other.numa})"
