"""Pod templates as the engine sees them: what one pod takes of each resource, and where it may go.

Follows Kubernetes' rule for what a pod requests: containers together with restartable init containers, but at least
what any init container needs while those before it run, plus overhead; pod-level requests override. A limit without a
request is a request. What Kueue's configuration makes of requests is `resources`'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.quantity import ZERO, Quantity, parse_quantity
from gpuaas.engine.amounts import MAX_INT64
from gpuaas.engine.constraints import Requirement, Taint, Term, Toleration
from gpuaas.engine.topology_values import TopologyRequest
from gpuaas.engine.values import PodSet

Object = Mapping[str, Any]
Amounts = dict[str, Quantity]


def pod_set(spec: Object, taken: int = 0) -> PodSet:
    """A pod set of a workload; `taken` of its pods have finished and ask for nothing any more."""
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    count = spec.get("count", 1)
    requests = {name: max(0, units(name, amount)) for name, amount in pod_requests(pod).items()}
    return PodSet(
        name=spec.get("name", "main"),
        count=count - min(taken, count),
        requests=tuple(sorted(requests.items())),
        min_count=spec.get("minCount"),
        tolerations=tolerations(pod.get("tolerations")),
        node_selector=tuple(sorted((pod.get("nodeSelector") or {}).items())),
        affinity=required_affinity(pod),
        topology=topology_request(spec.get("topologyRequest")),
        problem=above_limits(pod),
    )


def units(resource: str, amount: Quantity) -> int:
    """Milli-units of cpu, whole units of everything else; rounded up, and at most what 64 bits hold."""
    value = amount.milli if resource == "cpu" else amount.value
    return max(-MAX_INT64 - 1, min(value, MAX_INT64))


def pod_requests(pod: Object) -> Amounts:
    total: Amounts = {}
    restartable: Amounts = {}
    peak: Amounts = {}
    for container in pod.get("containers") or ():
        _add(total, _requests(container))
    for container in pod.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(restartable, own)
            _raise(peak, restartable)
        else:
            during = dict(own)
            _add(during, restartable)
            _raise(peak, during)
    _raise(total, peak)
    total |= _requests(pod)
    _add(total, _amounts(pod.get("overhead")))
    return total


def above_limits(pod: Object) -> str:
    """Upstream's words for requests above their limits; empty if there are none."""
    for path, owner in _with_resources(pod):
        own = owner.get("resources") or {}
        requests, limits = _amounts(own.get("requests")), _amounts(own.get("limits"))
        over = sorted(name for name, amount in requests.items() if name in limits and amount.nano > limits[name].nano)
        if over:
            found = ", ".join(f'"{name}"' for name in over)
            return f"resources validation failed: {path}.requests: Invalid value: [{found}]: requests must not exceed its limits"
    return ""


def tolerations(found: Iterable[Object] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(t.get("key", ""), t.get("operator") or "Equal", t.get("value", ""), t.get("effect", ""))
        for t in found or ()
    )


def taints(found: Iterable[Object] | None) -> tuple[Taint, ...]:
    return tuple(Taint(t.get("key", ""), t.get("value", ""), t.get("effect", "")) for t in found or ())


def required_affinity(pod: Object) -> tuple[Term, ...] | None:
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return None
    return tuple(requirements(term.get("matchExpressions")) for term in required.get("nodeSelectorTerms") or ())


def requirements(expressions: Iterable[Object] | None) -> Term:
    return tuple(Requirement(e["key"], e["operator"], tuple(e.get("values") or ())) for e in expressions or ())


def topology_request(request: Object | None) -> TopologyRequest | None:
    if request is None:
        return None
    slices: tuple[tuple[str, int], ...] = tuple(
        (c["topology"], c["size"]) for c in request.get("podsetSliceRequiredTopologyConstraints") or ()
    )
    if not slices and request.get("podSetSliceRequiredTopology") is not None:
        slices = ((request["podSetSliceRequiredTopology"], request.get("podSetSliceSize") or 0),)
    return TopologyRequest(
        required=request.get("required"),
        preferred=request.get("preferred"),
        unconstrained=bool(request.get("unconstrained")),
        slices=slices,
        group=request.get("podSetGroupName"),
    )


def _with_resources(pod: Object) -> Iterable[tuple[str, Object]]:
    for index, container in enumerate(pod.get("initContainers") or ()):
        yield f"spec.initContainers[{index}].resources", container
    for index, container in enumerate(pod.get("containers") or ()):
        yield f"spec.containers[{index}].resources", container
    yield "spec.resources", pod


def _requests(owner: Object) -> Amounts:
    resources = owner.get("resources") or {}
    return _amounts(resources.get("limits")) | _amounts(resources.get("requests"))


def _amounts(found: Object | None) -> Amounts:
    return {name: parse_quantity(amount) for name, amount in (found or {}).items()}


def _add(to: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, ZERO) + amount


def _raise(to: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in to or to[name].nano < amount.nano:
            to[name] = amount
