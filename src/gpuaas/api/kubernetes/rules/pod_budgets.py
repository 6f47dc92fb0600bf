"""How many entries the lists of a pod's spec may have: Kubernetes bounds only the object's size, and each entry costs.

Every toleration is held against every taint of every node, every affinity term against every pod, whenever a pod is
placed; so their number is bounded when they are written, far above what any honest manifest has. The specs of
pods are found wherever a kind keeps its templates: they are the mappings that have containers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, too_many

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_DEEPEST: Final = 12  # where templates are looked for
_VALUES: Final = 8192  # of one expression: the names of all nodes, say
_EXPRESSIONS: Final = 128  # of one term or selector

OF_SPEC: Final[Mapping[str, int]] = {
    "tolerations": 256,
    "topologySpreadConstraints": 32,
    "nodeSelector": 256,
    "containers": 256,
    "initContainers": 256,
    "ephemeralContainers": 256,
    "volumes": 1024,
    "imagePullSecrets": 256,
    "hostAliases": 1024,
    "schedulingGates": 256,
    "readinessGates": 256,
    "resourceClaims": 256,
}
OF_CONTAINER: Final[Mapping[str, int]] = {
    "env": 4096,
    "envFrom": 256,
    "ports": 4096,
    "volumeMounts": 1024,
    "volumeDevices": 256,
}
OF_AFFINITY: Final[Mapping[str, int]] = {"nodeAffinity": 128, "podAffinity": 64, "podAntiAffinity": 64}
_RESOURCES: Final = 128


def budget_errors(obj: View, old: View | None) -> list[FieldError]:
    """What of the object's pod specs is too long. What was too long before may stay, so that it can be changed at all."""
    found = [each for spec, path in _specs(obj, "", 0) for each in _excess(spec, path)]
    if not found:
        return []
    before = {path: count for spec, at in _specs(old or {}, "", 0) for path, count, _ in _excess(spec, at)}
    return [too_many(path, count, limit) for path, count, limit in found if count > before.get(path, 0)]


def _specs(value: Any, path: str, depth: int) -> Iterator[tuple[View, str]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            yield value, path
            return
        for name, part in value.items():
            if isinstance(part, dict | list) and name not in ("metadata", "status"):
                yield from _specs(part, child(path, name) if path else name, depth + 1)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            if isinstance(part, dict | list):
                yield from _specs(part, child(path, index), depth + 1)


_Excess = Iterator[tuple[str, int, int]]  # path, count, limit


def _excess(spec: View, path: str) -> _Excess:
    yield from _long(spec, path, OF_SPEC)
    for kind in _CONTAINERS:
        for index, container in _some(spec.get(kind)):
            at = child(path, kind, index)
            yield from _long(container, at, OF_CONTAINER)
            amounts = container.get("resources")
            if isinstance(amounts, Mapping):
                yield from _long(amounts, child(at, "resources"), {"requests": _RESOURCES, "limits": _RESOURCES})
    affinity = spec.get("affinity")
    if isinstance(affinity, Mapping):
        yield from _in_affinity(affinity, child(path, "affinity"))
    for index, constraint in _some(spec.get("topologySpreadConstraints")):
        at = child(path, "topologySpreadConstraints", index, "labelSelector")
        yield from _in_selector(constraint.get("labelSelector"), at)


def _in_affinity(affinity: View, path: str) -> _Excess:
    for kind, limit in OF_AFFINITY.items():
        terms, at = affinity.get(kind), child(path, kind)
        if not isinstance(terms, Mapping):
            continue
        required, preferred = terms.get(_REQUIRED), terms.get(_PREFERRED)
        lists = {child(at, _REQUIRED): required, child(at, _PREFERRED): preferred}
        if isinstance(required, Mapping):  # that of nodes
            lists[child(at, _REQUIRED, "nodeSelectorTerms")] = required.get("nodeSelectorTerms")
        for where, items in lists.items():
            if isinstance(items, list) and len(items) > limit:
                yield where, len(items), limit
            for index, term in _some(items):
                yield from _in_term(term, child(where, index))


def _in_term(term: View, path: str) -> _Excess:
    for name in ("preference", "podAffinityTerm"):
        if isinstance(term.get(name), Mapping):
            term, path = term[name], child(path, name)
    yield from _in_selector(term, path)
    for name in ("labelSelector", "namespaceSelector"):
        yield from _in_selector(term.get(name), child(path, name))
    yield from _long(term, path, {"namespaces": _EXPRESSIONS, "matchLabelKeys": 64, "mismatchLabelKeys": 64})


def _in_selector(selector: Any, path: str) -> _Excess:
    if not isinstance(selector, Mapping):
        return
    limits = {"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS, "matchLabels": _EXPRESSIONS}
    yield from _long(selector, path, limits)
    for name in ("matchExpressions", "matchFields"):
        for index, requirement in _some(selector.get(name)):
            yield from _long(requirement, child(path, name, index), {"values": _VALUES})


def _long(holder: View, path: str, limits: Mapping[str, int]) -> _Excess:
    for name, limit in limits.items():
        part = holder.get(name)
        if isinstance(part, Sequence | Mapping) and len(part) > limit:
            yield child(path, name), len(part), limit


def _some(items: Any) -> Iterator[tuple[int, View]]:
    """As many as are looked into: of a list that is too long itself the rest does not matter."""
    if isinstance(items, list):
        for index, each in enumerate(items[: 2 * _EXPRESSIONS]):
            if isinstance(each, Mapping):
                yield index, each
