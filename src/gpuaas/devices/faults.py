"""What is wrong with cards: which faults take a card out of service, in words. Pure.

A simulated node's faults are its annotation `gpuaas.dev/card-faults`: `CARD=FAULT` pairs with commas between them, where
CARD is an index or a UUID and FAULT one of `xid:N`, `ecc`, `temperature:N`, `vanished` and `mig` (the next change of this
card's MIG layout fails). An Xid of NVIDIA's ignore list is an application's error: it is reported and the card stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuaas.base.numbers import natural
from gpuaas.devices.cards import Card
from gpuaas.devices.health import xid_filter

ANNOTATION: Final = "gpuaas.dev/card-faults"
TOO_HOT: Final = 95  # degrees Celsius; NVIDIA's data centre cards slow down a few degrees below and shut down above
VANISHED: Final = "vanished: the driver does not find the card any more"
_MOST: Final = 4096  # faults that are read
_LONGEST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Fault:
    """`ill`: why the card takes no work; empty where it stays in service. `note`: what is reported all the same."""

    card: str  # index or UUID, as written
    ill: str = ""
    note: str = ""
    fails_mig: bool = False


Faults = Mapping[str, Sequence[Fault]]
"""By the index or UUID that names the card, so that looking them up costs what one card has."""


def read_faults(text: str, env: Mapping[str, str] | None = None) -> tuple[Faults, tuple[str, ...]]:
    """The faults, and the parts that are none. `env`: the device plugin's, which may list Xids to ignore or to heed."""
    found: dict[str, list[Fault]] = {}
    wrong: list[str] = []
    for part in text[:_LONGEST].split(",")[:_MOST]:
        card, _, words = part.strip().partition("=")
        fault = _fault(card.strip(), words.strip().lower(), env or {})
        if fault is not None:
            found.setdefault(fault.card, []).append(fault)
        elif part.strip():
            wrong.append(part.strip()[:64])
    return found, tuple(wrong)


def _fault(card: str, words: str, env: Mapping[str, str]) -> Fault | None:
    kind, _, amount = words.partition(":")
    number = natural(amount)
    match kind:
        case _ if not card:
            return None
        case "xid" if number:
            if xid_filter(env).is_unhealthy(number):
                return Fault(card, ill=f"Xid {number}")
            return Fault(card, note=f"Xid {number} is on NVIDIA's ignore list: an application's error, the card stays")
        case "ecc":
            return Fault(card, ill="uncorrectable ECC error: row remapping failed")
        case "temperature" if number is not None:
            hot = number >= TOO_HOT
            return Fault(card, ill=f"temperature {number} °C, the limit is {TOO_HOT} °C") if hot else Fault(card)
        case "vanished":
            return Fault(card, ill=VANISHED)
        case "mig":
            return Fault(card, fails_mig=True)
        case _:
            return None


def of_card(faults: Faults, card: Card) -> list[Fault]:
    return [*faults.get(str(card.index), ()), *faults.get(card.uuid, ())]


def marked(cards: Sequence[Card], faults: Faults) -> tuple[Card, ...]:
    """The cards, with those that are ill out of service."""
    if not faults:
        return tuple(cards)
    return tuple(
        replace(card, unhealthy=ill)
        if not card.unhealthy and (ill := "; ".join(one.ill for one in of_card(faults, card) if one.ill))
        else card
        for card in cards
    )
