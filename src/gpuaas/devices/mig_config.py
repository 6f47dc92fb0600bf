"""mig-parted's document: named MIG configurations, decoded and checked with mig-parted's messages.

The whole document is checked, not only the configuration that is chosen, and unknown fields are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.devices.mig_profile import parse_profile

_VERSION: Final = "v1"


class MigConfigError(ValueError):
    """The document, or the choice from it, is wrong; the text is mig-parted's."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is wanted of the cards that match: those of these PCI ids and indices (None: of all)."""

    enabled: bool
    devices: Mapping[str, int] | None
    indices: tuple[int, ...] | None = None
    filters: tuple[str, ...] = ()

    def matches(self, index: int, pci_id: int) -> bool:
        if self.filters and not any(_pci(text) == pci_id for text in self.filters):
            return False
        return self.indices is None or index in self.indices


Configs = Mapping[str, tuple[Entry, ...]]


def parse(document: Any) -> Configs:
    """The configurations by name. Raises MigConfigError for the first mistake."""
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise MigConfigError("json: cannot unmarshal into Go value of type map[string]json.RawMessage")
    fields = {_key(key): value for key, value in document.items()}
    if fields and "version" not in fields:
        raise MigConfigError("unable to parse with missing 'version' field")
    version = fields.pop("version", "")
    if version is not None and not isinstance(version, str):
        version = _scalar(version)
    if version != _VERSION:
        raise MigConfigError(f"unknown version: {version or ''}")
    configs: dict[str, tuple[Entry, ...]] = {}
    for name, value in fields.items():
        if name != "mig-configs":
            raise MigConfigError(f"unexpected field: {name}")
        configs = _configs(value)
    return configs


def select(configs: Configs, name: str) -> tuple[Entry, ...]:
    """The configuration of this name; a sole one needs no name. Raises MigConfigError."""
    if not name:
        if len(configs) > 1:
            raise MigConfigError("missing required flag 'selected-config' when more than one config available")
        name = next(iter(configs), "")
    if name not in configs:
        raise MigConfigError(f"selected mig-config not present: {name}")
    return configs[name]


def _configs(value: Any) -> dict[str, tuple[Entry, ...]]:
    if value is not None and not isinstance(value, dict):
        raise MigConfigError("json: cannot unmarshal into Go value of type map[string]v1.MigConfigSpecSlice")
    found: dict[str, tuple[Entry, ...]] = {}
    for key, entries in (value or {}).items():
        if entries is not None and not isinstance(entries, list):
            raise MigConfigError("json: cannot unmarshal into Go value of type v1.MigConfigSpecSlice")
        found[_key(key)] = tuple(_entry(entry) for entry in entries or ())
    if not found:
        raise MigConfigError("at least one entry in 'mig-configs' is required")
    for name, parsed in found.items():
        if not parsed:
            raise MigConfigError(f"at least one entry in '{name}' is required")
    return found


def _entry(value: Any) -> Entry:
    if value is not None and not isinstance(value, dict):
        raise MigConfigError("json: cannot unmarshal into Go value of type map[string]json.RawMessage")
    fields = {_key(key): item for key, item in (value or {}).items()}
    for required in ("devices", "mig-enabled"):
        if required not in fields:
            raise MigConfigError(f"missing required field: {required}")
    if unknown := fields.keys() - {"device-filter", "devices", "mig-enabled", "mig-devices"}:
        raise MigConfigError(f"unexpected field: {min(unknown)}")
    filters = _filters(fields.get("device-filter"))
    indices = _indices(fields["devices"])
    enabled = fields["mig-enabled"]
    if enabled is not None and not isinstance(enabled, bool):
        raise MigConfigError("json: cannot unmarshal into Go value of type bool")
    devices = _devices(fields.get("mig-devices"))
    if enabled and devices is None:
        raise MigConfigError("missing required field 'mig-devices' when 'mig-enabled' is true")
    if not enabled and devices:
        raise MigConfigError("MIG devices included when 'mig-enabled' is false")
    return Entry(bool(enabled), devices, indices, filters)


def _filters(value: Any) -> tuple[str, ...]:
    match value:
        case None | "":
            return ()
        case str():
            return (value,)
        case list() if all(isinstance(item, str) for item in value):
            return tuple(value)
    raise MigConfigError("(json: cannot unmarshal into Go value of type string, json: cannot unmarshal into []string)")


def _indices(value: Any) -> tuple[int, ...] | None:
    match value:
        case "all":
            return None
        case None | str():
            raise MigConfigError(f"invalid string input for 'devices': {value or ''}")
        case list() if all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            return tuple(value)
    raise MigConfigError("(json: cannot unmarshal into Go value of type string, json: cannot unmarshal into []int)")


def _devices(value: Any) -> Mapping[str, int] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(
        isinstance(count, int) and not isinstance(count, bool) for count in value.values()
    ):
        raise MigConfigError("json: cannot unmarshal into Go value of type types.MigConfig")
    devices = {_key(profile): count for profile, count in value.items()}
    try:
        _check_devices(devices)
    except ValueError as error:
        raise MigConfigError(f"error validating values in 'mig-devices' field: {error}") from None
    return devices


def _check_devices(devices: Mapping[str, int]) -> None:
    for profile, count in devices.items():
        try:
            parse_profile(profile)
        except ValueError as error:
            raise ValueError(f"invalid format for '{profile}': {error}") from None
        if count < 0:
            raise ValueError(f"invalid count for '{count}': <nil>")
    if devices and not any(devices.values()):
        raise ValueError("all counts for all MigProfiles are 0")


def _key(key: Any) -> str:
    """A map key as text: YAML 1.1 reads `y` as true."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pci(text: str) -> int:
    """A PCI id as mig-parted reads it; what is no number matches nothing."""
    if not re.fullmatch(r"[+-]?(0[xX][0-9A-Fa-f]+|[0-9]+)", text):
        return 0
    try:
        return int(text, 0)
    except ValueError:
        return 0


def document(configs: Mapping[str, Iterable[Entry]]) -> dict[str, Any]:
    """The `mig-configs` of a document that holds these."""
    return {name: [_shown(entry) for entry in entries] for name, entries in configs.items()}


def _shown(entry: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = {"device-filter": list(entry.filters)} if entry.filters else {}
    devices = "all" if entry.indices is None else list(entry.indices)
    return {
        **shown,
        "devices": devices,
        "mig-enabled": entry.enabled,
        "mig-devices": None if entry.devices is None else dict(entry.devices),
    }
