"""What a node knows about its cards beyond their configuration: which are ill, and which are used by others. Pure.

Two annotations of a node carry it. `gpuaas.dev/card-faults` has `CARD=FAULT` pairs with commas between them, CARD an index
or a UUID, FAULT one of `xid:N`, `ecc`, `vanished`: the node's own watcher writes it for a real card, people write it for a
simulated one. An ill card leaves allocatable and its pods are evicted. `gpuaas.dev/gpu-foreign` lists processes on the
cards that belong to no pod here: such a card takes no new work, and what runs on it goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from gpuaas.base.numbers import natural
from gpuaas.devices.cards import Card
from gpuaas.devices.health import xid_filter

FAULTS: Final = "gpuaas.dev/card-faults"
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


def ill_cards(cards: Sequence[Card], text: str) -> dict[str, str]:
    """Reasons by UUID, of the cards that are there."""
    found: dict[str, str] = {}
    for part in text[:_LONGEST].split(",")[:_MOST]:
        named, _, fault = part.strip().partition("=")
        for card in cards:
            if named in (str(card.index), card.uuid) and (reason := _reason(fault)):
                found[card.uuid] = f"{found[card.uuid]}; {reason}" if card.uuid in found else reason
    return found


def _reason(fault: str) -> str:
    kind, _, amount = fault.partition(":")
    match kind:
        case "xid":
            number = natural(amount)
            return f"Xid {number}" if number and xid_filter({}).is_unhealthy(number) else ""
        case "ecc":
            return "uncorrectable ECC error: row remapping failed"
        case "vanished":
            return "vanished: the driver does not find the card any more"
        case _:
            return ""


def with_states(cards: Sequence[Card], annotations: Mapping[str, str]) -> tuple[Card, ...]:
    """The cards as these annotations close them; what closes a card for another reason stays."""
    ill = ill_cards(cards, str(annotations.get(FAULTS) or ""))
    used: dict[str, list[ForeignProcess]] = {}
    ignored = annotations.get(IGNORED) == "true"
    for process in () if ignored else foreign_processes(str(annotations.get(FOREIGN) or "")):
        used.setdefault(process.card, []).append(process)
    return tuple(_closed(card, ill.get(card.uuid, ""), used.get(card.uuid, ())) for card in cards)


def reopened(cards: Sequence[Card], closed: Mapping[str, str]) -> tuple[Card, ...]:
    """The cards without what `with_states` closed them for before: `closed` is the reason by UUID."""
    return tuple(
        replace(card, unhealthy="") if card.unhealthy and closed.get(card.uuid) == card.unhealthy else card
        for card in cards
    )


def closed_by_states(before: Sequence[Card], after: Sequence[Card]) -> dict[str, str]:
    """The reasons that `with_states` added."""
    return {new.uuid: new.unhealthy for old, new in zip(before, after, strict=True) if new.unhealthy != old.unhealthy}


def _closed(card: Card, illness: str, processes: Sequence[ForeignProcess]) -> Card:
    if card.unhealthy or not (illness or processes):
        return card
    return replace(card, unhealthy=illness or foreign_in_words(processes))


def foreign_in_words(processes: Sequence[ForeignProcess]) -> str:
    listed = "; ".join(one.in_words for one in processes[:_NAMED])
    more = f" and {len(processes) - _NAMED} more" if len(processes) > _NAMED else ""
    return f"{USED_BY_OTHERS}: {listed}{more}"


USED_BY_OTHERS: Final = "used by processes that are not gpuaas's"


def _loaded(text: str) -> Any:
    try:
        return json.loads(text) if text and len(text) <= _LONGEST else None
    except (ValueError, RecursionError):
        return None
