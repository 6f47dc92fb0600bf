"""Whether the kubelet of a node takes a pod that was bound to it, and if not, why, in kubelets' words.

A pod that the scheduler placed fits; one that bypassed it may not. The questions are asked in a kubelet's order,
and the first that says no speaks: devices, amounts, node affinity, ports, taints under which nothing runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuaas.base.quantity import parse_quantity
from gpuaas.nodefit.amounts import CPU, MEMORY, PODS, is_extended
from gpuaas.nodefit.book import Ask, Place
from gpuaas.nodefit.constraints import untolerated
from gpuaas.nodefit.fit import NO_PORTS, NOT_SELECTED, ports_clash

View = Mapping[str, Any]

_NOT_TOLERATED = "node(s) had taints that the pod didn't tolerate"
_FIRST = (CPU, MEMORY, "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Rejection:
    reason: str
    message: str


def rejection(ask: Ask, place: Place, devices: Iterable[str] = ()) -> Rejection | None:
    """`place` has the pods that were taken before; `devices` are the resources that a plugin gives out one by one."""
    for name in devices:
        short = _short_of(name, ask.spec, place.free(name))
        if short is not None:
            needed, free = short
            words = f"requested number of devices unavailable for {name}. Requested: {needed}, Available: {free}"
            return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {words}, which is unexpected")
    return _lack(ask, place) or _predicate(ask, place)


def _short_of(name: str, spec: View, free: int) -> tuple[int, int] | None:
    """How many devices a container needs that are not there. What init containers had, later ones have again."""
    reusable = 0
    inits = [(one, one.get("restartPolicy") == "Always") for one in spec.get("initContainers") or ()]
    for container, keeps in [*inits, *((one, True) for one in spec.get("containers") or ())]:
        asked = ((container.get("resources") or {}).get("limits") or {}).get(name)
        required = 0 if asked is None else parse_quantity(asked).value
        reused = min(required, reusable)
        needed = required - reused
        if needed > free:
            return needed, free
        free -= needed
        reusable += -reused if keeps else needed
    return None


def _lack(ask: Ask, place: Place) -> Rejection | None:
    if len(place.pods) + 1 > place.most_pods:
        return _out_of(PODS, 1, len(place.pods), place.most_pods)
    for name in sorted(ask.requests, key=lambda each: (each not in _FIRST, each)):
        if is_extended(name) and name not in place.allocatable:
            continue  # it might be a matter of the cluster, not of its nodes: kubelets let it pass
        if ask.requests[name] > place.free(name):
            return _out_of(name, ask.requests[name], place.used.get(name, 0), place.allocatable.get(name, 0))
    return None


def _out_of(name: str, requested: int, used: int, capacity: int) -> Rejection:
    words = f"{name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {words}")


def _predicate(ask: Ask, place: Place) -> Rejection | None:
    if not ask.affinity.selects(place.labels, place.name):
        return _failed("NodeAffinity", NOT_SELECTED)
    if ask.ports and ports_clash(ask.ports, [port for other in place.pods.values() for port in other.ports]):
        return _failed("NodePorts", NO_PORTS)
    if untolerated(place.taints, ask.tolerations, ("NoExecute",)) is not None:
        return _failed("TaintToleration", _NOT_TOLERATED)
    return None


def _failed(name: str, why: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {why}")
