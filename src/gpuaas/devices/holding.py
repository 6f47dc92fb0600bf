"""Which pod holds which device: the annotation a pod carries, what is free beside it, and what its processes are given.

The node's kubelet writes `gpuaas.dev/devices` when it takes a pod on: for each container the devices by resource, with
what a program needs to be shown of them. A device is free where nothing that runs holds it; a whole card and anything
that lies on it (its slices, its replicas) exclude each other, so that two pods share a card only through replicas.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.jsontext import read_json
from gpuaas.base.quantity import parse_quantity
from gpuaas.devices import allocate, budget, preferred
from gpuaas.devices.cards import Card
from gpuaas.devices.inventory import SIMULATED
from gpuaas.devices.offer import Device, Offer
from gpuaas.devices.plugin_config import PluginConfig

ANNOTATION: Final = "gpuaas.dev/devices"
_MOST: Final = 1 << 20
_LONGEST: Final = 1 << 18  # characters of an annotation that are read
_ALIGNED: Final = 8  # cards whose wiring is compared in full; more are taken by index

Requests = Mapping[str, Mapping[str, int]]  # container to resource to amount


class NoDeviceError(ValueError):
    """Not enough devices are free now; the text says of which resource, how many, and who holds them."""


@dataclass(frozen=True, slots=True)
class Held:
    """A device in a container's hands. `id` ends with `::N` for a replica; `card` is the physical card's UUID."""

    container: str
    resource: str
    id: str
    card: str
    name: str = ""  # of the product
    memory: int = 0  # MiB of the card, or of the slice
    index: int = 0  # of the card on its node
    profile: str = ""  # of a MIG device
    shares: int = 0  # how many share it; 0 where it is not shared
    budget: int = 0  # MiB of it that may be used; 0: all
    sharing: str = ""  # time-slicing or mps, of a replica

    @property
    def uuid(self) -> str:
        return self.id.partition("::")[0]

    @property
    def is_replica(self) -> bool:
        return "::" in self.id


def requests_of(spec: Mapping[str, Any], resources: Iterable[str]) -> dict[str, dict[str, int]]:
    """What the pod's containers ask for of these resources. Init containers that end before take nothing here."""
    known = frozenset(resources)
    found: dict[str, dict[str, int]] = {}
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*sidecars, *(spec.get("containers") or ())):
        limits = (container.get("resources") or {}).get("limits") or (container.get("resources") or {}).get("requests")
        wanted = {name: count for name, amount in (limits or {}).items() if name in known and (count := _count(amount))}
        if wanted:
            found[container["name"]] = wanted
    return found


def _count(amount: Any) -> int:
    """A number of devices; 0 for what is none."""
    try:
        found = parse_quantity(amount).value
    except ValueError:
        return 0
    return found if 0 < found <= _MOST else 0


def choose(
    offered: Offer,
    config: PluginConfig,
    requests: Requests,
    taken: Sequence[Held],
    *,
    asked: int = 0,
    barred: frozenset[str] = frozenset(),
) -> tuple[Held, ...]:
    """Devices for every request, or none at all. `asked`: MiB of each device that the pod's annotation asks for. `barred`:
    cards that this pod may not share. Raises NoDeviceError, budget.BudgetError for an amount that no device has, and
    allocate.RefusedError where sharing forbids the number asked for."""
    found: list[Held] = []
    for container, wanted in requests.items():
        for resource, count in sorted(wanted.items()):
            known = offered.get(resource, {})
            held = (*taken, *found)
            free = free_ids(known, held)
            roomy = _with_room(known, [id_ for id_ in free if known[id_].card.uuid not in barred], held, asked, count)
            if len(roomy) < count:
                raise NoDeviceError(_short(resource, count, len(known), len(free), len(roomy), asked))
            ids = preferred_ids(known, roomy, count)
            allocate.allocate(offered, config, resource, ids)
            found += [_held(container, resource, known[id_], config, asked) for id_ in ids]
    return tuple(found)


