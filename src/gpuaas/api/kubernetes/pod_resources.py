"""What a pod requests and is limited to in all: containers together, init containers one after the other, overhead.

Sidecars (init containers that restart always) run beside the containers, and beside every init container after them.
"""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.quantity import Quantity, parse_quantity

Amounts = dict[str, Quantity]


def pod_totals(pod: Mapping[str, Any], kind: str, *, overhead: bool = True) -> Amounts:
    """`kind` is `requests` or `limits`."""
    spec = pod.get("spec") or {}
    totals: Amounts = {}
    for container in spec.get("containers") or ():
        _add(totals, _named(container, kind))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _named(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(totals, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        _raise_to(peak, own)
    _raise_to(totals, peak)
    for name, amount in ((spec.get("resources") or {}).get(kind) or {}).items():
        if name in ("cpu", "memory"):
            totals[name] = parse_quantity(amount)
    if overhead:
        extra = {name: parse_quantity(amount) for name, amount in (spec.get("overhead") or {}).items()}
        _add(totals, extra if kind == "requests" else {name: extra[name] for name in extra if name in totals})
    return totals


def _named(container: Mapping[str, Any], kind: str) -> Amounts:
    amounts = (container.get("resources") or {}).get(kind) or {}
    return {name: parse_quantity(amount) for name, amount in amounts.items()}


def _add(totals: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        totals[name] = totals[name] + amount if name in totals else amount


def _raise_to(totals: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in totals or amount.nano > totals[name].nano:
            totals[name] = amount
