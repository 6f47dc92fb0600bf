"""What limit ranges do to pods and claims: they fill in what a container leaves out, and refuse what is out of range."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.api.kubernetes.pod_resources import pod_totals
from gpuaas.base.quantity import Quantity, parse_quantity

View = Mapping[str, Any]
Amounts = Mapping[str, Quantity]

_ANNOTATION: Final = "kubernetes.io/limit-ranger"


def apply_limit_ranges(pod: dict[str, Any], ranges: Sequence[View], *, create: bool) -> list[str]:
    """Fills in defaults when the pod is made, and returns what is out of range, in words. Later nothing is checked."""
    if not create:
        return []
    fill_in_limits(pod, ranges)
    return pod_limit_errors(pod, ranges)


def fill_in_limits(pod: dict[str, Any], ranges: Sequence[View]) -> None:
    for limit_range in ranges:
        _fill_in(pod, limit_range)


def pod_limit_errors(pod: View, ranges: Sequence[View]) -> list[str]:
    """What the first range that has something against the pod has against it: the others are not asked then."""
    return next((found for limit_range in ranges if (found := _violations(pod, limit_range))), [])


def claim_limit_errors(claim: View, ranges: Sequence[View]) -> list[str]:
    requests = _amounts(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    return next((found for limit_range in ranges if (found := _claim_violations(requests, limit_range))), [])


def _claim_violations(requests: Amounts, limit_range: View) -> list[str]:
    found: list[str] = []
    for limit in _limits([limit_range], "PersistentVolumeClaim"):
        for name, least in _amounts(limit.get("min")).items():
            found += _too_little("PersistentVolumeClaim", name, least, requests, {})
        for name, most in _amounts(limit.get("max")).items():
            found += _too_large_a_request("PersistentVolumeClaim", name, most, requests)
    return found


def _limits(ranges: Sequence[View], kind: str) -> list[View]:
    return [
        limit
        for limit_range in ranges
        for limit in (limit_range.get("spec") or {}).get("limits") or ()
        if limit.get("type") == kind
    ]


def _amounts(amounts: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: parse_quantity(amount) for name, amount in (amounts or {}).items()}


def _fill_in(pod: dict[str, Any], limit_range: View) -> None:
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for limit in _limits([limit_range], "Container"):
        requests.update(limit.get("defaultRequest") or {})
        limits.update(limit.get("default") or {})
    done: list[str] = []
    for field, word in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(field) or ():
            for kind, defaults in (("request", requests), ("limit", limits)):
                missing = _complete(container, f"{kind}s", defaults)
                if missing:
                    done.append(f"{', '.join(missing)} {kind} for {word} {container.get('name', '')}")
    if done:
        metadata = pod.setdefault("metadata", {})
        text = f"LimitRanger plugin set: {'; '.join(done)}"
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _ANNOTATION: text}


def _complete(container: dict[str, Any], kind: str, defaults: Mapping[str, Any]) -> list[str]:
    resources = container.setdefault("resources", {})
    given = resources.get(kind) or {}
    missing = sorted(name for name in defaults if name not in given)
    if missing:
        resources[kind] = {**given, **{name: defaults[name] for name in missing}}
    return missing


def _violations(pod: View, limit_range: View) -> list[str]:
    found: list[str] = []
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        match limit.get("type"):
            case "Container":
                for field in ("containers", "initContainers"):
                    for container in (pod.get("spec") or {}).get(field) or ():
                        resources = container.get("resources") or {}
                        amounts = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
                        found += _out_of_range("Container", limit, *amounts)
            case "Pod":
                totals = (pod_totals(pod, kind, overhead=False) for kind in ("requests", "limits"))
                found += _out_of_range("Pod", limit, *totals)
    return found


def _out_of_range(kind: str, limit: View, requests: Amounts, limits: Amounts) -> list[str]:
    found: list[str] = []
    for name, least in _amounts(limit.get("min")).items():
        found += _too_little(kind, name, least, requests, limits)
    for name, most in _amounts(limit.get("max")).items():
        found += _too_much(kind, name, most, requests, limits)
    for name, ratio in _amounts(limit.get("maxLimitRequestRatio")).items():
        found += _too_elastic(kind, name, ratio, requests, limits)
    return found


def _too_little(kind: str, name: str, least: Quantity, requests: Amounts, limits: Amounts) -> list[str]:
    head = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        return [f"{head}.  No request is specified"]
    if requests[name].nano < least.nano:
        return [f"{head}, but request is {requests[name]}"]
    if name in limits and limits[name].nano < least.nano:
        return [f"{head}, but limit is {limits[name]}"]
    return []


def _too_much(kind: str, name: str, most: Quantity, requests: Amounts, limits: Amounts) -> list[str]:
    head = f"maximum {name} usage per {kind} is {most}"
    if name not in limits:
        return [f"{head}.  No limit is specified"]
    if limits[name].nano > most.nano:
        return [f"{head}, but limit is {limits[name]}"]
    if name in requests and requests[name].nano > most.nano:
        return [f"{head}, but request is {requests[name]}"]
    return []


def _too_large_a_request(kind: str, name: str, most: Quantity, requests: Amounts) -> list[str]:
    head = f"maximum {name} usage per {kind} is {most}"
    if name not in requests:
        return [f"{head}.  No request is specified"]
    return [f"{head}, but request is {requests[name]}"] if requests[name].nano > most.nano else []


def _too_elastic(kind: str, name: str, ratio: Quantity, requests: Amounts, limits: Amounts) -> list[str]:
    head = f"{name} max limit to request ratio per {kind} is {ratio}"
    request, limit = requests.get(name), limits.get(name)
    if request is None or not request.nano:
        return [f"{head}, but no request is specified or request is 0"]
    if limit is None or not limit.nano:
        return [f"{head}, but no limit is specified or limit is 0"]
    if limit.nano * 1_000_000_000 > ratio.nano * request.nano:
        return [f"{head}, but provided ratio is {limit.nano / request.nano:f}"]
    return []
