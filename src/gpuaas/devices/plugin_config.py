"""NVIDIA's device plugin configuration: decoded, defaulted and checked, with NVIDIA's messages.

The document arrives decoded (YAML or JSON, first document only). Decoding follows Go's: the first mistake in order of the
sorted keys is reported, unknown keys are ignored, top-level and flag keys match without regard to case, keys inside a
sharing section exactly. `rename` and `devices` are parsed, checked and then have no effect, as in the plugin; `ignored`
names them, so that the product can warn about them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.base.names import is_dns1123_subdomain

PREFIX: Final = "nvidia.com/"
MAX_NAME: Final = 63
VERSION: Final = "v1"
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_GO_INT: Final = 1 << 63


class ConfigError(ValueError):
    """The document or a flag is wrong; the text is the plugin's, without the prefixes of the program that read it."""


class DecodeError(ConfigError):
    """The document cannot be decoded into a configuration."""


@dataclass(frozen=True, slots=True)
class SharedResource:
    name: str
    replicas: int
    rename: str = ""


@dataclass(frozen=True, slots=True)
class Sharing:
    """`mps` or `timeSlicing` of the document."""

    resources: tuple[SharedResource, ...] = ()
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = False


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """What the plugin works by once flags, environment and file are merged."""

    mig_strategy: str = "none"
    mps_root: str = ""
    pass_device_specs: bool = False
    device_list_strategy: tuple[str, ...] = ("envvar",)
    device_id_strategy: str = "uuid"
    device_discovery_strategy: str = "auto"
    gdrcopy: bool = False
    gds: bool = False
    mofed: bool = False
    time_slicing: Sharing = Sharing()
    mps: Sharing | None = None
    imex_channels: tuple[int, ...] = ()
    imex_required: bool = False
    ignored: tuple[str, ...] = field(default=(), compare=False)
    only_cards: frozenset[str] = frozenset()
    """The cards that sharing is about, by UUID; empty: all. Not NVIDIA's: only `gpuaas share` sets it."""

    @property
    def sharing(self) -> Sharing:
        """The section that counts: `mps` where it is present, although both are checked."""
        return self.time_slicing if self.mps is None else self.mps

    @property
    def strategy(self) -> str:
        if self.mps is not None and self.mps.resources:
            return "mps"
        return "time-slicing" if self.time_slicing.resources else "none"

    def shared(self, resource: str) -> SharedResource | None:
        """The first entry for a resource: what feature discovery reports about it."""
        return next((entry for entry in self.sharing.resources if entry.name == resource), None)


def load(document: Any, env: Mapping[str, str] | None = None, *, present: bool = True) -> PluginConfig:
    """Raises ConfigError. `present`: whether there is a file; `env` wins over it, also where it is set but empty."""
    values = _decode(document) if present else {}
    if (version := values.get("version") or VERSION) != VERSION:
        raise ConfigError(f"unknown version: {version}")
    return _effective(values, env or {})


def _effective(values: Mapping[str, Any], env: Mapping[str, str]) -> PluginConfig:
    flags: Mapping[str, Any] = values.get("flags") or {}
    plugin: Mapping[str, Any] = flags.get("plugin") or {}

    def text(variable: str, value: str | None, default: str) -> str:
        return env.get(variable, default if value is None else value)

    def flag(variable: str, value: bool | None) -> bool:
        return env[variable].lower() in ("1", "t", "true") if variable in env else bool(value)

    listed = env["DEVICE_LIST_STRATEGY"].split(",") if "DEVICE_LIST_STRATEGY" in env else None
    sharing: Mapping[str, Any] = values.get("sharing") or {}
    imex: Mapping[str, Any] = values.get("imex") or {}
    slicing, mps = sharing.get("timeSlicing"), sharing.get("mps")
    ignored = [name for name in ("resources",) if any((values.get("resources") or {}).values())]
    for label, section in (("timeSlicing", slicing), ("mps", mps)):
        ignored += [f"sharing.{label}.resources[].{key}" for key in (section.ignored if section else ())]
    return PluginConfig(
        mig_strategy=text("MIG_STRATEGY", flags.get("migStrategy"), "none"),
        mps_root=text("MPS_ROOT", flags.get("mpsRoot"), ""),
        pass_device_specs=flag("PASS_DEVICE_SPECS", plugin.get("passDeviceSpecs")),
        device_list_strategy=tuple(listed or plugin.get("deviceListStrategy") or ("envvar",)),
        device_id_strategy=text("DEVICE_ID_STRATEGY", plugin.get("deviceIDStrategy"), "uuid"),
        device_discovery_strategy=text("DEVICE_DISCOVERY_STRATEGY", flags.get("deviceDiscoveryStrategy"), "auto"),
        gdrcopy=flag("GDRCOPY_ENABLED", flags.get("gdrcopyEnabled")),
        gds=flag("GDS_ENABLED", flags.get("gdsEnabled")),
        mofed=flag("MOFED_ENABLED", flags.get("mofedEnabled")),
        time_slicing=slicing.sharing if slicing else Sharing(),
        mps=mps.sharing if mps else None,
        imex_channels=tuple(imex.get("channelIDs") or ()),
        imex_required=bool(imex.get("required")),
        ignored=tuple(dict.fromkeys(ignored)),
    )