def _with_room(known: Mapping[str, Device], free: list[str], held: Sequence[Held], asked: int, count: int) -> list[str]:
    """The free ids whose cards have room for one more budget each; in the order given."""
    room: dict[str, int] = {}
    found: list[str] = []
    for id_ in free:
        device = known[id_]
        need = budget.share_mib(device, asked)
        if not need or not budget.memory_mib(device):
            found.append(id_)
            continue
        left = room.setdefault(device.uuid, budget.room_mib(device, held))
        if left >= need:
            found.append(id_)
            room[device.uuid] = left - need if count > 1 else left
    return found


def _short(resource: str, count: int, total: int, free: int, roomy: int, asked: int) -> str:
    words = f"{count} of {resource} asked for, {free} of {total} free"
    if roomy == free:
        return words
    of_memory = f", {roomy} of them with {asked} MiB of memory left" if asked else f", {roomy} of them may be shared"
    return words + of_memory


def _held(container: str, resource: str, device: Device, config: PluginConfig, asked: int) -> Held:
    card, mig = device.card, device.mig
    memory, profile = budget.memory_mib(device), mig.profile if mig is not None else ""
    return Held(
        container,
        resource,
        device.id,
        card.uuid,
        card.name,
        memory,
        card.index,
        profile,
        shares=device.replicas,
        budget=budget.share_mib(device, asked),
        sharing=config.strategy if device.is_replica else "",
    )


def free_ids(known: Mapping[str, Device], taken: Iterable[Held]) -> list[str]:
    ids, whole, sliced, shared = set[str](), set[str](), set[str](), set[str]()
    for held in taken:
        ids.add(held.id)
        if held.is_replica:
            shared.add(held.uuid)
        else:
            whole.add(held.uuid)
        if held.uuid != held.card:
            sliced.add(held.card)
    return [
        id_
        for id_, device in known.items()
        if id_ not in ids
        and not device.card.unhealthy
        and device.uuid not in whole  # a pod has all of it
        and (device.is_replica or device.uuid not in shared)
        and (device.card.uuid not in sliced if device.mig is None else device.card.uuid not in whole | shared)
    ]


def preferred_ids(known: dict[str, Device], free: list[str], count: int) -> list[str]:
    """NVIDIA's preference, with its cost bounded: among equally wired cards the first are as good as any."""
    devices = [known[id_] for id_ in free]
    whole = all(device.mig is None and not device.is_replica for device in devices)
    if whole and (count in (1, len(free)) or _alike([device.card for device in devices])):
        return free[:count]
    if whole and len(free) > _ALIGNED:
        if count > _ALIGNED:
            return free[:count]
        free = free[: max(_ALIGNED, count)]
    return preferred.prefer(known, free, [], count)


def _alike(cards: Sequence[Card]) -> bool:
    """Whether every pair of these is connected in the same way."""
    links = {card.nvlinks[o.index] if card.nvlinks else 0 for card in cards for o in cards if o is not card}
    levels = {card.pcie[o.index] if card.pcie else 0 for card in cards for o in cards if o is not card}
    return len(links) <= 1 and len(levels) <= 1


# -- The annotation -----------------------------------------------------------------------------------------------------


def encode(devices: Sequence[Held]) -> str:
    shown: dict[str, list[dict[str, Any]]] = {}
    for one in devices:
        entry: dict[str, Any] = {"id": one.id, "resource": one.resource, "card": one.card, "index": one.index}
        entry |= {"product": one.name} if one.name else {}
        entry |= {"memory": one.memory} if one.memory else {}
        entry |= {"profile": one.profile} if one.profile else {}
        entry |= {"shares": one.shares} if one.shares else {}
        entry |= {"budget": one.budget} if one.budget else {}
        entry |= {"sharing": one.sharing} if one.sharing else {}
        shown.setdefault(one.container, []).append(entry)
    return json.dumps(shown, separators=(",", ":"))


