"""NVIDIA's configuration surface, read: which ClusterPolicy counts, and what its ConfigMaps say. Pure.

Every key of the ConfigMap is read, and each on its own: a mistake in one names the key and the field and leaves nodes
that use another as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.base.numbers import natural
from gpuaas.devices import mig_config
from gpuaas.devices.advertise import check_size
from gpuaas.devices.mig_config import Configs, MigConfigError
from gpuaas.devices.plugin_config import ConfigError, PluginConfig, check_flags, load
from gpuaas.machinery.yamltext import YamlError, load_yaml_documents

View = Mapping[str, Any]
NAMESPACES: Final = ("nvidia-gpu-operator", "gpu-operator")
_MPS_ROOT: Final = "/run/nvidia/mps"  # what the operator gives the plugin
_LONGEST: Final = 1 << 14  # characters of a key: reading more would hold the event loop
_LONGEST_MIG: Final = 1 << 15  # NVIDIA's own file has 12,000
_MOST_KEYS: Final = 64


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    config: str = ""  # name of the device plugin's ConfigMap
    default: str = ""  # its key for nodes without a label
    mig_strategy: str = ""
    mig_config: str = ""  # name of mig-manager's ConfigMap
    mps_root: str = _MPS_ROOT
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Parsed:
    """One key of the ConfigMap: a configuration, or what is wrong with it."""

    config: PluginConfig | None = None
    problem: str = ""
    says_strategy: bool = True  # whether the MIG strategy is said at all


@dataclass(frozen=True, slots=True)
class Surface:
    policy: Policy | None = None
    overruled: str = ""  # another policy that names a configuration as well
    keys: Mapping[str, Parsed] = field(default_factory=dict)
    missing: str = ""  # why there are no keys although a ConfigMap is named
    mig: Configs | None = None  # of the custom ConfigMap
    mig_problem: str = ""

    @property
    def source(self) -> str:
        return self.policy.config if self.policy is not None else ""


def read_policy(obj: View) -> Policy:
    spec = obj.get("spec") or {}
    plugin, mig = _part(spec, "devicePlugin"), _part(spec, "mig")
    config, manager = _part(plugin, "config"), _part(_part(spec, "migManager"), "config")
    version = str(obj["metadata"].get("resourceVersion") or "0")
    return Policy(
        obj["metadata"]["name"],
        str(config.get("name") or ""),
        str(config.get("default") or ""),
        str(mig.get("strategy") or ""),
        str(manager.get("name") or ""),
        str(_part(plugin, "mps").get("root") or _MPS_ROOT),
        natural(version) or 0,
    )


def _part(view: View, key: str) -> View:
    found = view.get(key)
    return found if isinstance(found, Mapping) else {}


def governing(policies: Iterable[Policy]) -> tuple[Policy | None, str]:
    """The policy that counts: of those that name a configuration the one edited last; and one that it overrules."""
    ordered = sorted(policies, key=lambda policy: (bool(policy.config), policy.revision))
    if not ordered:
        return None, ""
    rival = ordered[-2] if len(ordered) > 1 and ordered[-2].config else None
    return ordered[-1], rival.name if rival is not None and rival.config != ordered[-1].config else ""


def read_keys(data: Mapping[str, Any], policy: Policy) -> Iterator[tuple[str, Parsed]]:
    """One key after the other, so that a large ConfigMap can be read in slices."""
    if len(data) > _MOST_KEYS:
        problem = f"the ConfigMap has {len(data)} keys, at most {_MOST_KEYS} are read"
        yield from ((key, Parsed(problem=problem)) for key in sorted(data)[:_MOST_KEYS])
        return
    for key, text in data.items():
        yield key, _read_key(str(text), policy)


def _read_key(text: str, policy: Policy) -> Parsed:
    try:
        document = _document(text)
    except ValueError as error:
        return Parsed(problem=str(error))
    env = {"MPS_ROOT": policy.mps_root} | ({"MIG_STRATEGY": policy.mig_strategy} if policy.mig_strategy else {})
    try:
        config = load(document, env)
        check_flags(config)
        check_size(config)
    except ConfigError as error:
        return Parsed(problem=f"{_field_of(document, env)}{error}")
    flags = document.get("flags") if isinstance(document, dict) else None
    said = bool(policy.mig_strategy) or (isinstance(flags, dict) and "migStrategy" in flags)
    return Parsed(config, says_strategy=said)


def _document(text: str, longest: int = _LONGEST) -> Any:
    if len(text) > longest:
        raise ValueError(f"it has {len(text)} characters, at most {longest} are read")
    try:
        return next(iter(load_yaml_documents(text)), None)
    except YamlError as error:
        raise ValueError(str(error)) from None


def _field_of(document: Any, env: Mapping[str, str]) -> str:
    """Where the mistake is, where NVIDIA's message does not say: the first shared resource that is wrong by itself."""
    sharing = document.get("sharing") if isinstance(document, dict) else None
    for section in ("mps", "timeSlicing"):
        part = sharing.get(section) if isinstance(sharing, dict) else None
        listed = part.get("resources") if isinstance(part, dict) else None
        for number, entry in enumerate(listed[:32] if isinstance(listed, list) else ()):
            try:
                load({"version": "v1", "sharing": {section: {"resources": [entry]}}}, env)
            except ConfigError:
                return f"sharing.{section}.resources[{number}]: "
    return ""


def read_mig(data: Mapping[str, Any]) -> Configs:
    """mig-manager's ConfigMap: its key config.yaml, or the only one. Raises MigConfigError, naming the key."""
    key = "config.yaml" if "config.yaml" in data or len(data) != 1 else next(iter(data))
    if key not in data:
        raise MigConfigError("the ConfigMap has no key config.yaml")
    try:
        return mig_config.parse(_document(str(data[key]), _LONGEST_MIG))
    except ValueError as error:
        raise MigConfigError(f"{key}: {error}") from None