def check_flags(config: PluginConfig) -> None:
    """The plugin's checks of what was merged, in its order. Raises ConfigError."""
    for strategy in config.device_list_strategy:
        if strategy not in ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"):
            raise ConfigError(f"invalid --device-list-strategy option: invalid strategy: {strategy}")
    if config.device_id_strategy not in ("uuid", "index"):
        raise ConfigError(f"invalid --device-id-strategy option: {config.device_id_strategy}")
    if config.strategy == "mps":
        if config.mig_strategy == "mixed":
            raise ConfigError("using --mig-strategy=mixed is not supported with MPS")
        if not config.mps_root:
            raise ConfigError("using MPS requires --mps-root to be specified")
    if config.device_discovery_strategy not in ("auto", "nvml", "tegra"):
        raise ConfigError(f"invalid --device-discovery-strategy option {config.device_discovery_strategy}")
    if config.mig_strategy not in ("none", "single", "mixed"):
        raise ConfigError(f"unknown MIG strategy: {config.mig_strategy}")
    if config.imex_channels not in ((), (0,)):
        found = " ".join(str(channel) for channel in config.imex_channels)
        raise ConfigError(
            f"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [{found}]"
        )


# -- Decoding -----------------------------------------------------------------------------------------------------------

Reader = Callable[[Any], Any]


def _decode(document: Any) -> dict[str, Any]:
    return _object(
        document,
        {
            "version": _text,
            "flags": lambda value: _object(value, _FLAGS),
            "imex": lambda value: _object(value, {"channelIDs": _integers, "required": _boolean}),
            "resources": lambda value: _object(value, {"gpus": _patterns, "mig": _patterns}),
            "sharing": lambda value: _object(value, {"timeSlicing": _sharing, "mps": _optional_sharing}),
        },
    )


