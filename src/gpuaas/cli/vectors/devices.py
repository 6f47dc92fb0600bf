"""Device vectors: what NVIDIA's device plugin, feature discovery, MPS daemon and mig-parted decided on simulated cards.

The first line of a file holds facts of products; three families follow: `sharing`, `mig` and `health`. Errors are compared
with the prefixes of the program that printed them; a text named in `freeWording` only has to be an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.cli.vectors.verdicts import Difference, Verdict
from gpuaas.devices import health, labels, mig_apply, mig_config, mps, offer, preferred
from gpuaas.devices.allocate import RefusedError, allocate
from gpuaas.devices.cards import Card, Fabric, MigDevice
from gpuaas.devices.labels import Machine
from gpuaas.devices.mig_apply import CardState
from gpuaas.devices.mig_config import MigConfigError
from gpuaas.devices.offer import Offer
from gpuaas.devices.plugin_config import ConfigError, DecodeError, PluginConfig, check_flags, load
from gpuaas.devices.preferred import NotEnoughError
from gpuaas.devices.products import PRODUCTS
from gpuaas.machinery.yamltext import YamlError, load_yaml_documents

Object = Mapping[str, Any]

_FILE: Final = (
    "unable to load config: unable to finalize config: unable to parse config file: error parsing config file: "
)
_DECODING: Final = "unmarshal error: error unmarshaling JSON: while decoding JSON: "
_MIG_FILE: Final = "Error parsing config file: unmarshal error: error unmarshaling JSON: while decoding JSON: "
_STARTING: Final = "error starting plugins: "
_MANAGERS: Final = "error getting plugins: unable to create plugins: failed to construct resource managers: "
_ANY: Final = "an error in the decoder's own words"


def is_devices(vector: Object) -> bool:
    return vector.get("family") in ("facts", "sharing", "mig", "health") and "group" in vector


def is_facts(vector: Object) -> bool:
    """The first line of a file: facts about products, checked but not counted as a vector."""
    return vector.get("family") == "facts" and "group" in vector


def judge(vector: Object) -> Verdict:
    expect, found = vector["expect"], _RUN[vector["family"]](vector["input"])
    differences = _compare(vector["family"], expect, found)
    return Verdict(vector["name"], vector["group"], tuple(differences), informative="differs" in vector)


def _compare(family: str, expect: Object, found: Object) -> Iterator[Difference]:
    free = set(expect.get("freeWording") or ())
    for key in sorted((set(expect) | set(found)) - {"freeWording"}):
        wanted, got = expect.get(key), found.get(key)
        if key in free:
            wanted, got = (_ANY if wanted else wanted), (_ANY if got else got)
        if family == "sharing" and key == "preferred":
            got = [_as_shown(one, two) for one, two in zip(wanted or (), got or (), strict=True)]
        if key == "labels" and "labelsAnyOf" in expect:
            several = expect["labelsAnyOf"]
            got = {name: value for name, value in (got or {}).items() if value not in several.get(name, ())}
        if key == "labelsAnyOf":
            continue
        if key == "resources" and wanted and got:
            got = {name: {k: v for k, v in row.items() if k in wanted.get(name, row)} for name, row in got.items()}
        if wanted != got:
            yield Difference(key, wanted, got)
            return


def _documents(text: str) -> Any:
    return next(iter(load_yaml_documents(text)), None)


# -- Facts and health ---------------------------------------------------------------------------------------------------


def _facts(_: Object) -> Object:
    return {
        key: {
            "name": product.name,
            "memoryMiB": product.memory_mib,
            "computeCapability": list(product.compute),
            "pciId": f"0x{product.pci_id:X}",
            "pciClass": f"0x{product.pci_class:06x}",
            "migCapable": product.mig_capable,
            "modeChangeNeedsReset": product.mode_change_needs_reset,
            "profiles": [_profile(profile) for profile in product.profiles],
        }
        for key, product in PRODUCTS.items()
        if product.measured
    }


def _profile(profile: Any) -> Object:
    engines = profile.engines
    return {
        "name": profile.name,
        "nvmlProfile": profile.nvml,
        "id": profile.id,
        "slices": profile.slices,
        "max": profile.max,
        "multiprocessors": profile.multiprocessors,
        "copy": engines.copy,
        "decoder": engines.decoder,
        "encoder": engines.encoder,
        "jpeg": engines.jpeg,
        "ofa": engines.ofa,
        "memoryMiB": profile.memory_mib,
        "placements": [[start, profile.size] for start in profile.starts],
    }


def _health(given: Object) -> Object:
    xids = health.xid_filter(given.get("env") or {})
    return {"checksOff": xids.off, "unhealthyXids": [xid for xid in given["xids"] if xids.is_unhealthy(xid)]}


# -- Sharing ------------------------------------------------------------------------------------------------------------


def _cards(given: Object) -> tuple[Card, ...]:
    return tuple(_card(index, gpu, given) for index, gpu in enumerate(given["gpus"]))


def _card(index: int, gpu: Object, given: Object) -> Card:
    links, pcie, fabric = given.get("links"), given.get("pcie"), gpu.get("fabric")
    devices = tuple(
        MigDevice(f"MIG-00000000-0000-4000-8000-00000000{index:02}{at:02}", at, profile)
        for at, profile in enumerate(gpu.get("devices") or ())
    )
    return Card(
        index,
        f"GPU-00000000-0000-4000-8000-0000000000{index:02}",
        PRODUCTS[gpu["product"]],
        mig=bool(gpu.get("mig")),
        devices=devices,
        name_override=gpu.get("name", ""),
        fabric=Fabric(fabric["cluster"], fabric["clique"], fabric.get("state", "completed")) if fabric else None,
        nvlinks=tuple(links[index]) if links else (),
        pcie=tuple(pcie[index]) if pcie else (),
    )


@dataclass(slots=True)
class _Loaded:
    """The configuration, or the two texts with which the plugin and feature discovery end."""

    config: PluginConfig | None = None
    problem: str = ""


def _load(given: Object) -> _Loaded:
    try:
        document = None if given["config"] is None else _documents(given["config"])
        return _Loaded(load(document, given.get("env") or {}, present=given["config"] is not None))
    except (DecodeError, YamlError) as error:
        return _Loaded(problem=f"{_FILE}{_DECODING}{error}")
    except ConfigError as error:
        return _Loaded(problem=f"{_FILE}{error}")


def _sharing(given: Object) -> Object:
    loaded = _load(given)
    if loaded.config is None:
        started = _STARTING + loaded.problem
        return {"error": started, "labelsError": loaded.problem, "mpsError": started}
    config, cards = loaded.config, _cards(given)
    found: dict[str, Any] = {}
    offered = _offered(cards, config, found)
    machine = Machine(given["driver"], given["cuda"], given["machine"])
    try:
        found["labels"] = labels.labels(cards, config, machine)
    except ConfigError as error:
        found["labelsError"] = str(error)
    _mps(cards, config, found)
    if offered is not None:
        found["resources"] = {name: _advertised(devices) for name, devices in sorted(offered.items())}
        for key, answer in (("allocate", _allocated), ("preferred", _preferred)):
            if key in given:
                found[key] = [answer(offered, config, request) for request in given[key] if _asks(offered, request)]
    return found


def _asks(offered: Offer, request: Object) -> bool:
    return request["resource"] in offered


def _offered(cards: tuple[Card, ...], config: PluginConfig, found: dict[str, Any]) -> Offer | None:
    try:
        check_flags(config)
    except ConfigError as error:
        found["error"] = f"{_STARTING}unable to validate flags: {error}"
        return None
    if config.imex_channels and config.imex_required:
        found["error"] = (
            f"{_STARTING}error getting plugins: error querying IMEX channels: requested IMEX channel channel0 does not exist"
        )
        return None
    try:
        offered = offer.offer(cards, config)
    except ConfigError as error:
        found["error"] = f"{_STARTING}{_MANAGERS}{error}"
        return None
    if config.strategy == "mps" and any(device.mig for devices in offered.values() for device in devices.values()):
        found["error"] = (
            f"{_STARTING}error getting plugins: unable to create plugins: failed to create plugin: sharing using MPS is not"
            " supported for MIG devices"
        )
        return None
    return offered


def _advertised(devices: Mapping[str, offer.Device]) -> Object:
    row: dict[str, Any] = {"count": len(devices), "devices": len({device.uuid for device in devices.values()})}
    if len(devices) <= 12:
        row["ids"] = sorted(devices)
    return row


def _mps(cards: tuple[Card, ...], config: PluginConfig, found: dict[str, Any]) -> None:
    if config.strategy != "mps":
        return
    try:
        daemons = mps.daemons(offer.offer(cards, config), config)
    except ConfigError as error:
        found["mpsError"] = f"{_STARTING}error getting daemons: {error}"
        return
    if daemons:
        found["mps"] = {
            daemon.resource: {
                "pinnedMemory": daemon.pinned_memory,
                "activeThreadPercentage": str(daemon.active_thread_percentage),
                "env": daemon.environment,
            }
            for daemon in daemons
        }


def _allocated(offered: Offer, config: PluginConfig, request: Object) -> Object:
    try:
        granted = allocate(offered, config, request["resource"], request["ids"])
    except RefusedError as error:
        return {"error": str(error)}
    answer: dict[str, Any] = {"env": granted.environment}
    if granted.mounts:
        answer["mounts"] = [
            {"container": mount.container, "host": mount.host, "readOnly": mount.read_only} for mount in granted.mounts
        ]
    if granted.nodes:
        answer["deviceNodes"] = list(granted.nodes)
    return answer


def _preferred(offered: Offer, _: PluginConfig, request: Object) -> Object:
    known = offered[request["resource"]]
    try:
        ids = preferred.prefer(known, request["available"], request["required"], request["size"])
    except NotEnoughError as error:
        return {"error": str(error)}
    return {"ids": sorted(ids), "perDevice": dict(Counter(known[id_].uuid for id_ in ids if id_ in known))}


def _as_shown(wanted: Object, got: Object) -> Object:
    """What the vector says of a choice that is random in part: the ids, replicas per card, or only their shape."""
    if "error" in wanted or "error" in got:
        return got
    if "shape" in wanted:
        return {"shape": sorted(got["perDevice"].values(), reverse=True)}
    key = "perDevice" if "perDevice" in wanted else "ids"
    return {key: got[key]}


# -- MIG ----------------------------------------------------------------------------------------------------------------


def _mig(given: Object) -> Object:
    cards = [
        CardState(PRODUCTS[gpu["product"]], bool(gpu.get("mig")), dict(Counter(gpu.get("devices") or ())))
        for gpu in given["gpus"]
    ]
    if given["command"] == "generate":
        try:
            return {"configs": mig_config.document(mig_apply.generate(card.product for card in cards))}
        except MigConfigError as error:
            return {"error": _capital(str(error))}
    problem = _mig_problem(given, cards)
    after = [{"mig": card.enabled, "devices": card.devices} for card in cards]
    return {**({"error": problem} if problem else {}), "gpus": after}


def _mig_problem(given: Object, cards: list[CardState]) -> str:
    flags = set(given.get("flags") or ())
    try:
        configs = mig_config.parse(_documents(given["config"]))
    except (MigConfigError, YamlError) as error:
        return f"{_MIG_FILE}{error}"
    try:
        entries = mig_config.select(configs, given.get("selected") or "")
    except MigConfigError as error:
        return f"Error selecting MIG config: {error}"
    mode_only = "--mode-only" in flags
    if given["command"] == "assert":
        if "--valid-config" in flags or mig_apply.is_applied(cards, entries, mode_only=mode_only):
            return ""
        return "Assertion failure: selected configuration not currently applied"
    try:
        mig_apply.apply(cards, entries, mode_only=mode_only, skip_reset="--skip-reset" in flags)
    except MigConfigError as error:
        return f"Error applying MIG configuration with hooks: {error}"
    return ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_RUN: Final[Mapping[str, Callable[[Object], Object]]] = {
    "facts": _facts,
    "sharing": _sharing,
    "mig": _mig,
    "health": _health,
}
