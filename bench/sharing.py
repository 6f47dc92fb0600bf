"""How many people eight cards serve: the same day of notebooks and inference pods on whole cards, time-sliced cards and
MIG slices.

`python -m bench sharing`: a day is played in virtual time. Arrivals, lengths and memory are drawn once from a seed and are
the same for each way of sharing; which device a pod gets, its budget and whether it passes it are decided by the product's
own package `devices`, the same code the kubelets run. Pods wait in the order they came and start when a device is free. A
pod that passes its memory budget is stopped; "cards overrun" counts how often memory in use would have passed that of the
card if nothing kept budgets: then whoever allocates next fails, be it the neighbour.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from typing import Any

from bench.show import table
from gpuaas.devices.cards import Card
from gpuaas.devices.holding import Held, NoDeviceError, choose
from gpuaas.devices.inventory import Pool, simulated_cards, with_layout
from gpuaas.devices.memory import budget_of
from gpuaas.devices.offer import GPU, offer
from gpuaas.devices.plugin_config import PluginConfig, SharedResource, Sharing

CARDS, PEOPLE, DAY = 8, 160, 8 * 3600.0
PRODUCT = "NVIDIA-A100-SXM4-40GB"
_SLICE = "nvidia.com/mig-1g.5gb"
# (how many of 100, least and most MiB at its peak)
_NOTEBOOKS = ((70, 2000, 4600), (25, 6000, 9500), (5, 12000, 18000))
_INFERENCE = ((90, 1500, 4600), (10, 5000, 9000))


@dataclass(frozen=True, slots=True)
class Person:
    number: int
    kind: str
    arrives: float
    stays: float
    needs: int  # MiB at the peak
    peaks_at: float  # seconds after it started


@dataclass(slots=True)
class Outcome:
    served: int = 0
    at_once: int = 0
    waits: list[float] = field(default_factory=list)
    stopped: int = 0
    overrun: int = 0
    never: int = 0


def people(seed: int = 1) -> list[Person]:
    chance = random.Random(seed)
    return [_person(number, chance) for number in range(PEOPLE)]


def _person(number: int, chance: random.Random) -> Person:
    kind = "inference" if chance.random() < 0.25 else "notebook"
    mean = 3.0 if kind == "inference" else 1.5
    stays = min(DAY, max(600.0, chance.lognormvariate(0.0, 0.6) * mean * 3600))
    needs = _drawn(_INFERENCE if kind == "inference" else _NOTEBOOKS, chance)
    return Person(number, kind, chance.uniform(0, DAY * 0.75), stays, needs, stays * chance.uniform(0.1, 0.9))


def _drawn(classes: tuple[tuple[int, int, int], ...], chance: random.Random) -> int:
    [(_, least, most)] = chance.choices(classes, [weight for weight, _, _ in classes])
    return chance.randint(least, most)


def play(cards: tuple[Card, ...], config: PluginConfig, resource: str, crowd: list[Person]) -> Outcome:
    offered, outcome = offer(cards, config), Outcome()
    held: dict[int, tuple[Held, ...]] = {}
    using: dict[int, int] = {}
    waiting: list[Person] = []
    events: list[tuple[float, int, str, Person]] = [(one.arrives, one.number, "comes", one) for one in crowd]
    heapq.heapify(events)
    while events:
        now, _, what, person = heapq.heappop(events)
        if now > DAY:
            break
        match what:
            case "comes":
                waiting.append(person)
            case "peaks" if person.number in held:
                using[person.number] = person.needs
                card = held[person.number][0]
                mates = [number for number, devices in held.items() if devices[0].card == card.card]
                hardware = card.profile or (resource == GPU and not card.shares)
                if not hardware and sum(using[number] for number in mates) > card.memory:
                    outcome.overrun += 1
                if person.needs > budget_of(held[person.number]):
                    outcome.stopped += 1
                    del held[person.number]
            case "goes" if person.number in held:
                del held[person.number]
        for one in list(waiting):
            try:
                taken = [each for devices in held.values() for each in devices]
                held[one.number] = choose(offered, config, {"main": {resource: 1}}, taken)
            except NoDeviceError:
                break
            waiting.remove(one)
            using[one.number] = one.needs // 3
            outcome.served += 1
            outcome.waits.append(now - one.arrives)
            heapq.heappush(events, (now + one.peaks_at, one.number, "peaks", one))
            heapq.heappush(events, (now + one.stays, one.number, "goes", one))
        outcome.at_once = max(outcome.at_once, len(held))
    outcome.never = len(crowd) - outcome.served
    return outcome


def ways() -> dict[str, tuple[tuple[Card, ...], PluginConfig, str]]:
    cards = simulated_cards("node", Pool(PRODUCT, CARDS))
    sliced = PluginConfig(time_slicing=Sharing((SharedResource(GPU, 4),)))
    cut = tuple(with_layout(card, {"1g.5gb": 7}) for card in cards)
    return {
        "whole": (cards, PluginConfig(), GPU),
        "time-sliced x4": (cards, sliced, GPU),
        "MIG x7": (cut, PluginConfig(mig_strategy="mixed"), _SLICE),
    }


def measure() -> dict[str, Any]:
    crowd, found = people(), dict[str, Any]()
    rows = []
    for name, way in ways().items():
        outcome = play(*way, crowd)
        waits = sorted(outcome.waits)
        middle, late = (waits[int(len(waits) * part)] / 60 if waits else 0.0 for part in (0.5, 0.95))
        found[name] = {
            "served": outcome.served,
            "at_once": outcome.at_once,
            "wait_minutes_median": round(middle, 1),
            "wait_minutes_p95": round(late, 1),
            "never_started": outcome.never,
            "stopped_over_budget": outcome.stopped,
            "cards_overrun_without_budgets": outcome.overrun,
        }
        rows.append((name, *(str(value) for value in found[name].values())))
    head = ("way", "served", "at once", "wait p50 min", "wait p95 min", "never", "over budget", "cards overrun")
    table(f"{PEOPLE} people, a day of 8 hours, {CARDS} x {PRODUCT}", head, rows)
    return found