def _object(value: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """A Go struct: the known keys without regard to case, in sorted order; null leaves everything unset."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError(f"json: cannot unmarshal {_kind(value)} into Go value")
    by_fold = {name.lower(): name for name in readers}
    found: dict[str, Any] = {}
    for key, item in _sorted(value):
        name = key if key in readers else by_fold.get(key.lower())
        if name is not None:
            found[name] = readers[name](item)
    return found


def _sorted(value: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    return sorted(((_key(key), item) for key, item in value.items()), key=lambda pair: pair[0])


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return f"number {_number_text(value)}"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _number_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str | None:
    """A string field; the YAML decoder turns numbers and booleans into text where a string is wanted."""
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case int() | float():
            return _number_text(value)
    raise DecodeError(f"json: cannot unmarshal {_kind(value)} into Go struct field of type string")


def _boolean(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise DecodeError(f"json: cannot unmarshal {_kind(value)} into Go struct field of type bool")


def _integer(value: Any) -> int:
    match value:
        case None:
            return 0
        case bool():
            pass
        case int() if -_GO_INT <= value < _GO_INT:
            return value
        case float() if value.is_integer() and abs(value) < _GO_INT:
            return int(value)
    raise DecodeError(f"json: cannot unmarshal {_kind(value)} into Go struct field of type int")


def _integers(value: Any) -> list[int]:
    if value is not None and not isinstance(value, list):
        raise DecodeError(f"json: cannot unmarshal {_kind(value)} into Go struct field of type []int")
    return [_integer(item) for item in value or ()]


def _list_strategy(value: Any) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise DecodeError(f"invalid deviceListStrategy: {_raw(value)}")


def _raw(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


_SECONDS: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def _duration(value: Any) -> Any:
    match value:
        case bool() | list() | dict():
            raise DecodeError("invalid duration")
        case str() if value not in ("infinite", "0", "+0", "-0"):
            rest = value.lstrip("+-") if value[:1] in ("+", "-") else value
            while rest and (part := _SECONDS.match(rest)):
                rest = rest[part.end() :]
            if rest or not value:
                raise DecodeError(f'time: invalid duration "{value}"')
    return value


_PLUGIN: Final[dict[str, Reader]] = {
    "passDeviceSpecs": _boolean,
    "deviceListStrategy": _list_strategy,
    "deviceIDStrategy": _text,
    "cdiAnnotationPrefix": _text,
    "nvidiaCTKPath": _text,
    "containerDriverRoot": _text,
}
_GFD: Final[dict[str, Reader]] = {
    "oneshot": _boolean,
    "noTimestamp": _boolean,
    "sleepInterval": _duration,
    "outputFile": _text,
    "machineTypeFile": _text,
}
_FLAGS: Final[dict[str, Reader]] = {
    **dict.fromkeys(("migStrategy", "mpsRoot", "nvidiaDriverRoot", "nvidiaDevRoot", "deviceDiscoveryStrategy"), _text),
    **dict.fromkeys(("failOnInitError", "gdrcopyEnabled", "gdsEnabled", "mofedEnabled", "useNodeFeatureAPI"), _boolean),
    "plugin": lambda value: _object(value, _PLUGIN),
    "gfd": lambda value: _object(value, _GFD),
}


def _exact(value: Any) -> dict[str, Any]:
    """A section with a decoder of its own: a map whose keys match exactly."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError(f"json: cannot unmarshal {_kind(value)} into Go value of type map[string]json.RawMessage")
    return {_key(key): item for key, item in value.items()}


def _patterns(value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise DecodeError(f"json: cannot unmarshal {_kind(value)} into Go struct field of type []v1.Resource")
    for item in value or ():
        entry = _exact(item)
        for key in ("pattern", "name"):
            if key not in entry:
                raise DecodeError(f"resources must have a '{key}' field set")
        _raw_text(entry["pattern"])
        _resource_name(entry["name"])
    return list(value or ())


@dataclass(frozen=True, slots=True)
class _Section:
    sharing: Sharing
    ignored: tuple[str, ...]


def _optional_sharing(value: Any) -> _Section | None:
    return None if value is None else _sharing(value)


def _sharing(value: Any) -> _Section:
    entry = _exact(value)
    rename = bool(_boolean(entry.get("renameByDefault", False)))
    strict = bool(_boolean(entry.get("failRequestsGreaterThanOne", False)))
    if "resources" not in entry:
        raise DecodeError("no resources specified")
    listed = entry["resources"]
    if listed is not None and not isinstance(listed, list):
        raise DecodeError(
            f"json: cannot unmarshal {_kind(listed)} into Go struct field Sharing.sharing.timeSlicing of type"
            " []v1.ReplicatedResource"
        )
    resources = tuple(_shared_resource(item, rename=rename) for item in listed or ())
    if not resources:
        raise DecodeError("no resources specified")
    ignored = tuple(key for key in ("rename", "devices") if any(key in item for item in listed or ()))
    return _Section(Sharing(resources, rename, strict), ignored)


def _shared_resource(value: Any, *, rename: bool) -> SharedResource:
    entry = _exact(value)
    if "name" not in entry:
        raise DecodeError("no resource name specified")
    name = _resource_name(entry["name"])
    _devices(entry.get("devices", "all"))
    if "replicas" not in entry:
        raise DecodeError("no replicas specified")
    replicas = _integer(entry["replicas"])
    if replicas < 2:
        raise DecodeError("number of replicas must be >= 2")
    if "rename" in entry:
        _resource_name(entry["rename"])
    # A rename of one's own has no effect: without renameByDefault it is cleared, with it it becomes the default.
    return SharedResource(name, replicas, f"{name}.shared" if rename else "")


def _raw_text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DecodeError(f"json: cannot unmarshal {_kind(value)} into Go value of type string")
    return value


def _resource_name(value: Any) -> str:
    name = _raw_text(value)
    if not name.startswith(PREFIX):
        name = PREFIX + name
    if len(name.encode()) > MAX_NAME:
        raise DecodeError(f"fully-qualified resource name must be {MAX_NAME} characters or less: {name}")
    if complaints := is_dns1123_subdomain(name.removeprefix(PREFIX)):
        raise DecodeError(f"incorrect format for resource name '{name}': [{' '.join(complaints)}]")
    return name


def _devices(value: Any) -> None:
    match value:
        case None | str():
            if value != "all":
                raise DecodeError(f"devices set as '{value or ''}' but the only valid string input is 'all'")
        case bool():
            raise DecodeError(f"unrecognized type for devices spec: {_raw(value)}")
        case int() if -_GO_INT <= value < _GO_INT:
            if value <= 0:
                raise DecodeError(f"devices set as '{value}' but a count of devices must be > 0")
        case float() if value.is_integer():
            _devices(int(value))
        case list():
            for item in value:
                _device_reference(item)
        case _:
            raise DecodeError(f"unrecognized type for devices spec: {_raw(value)}")


def _device_reference(item: Any) -> None:
    if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 1 << 64:
        return
    text = item if isinstance(item, str) else ""
    if isinstance(item, str) and (_is_index(text) or _is_uuid(text)):
        return
    raise DecodeError(f"unsupported type for device in devices list: {text}, string")


def _is_index(text: str) -> bool:
    """A GPU index (`0`) or a MIG index (`0:1`)."""
    return re.fullmatch(r"[0-9]{1,19}(:[0-9]{1,19})?", text) is not None


def _is_uuid(text: str) -> bool:
    if text.startswith("GPU-"):
        return _UUID.fullmatch(text[4:]) is not None
    if not text.startswith("MIG-"):
        return False
    rest = text[4:]
    old = re.fullmatch(r"GPU-([^/]*)/[0-9]+/[0-9]+", rest)
    return _UUID.fullmatch(rest) is not None or (old is not None and _UUID.fullmatch(old[1]) is not None)
