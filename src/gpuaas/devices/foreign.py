"""Processes on a node's cards that belong to no pod of the cluster. Pure.

The node's watcher lists them in the annotation `gpuaas.dev/gpu-foreign`. Such a card takes no new work, and what runs on
it goes on. Faults of cards are module faults'.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from gpuaas.base.jsontext import read_json
from gpuaas.devices.cards import Card

FOREIGN: Final = "gpuaas.dev/gpu-foreign"
IGNORED: Final = "gpuaas.dev/gpu-foreign-ignored"  # "true": foreign processes are shown and close no card
_LONGEST: Final = 1 << 18  # characters of an annotation that are read
_LONGEST_REASON: Final = 256
_MOST: Final = 1024
_NAMED: Final = 3  # processes in a sentence
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """A process that uses a card and is not of a pod of this cluster."""

    card: str
    pid: int
    user: str = ""
    command: str = ""
    memory: int = 0  # bytes

    @property
    def in_words(self) -> str:
        who = " ".join(part for part in (self.command, f"of user {self.user}" if self.user else "") if part)
        return f"pid {self.pid}{f' ({who})' if who else ''}, {self.memory // _MIB} MiB"


def foreign_processes(text: str) -> tuple[ForeignProcess, ...]:
    found = _loaded(text)
    read = [_process(one) for one in found[:_MOST]] if isinstance(found, list) else []
    return tuple(one for one in read if one is not None)


def _process(one: Any) -> ForeignProcess | None:
    if not isinstance(one, dict) or not isinstance(one.get("card"), str) or not isinstance(one.get("pid"), int):
        return None
    memory = one.get("memory")
    texts = {key: str(one.get(key) or "")[:_LONGEST_REASON] for key in ("user", "command")}
    return ForeignProcess(one["card"], one["pid"], memory=memory if isinstance(memory, int) else 0, **texts)


def encode_foreign(found: Sequence[ForeignProcess]) -> str:
    return json.dumps([asdict(one) for one in found], separators=(",", ":")) if found else ""


def with_foreign(cards: Sequence[Card], annotations: Mapping[str, str]) -> tuple[Card, ...]:
    """The cards, closed where the node's annotations name processes of others on them. What closes a card for another
    reason stays."""
    found = () if annotations.get(IGNORED) == "true" else foreign_processes(str(annotations.get(FOREIGN) or ""))
    if not found:
        return tuple(cards)
    used: dict[str, list[ForeignProcess]] = {}
    for process in found:
        used.setdefault(process.card, []).append(process)
    return tuple(
        replace(card, unhealthy=foreign_in_words(used[card.uuid])) if card.uuid in used and not card.unhealthy else card
        for card in cards
    )


def is_ill(card: Card) -> bool:
    """Whether its pods have to leave; a card that others use only takes no new ones."""
    return bool(card.unhealthy) and not card.unhealthy.startswith(USED_BY_OTHERS)


def foreign_in_words(processes: Sequence[ForeignProcess]) -> str:
    listed = "; ".join(one.in_words for one in processes[:_NAMED])
    more = f" and {len(processes) - _NAMED} more" if len(processes) > _NAMED else ""
    return f"{USED_BY_OTHERS}: {listed}{more}"


USED_BY_OTHERS: Final = "used by processes that are not gpuaas's"


def _loaded(text: str) -> Any:
    try:
        return read_json(text, _LONGEST)
    except ValueError:
        return None
