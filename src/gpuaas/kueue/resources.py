"""What the configuration makes of requests before they count against quota: excluded, transformed, defaulted.

Rules are Kueue's `resources` configuration, LimitRanges and RuntimeClasses as values; they change what pods take of the
quota, never what they take of a node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from gpuaas.base.quantity import NANO, ZERO, Quantity, parse_quantity

Object = Mapping[str, Any]
Amounts = dict[str, Quantity]


@dataclass(frozen=True, slots=True)
class ReadRules:
    """What of a workload counts at all."""

    reclaims: bool = True
    """Pods that are done give back what they took."""
    boosts: bool = False
    """An annotation adds to its priority."""
    preferences: bool = False
    """The nodes its pods would rather be on come first."""
    reduces: bool = True
    """A workload that says so may be admitted with fewer pods."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """One input resource becomes others: each output is the input times its factor, times another resource if named."""

    input: str
    outputs: tuple[tuple[str, Quantity], ...]
    keeps_input: bool = True
    multiply_by: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceRules:
    exclude_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()

    def applied(self, requests: Amounts) -> Amounts:
        kept = {r: q for r, q in requests.items() if not any(r.startswith(p) for p in self.exclude_prefixes)}
        made: dict[str, Fraction] = {}
        rules = {t.input: t for t in self.transformations}
        left: Amounts = {}
        for resource, amount in kept.items():
            rule = rules.get(resource)
            if rule is None:
                left[resource] = amount
                continue
            times = Fraction(1) if rule.multiply_by is None else _units(kept.get(rule.multiply_by))
            for name, factor in rule.outputs:
                made[name] = made.get(name, Fraction(0)) + _units(amount) * times * _units(factor)
            if rule.keeps_input:
                left[resource] = amount
        for name, value in made.items():
            nano = max(0, -((-value * NANO).__floor__()))
            left[name] = left.get(name, ZERO) + Quantity(nano)
        return left


def resource_rules(config: Object) -> ResourceRules:
    """From a Configuration's `resources` section."""
    return ResourceRules(
        tuple(config.get("excludeResourcePrefixes") or ()),
        tuple(
            Transformation(
                t["input"],
                tuple((name, parse_quantity(q)) for name, q in (t.get("outputs") or {}).items()),
                t.get("strategy", "Retain") == "Retain",
                t.get("multiplyBy") or None,
            )
            for t in config.get("transformations") or ()
        ),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """The LimitRanges of a namespace taken together: the lowest maximum and the highest minimum of each resource."""

    defaults: Mapping[str, Quantity] = field(default_factory=dict)
    default_requests: Mapping[str, Quantity] = field(default_factory=dict)
    container_max: Mapping[str, Quantity] = field(default_factory=dict)
    container_min: Mapping[str, Quantity] = field(default_factory=dict)
    pod_max: Mapping[str, Quantity] = field(default_factory=dict)
    pod_min: Mapping[str, Quantity] = field(default_factory=dict)


def limits_of(ranges: Iterable[Object]) -> Limits:
    found: dict[str, Amounts] = {name: {} for name in Limits.__slots__}
    for obj in ranges:
        for item in (obj.get("spec") or {}).get("limits") or ():
            if item.get("type") == "Container":
                _first(found["defaults"], item.get("default"))
                _first(found["default_requests"], item.get("defaultRequest"))
            kind = {"Container": "container", "Pod": "pod"}.get(item.get("type", ""))
            if kind is not None:
                _lowest(found[f"{kind}_max"], item.get("max"))
                _highest(found[f"{kind}_min"], item.get("min"))
    return Limits(**found)


def with_defaults(pod: Object, limits: Limits | None, overhead: Object | None = None) -> Object:
    """The pod spec as upstream counts it: a runtime class's overhead, then LimitRange defaults for each container."""
    changed: dict[str, Any] = dict(pod)
    if overhead and not pod.get("overhead"):
        changed["overhead"] = dict(overhead)
    if limits is not None and (limits.defaults or limits.default_requests):
        for key in ("containers", "initContainers"):
            if pod.get(key):
                changed[key] = [_defaulted(container, limits) for container in pod[key]]
    return changed


def outside_limits(pod: Object, totals: Mapping[str, Quantity], limits: Limits, path: str) -> Iterator[str]:
    """Upstream's words for each container, and for the pod, that asks for more or less than the namespace allows."""
    for key in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(key) or ()):
            own = container.get("resources") or {}
            low, high = amounts(own.get("requests")), amounts(own.get("limits"))
            most = {r: max(low.get(r, q), high.get(r, q), key=lambda x: x.nano) for r, q in (low | high).items()}
            least = {r: min(low.get(r, q), high.get(r, q), key=lambda x: x.nano) for r, q in (low | high).items()}
            yield from _outside(f"{path}.{key}[{index}]", most, least, limits.container_max, limits.container_min)
    yield from _outside(path, totals, totals, limits.pod_max, limits.pod_min)


def invalid(path: str, names: list[str], words: str) -> str:
    return f"{path}: Invalid value: {json.dumps(names, separators=(',', ':'))}: {words}"


def amounts(found: Object | None) -> Amounts:
    return {name: parse_quantity(amount) for name, amount in (found or {}).items()}


def _outside(
    path: str,
    most: Mapping[str, Quantity],
    least: Mapping[str, Quantity],
    upper: Mapping[str, Quantity],
    lower: Mapping[str, Quantity],
) -> Iterator[str]:
    above = sorted(r for r, q in most.items() if r in upper and q.nano > upper[r].nano)
    if above:
        yield invalid(path, above, "requests must not be above the limitRange max")
    below = sorted(r for r, q in least.items() if r in lower and q.nano < lower[r].nano)
    if below:
        yield invalid(path, below, "requests must not be below the limitRange min")


def _defaulted(container: Object, limits: Limits) -> dict[str, Any]:
    resources = dict(container.get("resources") or {})
    bounds = {**{r: str(q) for r, q in limits.defaults.items()}, **(resources.get("limits") or {})}
    requests = {**{r: str(q) for r, q in limits.default_requests.items()}, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "limits": bounds, "requests": requests}}


def _units(amount: Quantity | None) -> Fraction:
    """The amount as an exact number; a resource that is not requested counts as one."""
    return Fraction(1) if amount is None else Fraction(amount.nano, NANO)


def _first(into: Amounts, found: Object | None) -> None:
    for resource, quantity in (found or {}).items():
        into.setdefault(resource, parse_quantity(quantity))


def _lowest(into: Amounts, found: Object | None) -> None:
    for resource, quantity in (found or {}).items():
        amount = parse_quantity(quantity)
        if resource not in into or amount.nano < into[resource].nano:
            into[resource] = amount


def _highest(into: Amounts, found: Object | None) -> None:
    for resource, quantity in (found or {}).items():
        amount = parse_quantity(quantity)
        if resource not in into or amount.nano > into[resource].nano:
            into[resource] = amount
