"""What objects cost of a namespace's resource quotas, and whether a quota still has it.

`charge_quotas` books one write; `quota_usage` counts everything again, for the controller that corrects a quota's status when
objects go away. Amounts only ever grow here: a write that asks for less is booked when usage is counted again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuaas.api.kubernetes.pod_resources import pod_totals
from gpuaas.api.kubernetes.rules.pods import qos_class
from gpuaas.api.kubernetes.rules.resources import is_extended, is_huge_pages
from gpuaas.base.errors import Forbidden, qualified
from gpuaas.base.quantity import Quantity, from_int, parse_quantity

View = Mapping[str, Any]
Amounts = dict[str, Quantity]

_ONE: Final = from_int(1)
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_PLAIN_COUNTS: Final = ("configmaps", "secrets", "replicationcontrollers", "resourcequotas")
_CONSTRAINED: Final = frozenset({"cpu", "memory", *(f"{k}.{n}" for k in ("requests", "limits") for n in _COMPUTE[:2])})
_CLASS: Final = "storageclass.storage.k8s.io"
_PODS: Final = ("", "pods")
_CLAIMS: Final = ("", "persistentvolumeclaims")


def charge_quotas(
    quotas: Sequence[View], group: str, plural: str, obj: View, old: View | None
) -> list[tuple[View, dict[str, str]]]:
    """Each quota this write changes with its new `status.used`. Raises Forbidden when one would be exceeded."""
    resource = (group, plural)
    if old is not None and resource == _PODS and _terminates(obj) == _terminates(old):
        return []  # of a pod's update only a change of scope costs anything
    usage = usage_of(group, plural, obj)
    before = usage_of(group, plural, old) if old is not None else {}
    changed: list[tuple[View, dict[str, str]]] = []
    for quota in quotas:
        if not _counts(quota, resource, obj):
            continue
        hard = _hard(quota)
        covered = [name for name in hard if name in usage or _is_kind_of(name, resource)]
        if not covered:
            continue
        if resource == _PODS:
            _require(quota, covered, group, plural, obj)
        known = old is not None and _counts(quota, resource, old)
        delta = {name: usage[name] - before[name] if known and name in before else usage[name] for name in usage}
        wanted = {name: amount for name, amount in delta.items() if amount.nano > 0 and name in hard}
        if wanted:
            changed.append((quota, _booked(quota, hard, wanted, group, plural, obj)))
    return changed


def quota_usage(quota: View, objects: Iterable[tuple[str, str, View]]) -> dict[str, str]:
    """`status.used` of a quota from all objects of its namespace, each with its group and plural."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    used: Amounts = {name: from_int(0) for name in hard}
    for group, plural, obj in objects:
        if not _counts(quota, (group, plural), obj):
            continue
        for name, amount in usage_of(group, plural, obj).items():
            if name in used:
                used[name] = used[name] + amount
    return {name: str(amount) for name, amount in used.items()}


def usage_of(group: str, plural: str, obj: View) -> Amounts:
    """Everything an object costs, by the names quotas use."""
    usage: Amounts = {f"count/{qualified(group, plural)}": _ONE}
    match (group, plural):
        case ("", "pods"):
            usage.update(_pod(obj))
        case ("", "services"):
            usage.update(_service(obj))
        case ("", "persistentvolumeclaims"):
            usage.update(_claim(obj))
        case ("", name) if name in _PLAIN_COUNTS:
            usage[name] = _ONE
    return usage


def _hard(quota: View) -> dict[str, Any]:
    return dict((quota.get("status") or {}).get("hard") or (quota.get("spec") or {}).get("hard") or {})


def _booked(
    quota: View, hard: Mapping[str, Any], wanted: Amounts, group: str, plural: str, obj: View
) -> dict[str, str]:
    used = {name: parse_quantity(text) for name, text in ((quota.get("status") or {}).get("used") or {}).items()}
    new = {**used, **{name: used.get(name, from_int(0)) + amount for name, amount in wanted.items()}}
    over = sorted(name for name in wanted if new[name].nano > parse_quantity(hard[name]).nano)
    if over:
        why = (
            f"exceeded quota: {quota['metadata']['name']}, requested: {_listed(over, wanted)},"
            f" used: {_listed(over, used)}, limited: {_listed(over, hard)}"
        )
        raise Forbidden(group, plural, (obj.get("metadata") or {}).get("name", ""), why)
    return {name: str(amount) for name, amount in new.items()}


