"""Names and amounts of resources: which names are right where, and what requests and limits must obey together."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from gpuaas.api.kubernetes.rules.checks import dns_label, each
from gpuaas.api.metadata import NEGATIVE, View, qualified_messages
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, keyed, required, show
from gpuaas.base.quantity import parse_quantity

_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_REQUESTED: Final = frozenset(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE)
_QUOTA: Final = _COMPUTE | _REQUESTED | _COUNTED | {"requests.storage"}
_STANDARD: Final = _QUOTA | {"storage"}
_LONGEST_LIST: Final = 1_000  # characters of what would have been right, with each of what is not
_HUGE_PAGES: Final = "hugepages-"
_NATIVE_PREFIX: Final = "kubernetes.io/"

NameCheck = Callable[[str, str], list[FieldError]]


def is_huge_pages(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def is_native(name: str) -> bool:
    return "/" not in name or _NATIVE_PREFIX in name


@lru_cache(maxsize=1_024)
def is_extended(name: str) -> bool:
    """A device plugin's resource such as nvidia.com/gpu."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not qualified_messages(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def is_integer(name: str) -> bool:
    return name in _COUNTED or is_extended(name)


def resource_name(name: str, path: str) -> list[FieldError]:
    errors = [invalid(path, name, message) for message in qualified_messages(name)]
    if not errors and "/" not in name and not _is_standard(name):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def container_resource_name(name: str, path: str) -> list[FieldError]:
    errors = resource_name(name, path)
    if "/" not in name:
        if name not in _COMPUTE and not is_huge_pages(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def pod_resource_name(name: str, path: str) -> list[FieldError]:
    errors = resource_name(name, path)
    if errors or name in ("cpu", "memory") or is_huge_pages(name):
        return errors
    supported = 'supported values: "cpu", "hugepages-", "memory"'
    return [FieldError("FieldValueNotSupported", path, f"Unsupported value: {show(name)}: {supported}")]


def quota_resource_name(name: str, path: str) -> list[FieldError]:
    errors = resource_name(name, path)
    if (
        "/" not in name
        and name not in _QUOTA
        and not name.startswith("requests.hugepages-")
        and not is_huge_pages(name)
    ):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
    return errors


def resource_amount(name: str, amount: Any, path: str) -> list[FieldError]:
    quantity = parse_quantity(amount)
    errors = [invalid(path, str(quantity), NEGATIVE)] if quantity.nano < 0 else []
    if is_integer(name) and quantity.milli % 1000:
        errors.append(invalid(path, str(quantity), "must be an integer"))
    return errors


def resource_requirements(
    resources: View, path: str, claims: Sequence[str] = (), name_check: NameCheck = container_resource_name
) -> list[FieldError]:
    """Requests and limits of a container or a pod."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    limits_path, requests_path = child(path, "limits"), child(path, "requests")
    errors: list[FieldError] = []
    for name, amount in limits.items():
        if not _is_fine(name, amount, name_check):
            errors += _amount(name, amount, keyed(limits_path, name), name_check)
    for name, amount in requests.items():
        if not _is_fine(name, amount, name_check):
            errors += _amount(name, amount, keyed(requests_path, name), name_check)
        errors += _against_limit(name, amount, limits, requests_path, limits_path)
    names = {*limits, *requests}
    if any(map(is_huge_pages, names)) and not names & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors + _claims(resources, child(path, "claims"), claims)


def _is_standard(name: str) -> bool:
    return name in _STANDARD or is_huge_pages(name) or name.startswith("requests.hugepages-")


@lru_cache(maxsize=4_096, typed=True)
def _is_fine(name: str, amount: str | float, name_check: NameCheck) -> bool:
    """The same few amounts of the same few resources come with every pod."""
    return not _amount(name, amount, "", name_check)


def _amount(name: str, amount: Any, path: str, name_check: NameCheck) -> list[FieldError]:
    errors = name_check(name, path) + resource_amount(name, amount, path)
    if is_huge_pages(name):
        quantity, page = parse_quantity(amount), _page_size(name)
        if quantity.nano <= 0 or (page and quantity.nano % page):
            errors.append(invalid(path, str(quantity), f"{quantity} is not positive integer multiple of {name}"))
    return errors


def _page_size(name: str) -> int:
    try:
        return parse_quantity(name.removeprefix(_HUGE_PAGES)).nano
    except ValueError:
        return 0


def _against_limit(name: str, amount: Any, limits: View, path: str, limits_path: str) -> list[FieldError]:
    quantity = parse_quantity(amount)
    if name not in limits:
        if may_overcommit(name):
            return []
        return [required(limits_path, "Limit must be set for non overcommitable resources")]
    limit = parse_quantity(limits[name])
    if quantity.nano != limit.nano and not may_overcommit(name):
        return [invalid(path, str(quantity), f"must be equal to {name} limit of {limit}")]
    if quantity.nano > limit.nano:
        return [invalid(path, str(quantity), f"must be less than or equal to {name} limit of {limit}")]
    return []


def _claims(resources: View, path: str, pod_claims: Sequence[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    parts = Counter[str]()  # how many requests of a claim have been named
    known = frozenset(pod_claims)
    where = "must be one of the names in pod.spec.resourceClaims"
    where += f": {', '.join(sorted(known))[:_LONGEST_LIST]}" if pod_claims else " which is empty"
    for index, (claim, _) in enumerate(each(resources, "claims", "")):
        at, name, request = child(path, index), claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(at))
            continue
        key = f"{name}/{request}" if request else name
        if request:
            errors += dns_label(request, child(at, "request"))
        if name in seen or key in seen:
            errors.append(duplicate(at, name if name in seen else key))
        elif not request:
            errors += [duplicate(at, name)] * parts[name]
        if request and key not in seen:
            parts[name] += 1
        seen.add(key)
        if name not in known:
            errors.append(FieldError("FieldValueNotFound", at, f"Not found: {show(name)}: {where}"))
    return errors
