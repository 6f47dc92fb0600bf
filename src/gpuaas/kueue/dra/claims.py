"""Devices that pods claim, as amounts of the resources that queues have quota of.

`Devices` counts what the claim templates of a pod ask for, and what pods ask for by the name a class is requested with.
A request that cannot be counted is refused in upstream's words. Which resource stands for which classes is module
device_rules' matter, what a selector matches is device_selectors', what a part of a card takes is device_sources'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from gpuaas.base.fielderrors import FieldError, child, internal, invalid, not_found
from gpuaas.base.quantity import NANO, ZERO, Quantity
from gpuaas.kueue.dra.rules import CAPACITY, COUNTER, DeviceRules, Source
from gpuaas.kueue.dra.selectors import SelectorError, compiled, facts, selects
from gpuaas.kueue.dra.sources import MOST, Refused, taken_of
from gpuaas.kueue.resources import Amounts, Object, amounts
from gpuaas.machinery.schema.cel import Expression

DISABLED = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
CLAIMED = "KueueDRAIntegration feature does not support use of resource claims"
_BY_SOURCE = {
    COUNTER: ("counters", "CEL selectors for counter"),
    CAPACITY: ("capacity sources", "capacity.requests for capacity"),
}


class Inventory(Protocol):
    """The classes, templates and devices of a cluster."""

    def template(self, namespace: str, name: str) -> Object | None: ...
    def device_class(self, name: str) -> Object | None: ...
    def backing(self, resource: str) -> str | None:
        """The class that is asked for by the name of a resource."""

    def slices(self) -> Iterable[Object]: ...


@dataclass(frozen=True, slots=True)
class Charge:
    """What a pod takes besides what its containers say, and which of that it takes instead."""

    added: Mapping[str, Quantity]
    replaced: frozenset[str] = frozenset()

    def applied(self, requests: Amounts) -> Amounts:
        kept = {name: amount for name, amount in requests.items() if name not in self.replaced}
        return _sum(kept, self.added)


NOTHING = Charge({})


class Devices:
    """Counts for one cluster."""

    def __init__(self, rules: DeviceRules, inventory: Inventory) -> None:
        self._rules = rules
        self._inventory = inventory

    def concern(self, pod: Object) -> bool:
        """Whether what it asks for depends on classes, templates and devices."""
        return bool(pod.get("resourceClaims")) or any(self._backing(name) for name in _resources_of(pod))

    def charges(self, namespace: str, pod_sets: list[tuple[str, Object]]) -> tuple[list[Charge], str]:
        """For each pod set, by its name and its pod; and why they cannot be counted."""
        none = [NOTHING] * len(pod_sets)
        claims = [claim for _, pod in pod_sets for claim in pod.get("resourceClaims") or ()]
        if not self._rules.counts:
            return none, DISABLED if claims and self._rules.refuses else ""
        if any(claim.get("resourceClaimName") is not None for claim in claims):
            return none, CLAIMED
        try:
            counted = [self._claimed(namespace, *each, index) for index, each in enumerate(pod_sets)]
            extended = self._extended(pod_sets)
            parts = [self._counted(namespace, pod, index) for index, (_, pod) in enumerate(pod_sets)]
        except Refused as refused:
            return none, str(refused)
        whole = zip(counted, extended, parts, strict=True)
        return [Charge(_sum(_sum(first, by_name.added), last), by_name.replaced) for first, by_name, last in whole], ""

    # Claim templates.

    def _templates(
        self, namespace: str, pod: Object, index: int, words: str
    ) -> Iterator[tuple[str, str, list[Object]]]:
        """Of each claim: where it stands, the name of its template, and its requests."""
        for at, claim in enumerate(pod.get("resourceClaims") or ()):
            name = claim.get("resourceClaimTemplateName")
            if name is None:
                continue
            path = child("spec", "podSets", index, "template", "spec", "resourceClaims", at)
            found = self._inventory.template(namespace, name)
            if found is None:
                missing = f'ResourceClaimTemplate.resource.k8s.io "{name}" not found'
                detail = f"failed to get claim spec for ResourceClaimTemplate {name}{words}: {missing}"
                raise Refused([internal(path, detail)])
            spec = (found.get("spec") or {}).get("spec") or {}
            yield path, name, list((spec.get("devices") or {}).get("requests") or ())

    def _claimed(self, namespace: str, pod_set: str, pod: Object, index: int) -> Amounts:
        total: Amounts = {}
        for path, name, requests in self._templates(namespace, pod, index, f" in podset {pod_set}"):
            counts: dict[str, int] = {}
            for at, request in enumerate(requests):
                problem = _unsupported(request, child(path, "devices", "requests", at), name)
                if problem is not None:
                    raise Refused([problem])
                exactly = request["exactly"]
                device_class = exactly.get("deviceClassName", "")
                counts[device_class] = min(MOST, counts.get(device_class, 0) + exactly.get("count", 0))
            self._check_selectors(path, name, requests)
            for device_class, count in counts.items():
                resource = self._rules.resource(device_class)
                if resource is None:
                    words = f"DeviceClass {device_class} is not mapped in DRA configuration for podset {pod_set}"
                    raise Refused([not_found(child(path, "resourceClaimTemplateName"), words)])
                if not self._rules.sources(device_class):
                    total = _sum(total, {resource: Quantity(count * NANO)})
        return total

    def _check_selectors(self, path: str, template: str, requests: list[Object]) -> None:
        """Enough devices must be there for each request that chooses among them, and none serves two."""
        errors, taken, of = [], set[int](), f"ResourceClaimTemplate {template}: "
        devices: list[Object] | None = None
        for at, request in enumerate(requests):
            exactly = request["exactly"]
            if not any(each.get("cel") for each in exactly.get("selectors") or ()):
                continue
            if devices is None:
                devices = [device for _, device in self._devices()]
            where, device_class = (
                child(path, "devices", "requests", at, "exactly", "selectors"),
                exactly["deviceClassName"],
            )
            try:
                wanted = [*self._of_class(device_class, path, at, of), *_expressions(exactly, where)]
                matching = _matching(wanted, devices, taken, exactly.get("count", 0))
            except Refused as refused:
                errors += refused.errors
                continue
            except SelectorError as error:
                words = f"CEL evaluation failed for DeviceClass {device_class}: {error}"
                errors.append(invalid(where, None, of + words))
                continue
            if matching < exactly.get("count", 0):
                words = f"insufficient matching devices for CEL selector in DeviceClass {device_class}"
                found = f"{matching} device(s) match in the cluster but {exactly.get('count', 0)} requested"
                errors.append(internal(where, f"{of}{words}: {found}"))
        if errors:
            raise Refused(errors)

    def _of_class(self, name: str, path: str, at: int, of: str = "") -> list[Expression]:
        where = child(path, "devices", "requests", at)
        found = self._inventory.device_class(name)
        if found is None:
            missing = f'DeviceClass.resource.k8s.io "{name}" not found'
            raise Refused([internal(where, f"{of}failed to get DeviceClass {name}: {missing}")])
        return _expressions(found.get("spec") or {}, where, f"{of}DeviceClass {name} has invalid CEL selector")

    def _devices(self, driver: str | None = None) -> Iterator[tuple[Object, Object]]:
        """Every device, and what expressions see of it; of one driver, those of its pools that are complete."""
        slices = [each.get("spec") or {} for each in self._inventory.slices()]
        if driver is not None:
            slices = _complete([each for each in slices if each.get("driver") == driver])
        for each in slices:
            for device in each.get("devices") or ():
                yield device, facts(each.get("driver", ""), device)

    # What devices say.

    def _counted(self, namespace: str, pod: Object, index: int) -> Amounts:
        total: Amounts = {}
        for path, _, requests in self._templates(namespace, pod, index, ""):
            for at, request in enumerate(requests):
                exactly = request.get("exactly") or {}
                for resource, source in self._rules.sources(exactly.get("deviceClassName", "")):
                    total = _sum(total, {resource: self._by_source(source, exactly, path, at)})
        return total

    def _by_source(self, source: Source, exactly: Object, path: str, at: int) -> Quantity:
        where = child(path, "devices", "requests", at)
        chosen = {"selectors": [{"cel": {"expression": source.selector}}]}
        wanted = [
            *_expressions(chosen, where, "deviceSelector CEL compilation failed"),
            *self._of_class(exactly["deviceClassName"], path, at),
            *_expressions(exactly, child(where, "exactly", "selectors")),
        ]
        try:
            found = [device for device, seen in self._devices(source.driver) if selects(wanted, seen)]
        except SelectorError as error:
            raise Refused([internal(where, f"CEL evaluation error in request selector: {error}")]) from None
        return taken_of(source, found, exactly, where)

    # Classes by the name of a resource.

    def _backing(self, resource: str) -> str | None:
        if not self._rules.extended or "/" not in resource:
            return None
        return self._inventory.backing(resource)

    def _extended(self, pod_sets: list[tuple[str, Object]]) -> list[Charge]:
        charges, errors = [], []
        for index, (_, pod) in enumerate(pod_sets):
            added: Amounts = {}
            replaced: set[str] = set()
            for name, path, amount, broken in _extended_requests(
                pod, child("spec", "podSets", index, "template", "spec")
            ):
                device_class = self._backing(name)
                if device_class is None:
                    continue
                sources = self._rules.sources(device_class)
                if sources:
                    how, by = _BY_SOURCE[sources[0][1].kind]
                    words = f"extended resource {name} resolves to DeviceClass {device_class} with {how} configured;"
                    errors.append(invalid(path, name, f"{words} use ResourceClaimTemplates with {by}-based quota"))
                elif broken:
                    errors += broken
                else:
                    replaced.add(name)
                    added = _sum(added, {self._rules.resource(device_class) or name: amount})
            charges.append(Charge(added, frozenset(replaced)))
        if errors:
            raise Refused(errors)
        return charges


def _unsupported(request: Object, path: str, template: str) -> FieldError | None:
    """The first thing about a request that cannot be counted."""
    exactly, of = request.get("exactly"), f"ResourceClaimTemplate {template}: "
    if request.get("firstAvailable"):
        return invalid(path, None, f"{of}FirstAvailable device selection is not supported")
    if exactly is None:
        return invalid(path, None, f"{of}Exactly must be set if FirstAvailable is nil")
    try:
        _expressions(exactly, child(path, "exactly", "selectors"))
    except Refused as refused:
        return invalid(child(path, "exactly", "selectors"), None, f"{of}{refused}")
    if exactly.get("adminAccess"):
        return invalid(child(path, "exactly", "adminAccess"), None, f"{of}AdminAccess is not supported")
    mode = exactly.get("allocationMode", "")
    if mode == "All":
        return invalid(child(path, "exactly", "allocationMode"), mode, f"{of}AllocationMode 'All' is not supported")
    if mode != "ExactCount":
        return invalid(child(path, "exactly", "allocationMode"), mode, f"{of}unsupported allocation mode: {mode}")
    return None


def _expressions(owner: Object, path: str, words: str = "CEL compilation failed") -> list[Expression]:
    made, errors = [], []
    for index, selector in enumerate(owner.get("selectors") or ()):
        text = (selector.get("cel") or {}).get("expression")
        if text is None:
            continue
        found = compiled(text)
        if isinstance(found, str):
            errors.append(invalid(child(path, index, "cel", "expression"), text, f"{words}: {found}"))
        else:
            made.append(found)
    if errors:
        raise Refused(errors)
    return made


def _matching(wanted: list[Expression], devices: list[Object], taken: set[int], count: int) -> int:
    found = 0
    for index, device in enumerate(devices):
        if found >= count:
            break
        if index not in taken and selects(wanted, device):
            taken.add(index)
            found += 1
    return found


def _complete(slices: list[Object]) -> list[Object]:
    """The slices of the newest generation of each pool, of those pools that have all of theirs."""
    pools: dict[str, list[Object]] = {}
    for each in slices:
        pools.setdefault((each.get("pool") or {}).get("name", ""), []).append(each)
    found: list[Object] = []
    for pool in pools.values():
        newest = max(each["pool"].get("generation", 0) for each in pool)
        current = [each for each in pool if each["pool"].get("generation", 0) == newest]
        if len(current) == current[0]["pool"].get("resourceSliceCount", 0):
            found += current
    return found


def _extended_requests(pod: Object, path: str) -> Iterator[tuple[str, str, Quantity, list[FieldError]]]:
    """What containers ask for by names with a domain, where first, and which of it is no whole number: the most of the
    init containers, or what the others take together."""
    most: dict[str, Amounts] = {"initContainers": {}, "containers": {}}
    where: dict[str, str] = {}
    broken: dict[str, list[FieldError]] = {}
    for key, into in most.items():
        for index, container in enumerate(pod.get(key) or ()):
            for name, amount in amounts((container.get("resources") or {}).get("requests")).items():
                if amount.nano <= 0 or "/" not in name:
                    continue
                at = child(path, key, index)
                where.setdefault(name, at)
                if amount.nano % NANO:
                    words = "extended resource quantity must be an integer"
                    problem = invalid(child(at, "resources", "requests", name), str(amount), words)
                    broken.setdefault(name, []).append(problem)
                known = into.get(name, ZERO)
                into[name] = known + amount if key == "containers" else _larger(known, amount)
    for name, at in where.items():
        yield name, at, _larger(*(into.get(name, ZERO) for into in most.values())), broken.get(name, [])


def _larger(first: Quantity, second: Quantity) -> Quantity:
    return max(first, second, key=lambda each: each.nano)


def _resources_of(pod: Object) -> Iterator[str]:
    for key in ("initContainers", "containers"):
        for container in pod.get(key) or ():
            yield from (container.get("resources") or {}).get("requests") or ()


def _sum(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {**first, **{name: first.get(name, ZERO) + amount for name, amount in second.items()}}
