"""Fleet files: which clusters there are, and which simulated nodes they have.

The first document of the file is the fleet (docs/guides/fleet.md names every key); further documents are Kubernetes
objects that each cluster begins with. Everything that is wrong is reported at once, with the field, what was found and
what would be right; a fleet that has been read is right.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from gpuaas.assembly.platform import check_platform
from gpuaas.base.fielderrors import FieldError, duplicate, invalid, not_supported, required
from gpuaas.base.names import is_dns1123_label, is_dns1123_subdomain, is_label_value, is_qualified_name
from gpuaas.base.quantity import parse_quantity
from gpuaas.devices.inventory import WIRINGS
from gpuaas.executors.nodes import NodeSpec

KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("clusters", "speed", "platform"),
    "clusters[]": ("name", "nodes"),
    "clusters[].nodes[]": ("name", "count", "instanceType", "gpu", "cpu", "memory", "pods", "labels", "taints"),
    "clusters[].nodes[].gpu": ("product", "count", "memory", "nvlink", "numa"),
    "clusters[].nodes[].taints[]": ("key", "value", "effect"),
}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MOST_NODES = 10_000
_MEBI = 1 << 20


class FleetError(Exception):
    """The file cannot be a fleet; the text says why, one line for each mistake."""


@dataclass(frozen=True, slots=True)
class FleetCluster:
    name: str
    nodes: tuple[NodeSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Fleet:
    clusters: tuple[FleetCluster, ...]
    speed: float = 1.0
    objects: tuple[Mapping[str, Any], ...] = field(default=())
    platform: str = ""  # module platform

    def cluster(self, name: str) -> FleetCluster:
        return next((one for one in self.clusters if one.name == name), FleetCluster(name))


def builtin_fleets() -> list[str]:
    folder = resources.files("gpuaas.assembly") / "fleets"
    return sorted(one.name.removesuffix(".yaml") for one in folder.iterdir() if one.name.endswith(".yaml"))


def fleet_text(name_or_file: str) -> str:
    """The text of a built-in fleet, or of a file."""
    if name_or_file in builtin_fleets():
        return (resources.files("gpuaas.assembly") / "fleets" / f"{name_or_file}.yaml").read_text()
    try:
        return Path(name_or_file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(builtin_fleets())
        raise FleetError(
            f'"{name_or_file}" is neither a built-in fleet ({known}) nor a file that can be read: {error}'
        ) from None


def read_fleet(text: str) -> Fleet:
    from gpuaas.machinery.yamltext import YamlError, load_yaml_documents

    try:
        documents = [one for one in load_yaml_documents(text) if one is not None]
    except YamlError as error:
        raise FleetError(str(error)) from None
    if not documents or not isinstance(documents[0], dict):
        raise FleetError("clusters: Required value: a fleet begins with `clusters:`, a list of {name, nodes}")
    reader = _Reader()
    fleet = reader.fleet(documents[0])
    for index, obj in enumerate(documents[1:], 1):
        if not isinstance(obj, dict) or not obj.get("kind") or not (obj.get("metadata") or {}).get("name"):
            where = f"document {index + 1}"
            reader.problems.append(invalid(where, obj, "must be a Kubernetes object with kind and metadata.name"))
    if reader.problems:
        raise FleetError("\n".join(map(str, reader.problems)))
    return Fleet(fleet.clusters, fleet.speed, tuple(documents[1:]), fleet.platform)


class _Reader:
    """Reads on after a mistake, so that all are found."""

    def __init__(self) -> None:
        self.problems: list[FieldError] = []
        self._address = 0

    def fleet(self, found: Mapping[str, Any]) -> Fleet:
        self._known(found, "", "")
        speed = found.get("speed", 1)
        if not isinstance(speed, int | float) or isinstance(speed, bool) or not 0 < speed <= 1_000_000:
            self.problems.append(invalid("speed", speed, "must be a number above 0, such as 10 for ten times as fast"))
            speed = 1
        clusters = [self._cluster(one, f"clusters[{at}]") for at, one in self._list(found, "", "clusters", needed=True)]
        self._unique([one.name for one in clusters], "clusters[{}].name")
        return Fleet(tuple(clusters), float(speed), platform=self._platform(found))

    def _platform(self, found: Mapping[str, Any]) -> str:
        if "platform" not in found:
            return ""
        try:
            check_platform(str(found["platform"]))
        except ValueError as error:
            self.problems.append(invalid("platform", found["platform"], str(error).partition(" is ")[2]))
            return ""
        return str(found["platform"])

    def _cluster(self, found: Any, path: str) -> FleetCluster:
        if not self._mapping(found, path, "{name: local, nodes: […]}"):
            return FleetCluster("")
        self._known(found, path, "clusters[]")
        name = self._name(found, path, is_dns1123_label, "the name of the cluster, such as local")
        nodes = [
            node for at, one in self._list(found, path, "nodes") for node in self._nodes(one, f"{path}.nodes[{at}]")
        ]
        self._unique([node.name for node in nodes], f"{path}.nodes")
        return FleetCluster(name, tuple(nodes))

    def _nodes(self, found: Any, path: str) -> list[NodeSpec]:
        if not self._mapping(found, path, "{name: h200, count: 2, gpu: {product: NVIDIA-H200, count: 8}}"):
            return []
        self._known(found, path, "clusters[].nodes[]")
        name = self._name(found, path, is_dns1123_subdomain, "the name of the node, or what their names begin with")
        count = self._whole(found, path, "count", 1, least=1, most=_MOST_NODES)
        gpu = found.get("gpu", {})
        if not self._mapping(gpu, f"{path}.gpu", "{product: NVIDIA-H200, count: 8}"):
            gpu = {}
        self._known(gpu, f"{path}.gpu", "clusters[].nodes[].gpu")
        facts: dict[str, Any] = {
            "cpu": self._amount(found, path, "cpu", "8"),
            "memory": self._amount(found, path, "memory", "32Gi"),
            "pods": self._whole(found, path, "pods", 110, least=1, most=10_000),
            "instance_type": self._label_value(found, path, "instanceType"),
            "gpu_product": self._label_value(gpu, f"{path}.gpu", "product"),
            "gpu_count": self._whole(gpu, f"{path}.gpu", "count", 1 if gpu else 0, least=0, most=1024),
            "gpu_memory": parse_quantity(self._amount(gpu, f"{path}.gpu", "memory", "0")).value // _MEBI,
            "gpu_nvlink": self._choice(gpu, f"{path}.gpu", "nvlink", WIRINGS),
            "gpu_numa": self._whole(gpu, f"{path}.gpu", "numa", 1, least=1, most=64),
            "labels": self._labels(found, path),
            "taints": [
                taint
                for at, one in self._list(found, path, "taints")
                if (taint := self._taint(one, f"{path}.taints[{at}]"))
            ],
        }
        names = [name] if count == 1 else [f"{name}-{number}" for number in range(count)]
        return [NodeSpec(name=one, address=self._next_address(), **facts) for one in names]

    def _taint(self, found: Any, path: str) -> dict[str, str] | None:
        if not self._mapping(found, path, "{key: nvidia.com/gpu, effect: NoSchedule}"):
            return None
        self._known(found, path, "clusters[].nodes[].taints[]")
        key = found.get("key")
        if not isinstance(key, str) or is_qualified_name(key):
            self.problems.append(invalid(f"{path}.key", key, "must be a label's key, such as nvidia.com/gpu"))
        if found.get("effect") not in _EFFECTS:
            self.problems.append(not_supported(f"{path}.effect", found.get("effect"), _EFFECTS))
        taint = {"key": str(key), "effect": str(found.get("effect"))}
        value = self._label_value(found, path, "value")
        return {**taint, "value": value} if value else taint

    def _labels(self, found: Mapping[str, Any], path: str) -> dict[str, str]:
        labels = found.get("labels") or {}
        if not self._mapping(labels, f"{path}.labels", "{topology.kubernetes.io/zone: a}"):
            return {}
        for key, value in labels.items():
            complaints = is_qualified_name(key)
            if complaints:
                self.problems.append(invalid(f"{path}.labels", key, "; ".join(complaints)))
            if not isinstance(value, str):
                self.problems.append(invalid(f"{path}.labels[{key}]", value, 'must be text: write it in quotes, "…"'))
            elif is_label_value(value):
                self.problems.append(invalid(f"{path}.labels[{key}]", value, "; ".join(is_label_value(value))))
        return {str(key): str(value) for key, value in labels.items()}

    # Values

    def _known(self, found: Mapping[str, Any], path: str, where: str) -> None:
        for key in found:
            if key not in KEYS[where]:
                at = f"{path}.{key}" if path else str(key)
                known = ", ".join(KEYS[where])
                self.problems.append(invalid(at, key, f"there is no such key here; known are: {known}"))

    def _mapping(self, found: Any, path: str, example: str) -> bool:
        if isinstance(found, dict):
            return True
        self.problems.append(invalid(path, found, f"must be a mapping, such as {example}"))
        return False

    def _list(
        self, found: Mapping[str, Any], path: str, key: str, *, needed: bool = False
    ) -> Sequence[tuple[int, Any]]:
        at = f"{path}.{key}" if path else key
        value = found.get(key)
        if value is None and not needed:
            return ()
        if not isinstance(value, list):
            self.problems.append(invalid(at, value, "must be a list") if value is not None else required(at, "a list"))
            return ()
        if needed and not value:
            self.problems.append(required(at, "at least one"))
        return list(enumerate(value))

    def _name(self, found: Mapping[str, Any], path: str, check: Any, meaning: str) -> str:
        name = found.get("name")
        if name is None:
            self.problems.append(required(f"{path}.name", meaning))
            return ""
        complaints = check(name) if isinstance(name, str) else ['must be text: write it in quotes, "…"']
        if complaints:
            self.problems.append(invalid(f"{path}.name", name, "; ".join(complaints)))
        return str(name)

    def _whole(self, found: Mapping[str, Any], path: str, key: str, otherwise: int, *, least: int, most: int) -> int:
        value = found.get(key, otherwise)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.problems.append(invalid(f"{path}.{key}", value, f"must be a whole number from {least} to {most}"))
        return otherwise

    def _amount(self, found: Mapping[str, Any], path: str, key: str, otherwise: str) -> str:
        value = found.get(key, otherwise)
        try:
            if parse_quantity(value).nano >= 0:
                return str(parse_quantity(value))
        except ValueError:
            pass
        self.problems.append(invalid(f"{path}.{key}", value, "must be an amount such as 16, 500m or 64Gi"))
        return otherwise

    def _label_value(self, found: Mapping[str, Any], path: str, key: str) -> str:
        value = found.get(key, "")
        complaints = is_label_value(value) if isinstance(value, str) else ['must be text: write it in quotes, "…"']
        if complaints:
            self.problems.append(invalid(f"{path}.{key}", value, "; ".join(complaints)))
            return ""
        return str(value)

    def _choice(self, found: Mapping[str, Any], path: str, key: str, known: Sequence[str]) -> str:
        value = found.get(key, "")
        if value == "" or (isinstance(value, str) and value in known):
            return str(value)
        self.problems.append(not_supported(f"{path}.{key}", value, known))
        return ""

    def _unique(self, names: Sequence[str], path: str) -> None:
        seen: set[str] = set()
        for index, name in enumerate(names):
            if name in seen:
                self.problems.append(duplicate(re.sub(r"\{\}", str(index), path), name))
            seen.add(name)

    def _next_address(self) -> str:
        self._address += 1
        return f"10.0.{self._address >> 8 & 255}.{self._address & 255}"