def _listed(names: Sequence[str], amounts: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={amounts.get(name, 0)}" for name in names)


def _require(quota: View, covered: Sequence[str], group: str, plural: str, pod: View) -> None:
    """A quota on cpu or memory is only sound if every container says what it needs."""
    spec = pod.get("spec") or {}
    if (spec.get("resources") or {}).get("requests") or (spec.get("resources") or {}).get("limits"):
        return
    missing: dict[str, set[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        for name in set(covered) & _CONSTRAINED:
            kind, _, resource = name.rpartition(".")
            if resource not in (resources.get(kind or "requests") or {}):
                missing.setdefault(name, set()).add(container.get("name", ""))
    if missing:
        texts = "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
        why = f"failed quota: {quota['metadata']['name']}: must specify {texts}"
        raise Forbidden(group, plural, (pod.get("metadata") or {}).get("name", ""), why)


def _is_kind_of(name: str, resource: tuple[str, str]) -> bool:
    return resource == _PODS and name in _CONSTRAINED


def _pod(pod: View) -> Amounts:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    usage: Amounts = {"pods": _ONE}
    for name, amount in pod_totals(pod, "requests").items():
        if name in _COMPUTE or is_huge_pages(name):
            usage[name] = usage[f"requests.{name}"] = amount
        elif is_extended(name):
            usage[f"requests.{name}"] = amount
    for name, amount in pod_totals(pod, "limits").items():
        if name in _COMPUTE:
            usage[f"limits.{name}"] = amount
    return usage


def _service(service: View) -> Amounts:
    spec = service.get("spec") or {}
    ports = len(spec.get("ports") or ())
    usage: Amounts = {"services": _ONE, "services.loadbalancers": from_int(0), "services.nodeports": from_int(0)}
    match spec.get("type"):
        case "NodePort":
            usage["services.nodeports"] = from_int(ports)
        case "LoadBalancer":
            usage["services.loadbalancers"] = _ONE
            given = [port for port in spec.get("ports") or () if port.get("nodePort")]
            wanted = spec.get("allocateLoadBalancerNodePorts") is not False
            usage["services.nodeports"] = from_int(ports if wanted else len(given))
    return usage


def _claim(claim: View) -> Amounts:
    spec = claim.get("spec") or {}
    usage: Amounts = {"persistentvolumeclaims": _ONE}
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is not None:
        usage["requests.storage"] = parse_quantity(size)
    if spec.get("storageClassName"):
        prefix = f"{spec['storageClassName']}.{_CLASS}"
        usage |= {f"{prefix}/{name}": amount for name, amount in usage.items()}
    return usage


def is_for_priority_class(quota: View, name: str) -> bool:
    """Whether the quota is there for pods of this priority class, and so allows them in its namespace."""
    spec = quota.get("spec") or {}
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return any(term.get("scopeName") == "PriorityClass" and _named(term, name) for term in terms)


def _counts(quota: View, resource: tuple[str, str], obj: View) -> bool:
    """Whether all scopes of the quota hold for the object; only pods and claims have scopes."""
    spec = quota.get("spec") or {}
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not terms:
        return True
    return resource in (_PODS, _CLAIMS) and all(_in_scope(term, resource, obj) for term in terms)


def _in_scope(term: View, resource: tuple[str, str], obj: View) -> bool:
    spec = obj.get("spec") or {}
    match term.get("scopeName"):
        case "VolumeAttributesClass":
            return resource == _CLAIMS and _named(term, spec.get("volumeAttributesClassName") or "")
        case _ if resource != _PODS:
            return False
        case "Terminating":
            return _terminates(obj)
        case "NotTerminating":
            return not _terminates(obj)
        case "BestEffort":
            return qos_class(obj) == "BestEffort"
        case "NotBestEffort":
            return qos_class(obj) != "BestEffort"
        case "PriorityClass":
            return _named(term, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(spec.get("affinity") or {})
        case _:
            return False


def _named(term: View, name: str) -> bool:
    values = term.get("values") or ()
    match term.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "Exists":
            return bool(name)
        case _:
            return not name


def _terminates(pod: View) -> bool:
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _crosses_namespaces(affinity: View) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        terms = list(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [weighted.get("podAffinityTerm") or {} for weighted in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
