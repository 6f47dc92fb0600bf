"""Pod templates as the engine sees them: what one pod takes of each resource, and where it may go.

Follows Kubernetes' rule for what a pod requests: containers together with restartable init containers, but at least
what any init container needs while those before it run, plus overhead; pod-level requests override. A limit without a
request is a request. What Kueue's configuration makes of requests is `resources`'.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from gpuaas.base.quantity import ZERO, Quantity
from gpuaas.engine.amounts import MAX_INT64
from gpuaas.engine.constraints import Requirement, Taint, Term, Toleration
from gpuaas.engine.topology_values import TopologyRequest
from gpuaas.engine.values import PodSet
from gpuaas.kueue.dra.claims import Charge
from gpuaas.kueue.resources import Amounts, Object, ReadRules, ResourceRules, amounts, invalid

_ALL = ReadRules()
_APART = (
    "initContainers",
    "affinity",
    "overhead",
    "priority",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "topologySpreadConstraints",
)


def pod_set(
    spec: Object,
    pod: Object,
    taken: int = 0,
    rules: ResourceRules | None = None,
    counts: ReadRules = _ALL,
    charge: Charge | None = None,
) -> PodSet:
    """A pod set of a workload, given its pod spec; `taken` of its pods have finished and ask for nothing any more."""
    count = spec.get("count", 1)
    raw = pod_requests(pod)
    counted = raw if rules is None else rules.applied(raw)
    if charge is not None:
        counted = charge.applied(counted)
    return PodSet(
        name=spec.get("name", "main"),
        count=count - min(taken, count),
        requests=_amounts_of(counted),
        min_count=spec.get("minCount") if counts.reduces else None,
        tolerations=tolerations(pod.get("tolerations")),
        node_selector=tuple(sorted((pod.get("nodeSelector") or {}).items())),
        affinity=required_affinity(pod),
        topology=topology_request(spec.get("topologyRequest")),
        placement=_amounts_of(raw) if counted is not raw else None,
        preferred=preferred_affinity(pod) if counts.preferences else (),
        apart=apart(pod),
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
    _add(total, amounts(pod.get("overhead")))
    return total


def apart(pod: Object) -> str:
    """What upstream tells pods apart by although they may ask for the same; empty for most of them."""
    containers: Sequence[Object] = pod.get("containers") or ()
    if len(containers) == 1 and not containers[0].get("ports") and not any(pod.get(key) for key in _APART):
        return ""
    found = {kind: [_shape(each) for each in pod.get(kind) or ()] for kind in ("initContainers", "containers")}
    return json.dumps([found, {key: pod[key] for key in _APART[1:] if pod.get(key)}], sort_keys=True)


def above_limits(pod: Object, path: str) -> Iterator[str]:
    """Upstream's words for each container that requests more than its limits."""
    for where, owner in _with_resources(pod):
        own = owner.get("resources") or {}
        requests, limits = amounts(own.get("requests")), amounts(own.get("limits"))
        over = sorted(name for name, amount in requests.items() if name in limits and amount.nano > limits[name].nano)
        if over:
            yield invalid(f"{path}.{where}", over, "requests must not exceed its limits")


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


def preferred_affinity(pod: Object) -> tuple[tuple[int, Term], ...]:
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    found = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    terms = ((each.get("weight", 0), (each.get("preference") or {}).get("matchExpressions")) for each in found)
    return tuple((weight, requirements(term)) for weight, term in terms if term)


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
        yield f"initContainers[{index}]", container
    for index, container in enumerate(pod.get("containers") or ()):
        yield f"containers[{index}]", container
    yield "resources", pod


def _shape(container: Object) -> list[object]:
    return [{name: str(amount) for name, amount in _requests(container).items()}, container.get("ports")]


def _requests(owner: Object) -> Amounts:
    resources = owner.get("resources") or {}
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def _amounts_of(requests: Amounts) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, max(0, units(name, amount))) for name, amount in requests.items()))


def _add(to: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, ZERO) + amount


def _raise(to: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in to or to[name].nano < amount.nano:
            to[name] = amount