def held_by(pod: Mapping[str, Any]) -> tuple[Held, ...]:
    """The devices the pod was given; none where it has none, or the annotation cannot be read."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION)
    if not isinstance(text, str):
        return ()
    try:
        found = read_json(text, _LONGEST)
    except ValueError:
        return ()
    if not isinstance(found, dict):
        return ()
    return tuple(
        held
        for container, devices in found.items()
        for one in (devices if isinstance(devices, list) else ())
        if (held := _read(container, one)) is not None
    )


def _read(container: str, one: Any) -> Held | None:
    if not isinstance(one, dict) or not all(isinstance(one.get(key), str) for key in ("id", "resource", "card")):
        return None
    product, profile, sharing = (str(one.get(key) or "") for key in ("product", "profile", "sharing"))
    numbers = {key: _number(one.get(key)) for key in ("memory", "index", "shares", "budget")}
    return Held(
        container, one["resource"], one["id"], one["card"], product, profile=profile, sharing=sharing, **numbers
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= _MOST else 0


# -- What a program sees ------------------------------------------------------------------------------------------------


def variables(devices: Sequence[Held], container: str) -> dict[str, str]:
    """The environment of a container that was given devices; empty where it was given none."""
    uuids = dict.fromkeys(held.uuid for held in devices if held.container == container)
    listed = ",".join(uuids)
    return {"NVIDIA_VISIBLE_DEVICES": listed, "CUDA_VISIBLE_DEVICES": listed} if uuids else {}


def smi(devices: Sequence[Held], container: str, arguments: Sequence[str], used: int = 0) -> list[str] | None:
    """What nvidia-smi prints in a simulated container; None for a question it has no answer to. `used`: MiB of memory."""
    match list(arguments):
        case ["-L"] | ["--list-gpus"]:
            return smi_list(devices, container)
        case []:
            return smi_table(devices, container, used)
        case _:
            return None


def smi_list(devices: Sequence[Held], container: str) -> list[str]:
    """What `nvidia-smi -L` prints in the container: its cards, renumbered from 0, each with its MIG devices below."""
    lines: list[str] = []
    for number, (card, parts) in enumerate(_by_card(devices, container).items()):
        lines.append(f"GPU {number}: {parts[0].name} (UUID: {card})")
        slices = [part for part in parts if part.profile]
        lines += [f"  MIG {part.profile:<14}  Device {at:>2}: (UUID: {part.uuid})" for at, part in enumerate(slices)]
    return lines or ["No devices found."]


def smi_table(devices: Sequence[Held], container: str, used: int = 0) -> list[str]:
    """A short form of the table `nvidia-smi` prints. As on a real node a budget is shown as the card's memory."""
    driver, cuda = SIMULATED.driver, f"{SIMULATED.cuda // 1000}.{SIMULATED.cuda % 1000 // 10}"
    cards = _by_card(devices, container)
    if not cards:
        return ["No devices were found"]
    rule = "+" + "-" * 77 + "+"
    lines = [
        rule,
        f"| {f'NVIDIA-SMI {driver}':<25}{f'Driver Version: {driver}':<31}{f'CUDA Version: {cuda}':<20}|",
        rule,
    ]
    for number, parts in enumerate(cards.values()):
        first = parts[0]
        whole = sum(part.budget for part in devices if part.card == first.card and part.container == container)
        memory = f"{used // len(cards)}MiB / {whole or first.memory}MiB" if not first.profile else "MIG"
        lines.append(f"| {number:>3}  {first.name:<34.34}{memory:>22}{'':<15}|")
    return [*lines, rule]


def _by_card(devices: Sequence[Held], container: str) -> dict[str, list[Held]]:
    found: dict[str, list[Held]] = {}
    for held in devices:
        if held.container == container and held.uuid not in {part.uuid for part in found.get(held.card, ())}:
            found.setdefault(held.card, []).append(held)
    return found
