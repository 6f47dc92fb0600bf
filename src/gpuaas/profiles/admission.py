"""The profile webhook as this product answers by default: upstream's rules, and better answers where they harm users.

What differs from upstream (module webhook), with the reason:

- kinds of jobs can name a profile, not only notebooks and model servers;
- a profile is looked for in the applications namespace too, and its display name finds it;
- minimum and maximum bind the object, not only the form; an object that did not change keeps what it has;
- the profile's priority class becomes the label Kueue reads, unless the user set one;
- a limit without a request: the request never exceeds it;
- another profile takes away what the first one set, never what the user wrote;
- a profile that is gone does not block an update of what already runs with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, invalid
from gpuaas.base.quantity import Quantity, from_int, parse_quantity
from gpuaas.profiles import offered
from gpuaas.profiles.inject import QUEUE, UnreadableError, identifiers, node_of, quantity, queue_of, toleration_key
from gpuaas.profiles.paths import Object, annotation, drop, label, put
from gpuaas.profiles.webhook import NAME, NAMESPACE
from gpuaas.profiles.workloads import Slot, Workload, found, replaced

PRIORITY: Final = "kueue.x-k8s.io/priority-class"
_ANNOTATIONS: Final = ("metadata", "annotations")
_LABELS: Final = ("metadata", "labels")
_SHOWN: Final = 10

List = Callable[[str], Sequence[Object]]
"""The profiles of a namespace."""


@dataclass(frozen=True, slots=True)
class Answer:
    object: Object
    warnings: tuple[str, ...] = ()
    refusal: str = ""  # why the profile cannot be applied at all
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True)
class Profiles:
    """Where profiles are looked for: the workload's own namespace first, then those that all share."""

    listed: List
    shared: tuple[str, ...]

    def find(self, name: str, namespace: str, own: str) -> Object | None:
        """By name, else by display name; in the named namespace alone where one is named."""
        places = [namespace] if namespace else list(dict.fromkeys((own, *self.shared)))
        for place in places:
            there = self.listed(place)
            if (exact := next((p for p in there if offered.name_of(p) == name), None)) is not None:
                return exact
        titled = [p for place in places for p in self.listed(place) if offered.title(p) == name]
        return titled[0] if len({offered.name_of(p) for p in titled}) == 1 else None

    def names(self, namespace: str, own: str) -> list[str]:
        """To choose from: of the named namespace, where that is the user's own or one that all share."""
        open_to_all = list(dict.fromkeys((own, *self.shared)))
        places = [place for place in open_to_all if namespace in ("", place)]
        return list(dict.fromkeys(offered.name_of(p) for place in places for p in self.listed(place)))


def review(workload: Workload, obj: Object, old: Object | None, profiles: Profiles, own: str) -> Answer:
    """`own`: the object's namespace. The answer holds the object to store, or why it is refused."""
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return Answer(obj)
    name = annotation(obj, NAME)
    before = _profile_of(old, profiles, own) if old is not None else None
    if not name:
        return _removed(workload, obj, old, before) if old is not None and annotation(old, NAME) else Answer(obj)
    profile = profiles.find(name, annotation(obj, NAMESPACE), own)
    if profile is None:
        return _missing(obj, old, name, profiles, own)
    if old is not None and not workload.mutable:
        return Answer(_named(obj, profile))
    warnings: list[str] = []
    if not offered.enabled(profile) and (before is None or _identity(before) != _identity(profile)):
        warnings.append(f"hardware profile '{offered.name_of(profile)}' is disabled; it still applies")
    switched = before is not None and _identity(before) != _identity(profile)
    if switched and before is not None and old is not None:
        obj = _without(workload, obj, old, before, keep=frozenset())
    try:
        obj, said = _applied(workload, _named(obj, profile), profile)
        errors = _bounds(workload, obj, None if switched or before is None else old, profile)
    except UnreadableError as error:
        where = "/".join(_identity(profile))
        return Answer(obj, refusal=f"hardware profile '{where}' cannot be read: {error}")
    return Answer(obj, (*warnings, *said), errors=tuple(errors))


def _identity(profile: Object) -> tuple[str, str]:
    metadata = profile["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])


def _profile_of(obj: Object, profiles: Profiles, own: str) -> Object | None:
    name = annotation(obj, NAME)
    return profiles.find(name, annotation(obj, NAMESPACE), own) if name else None


def _missing(obj: Object, old: Object | None, name: str, profiles: Profiles, own: str) -> Answer:
    namespace = annotation(obj, NAMESPACE)
    where = namespace or own
    if old is not None and annotation(old, NAME) == name and annotation(old, NAMESPACE) == namespace:
        words = f"hardware profile '{name}' is gone from namespace '{where}': what it had set stays, nothing is added"
        return Answer(obj, (words,))
    known = profiles.names(namespace, own)
    others = f"; there are: {', '.join(known[:_SHOWN])}" if known else ""
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return Answer(obj, refusal=f"hardware profile '{name}' not found in namespace '{where}'{others}{more}")


def _named(obj: Object, profile: Object) -> Object:
    """Which profile applies, by name and namespace, whatever the user wrote to find it."""
    namespace, name = _identity(profile)
    if (annotation(obj, NAME), annotation(obj, NAMESPACE)) == (name, namespace):
        return obj
    return put(put(obj, (*_ANNOTATIONS, NAME), name), (*_ANNOTATIONS, NAMESPACE), namespace)


# -- Applying -----------------------------------------------------------------------------------------------------------


def _applied(workload: Workload, obj: Object, profile: Object) -> tuple[Object, list[str]]:
    warnings: list[str] = []
    queue, priority = queue_of(profile), priority_of(profile)
    if queue:
        current = label(obj, QUEUE)
        if current and current != queue:
            title = offered.name_of(profile)
            warnings.append(f"label {QUEUE}: {current} becomes {queue}, as hardware profile '{title}' says")
        if current != queue:
            obj = put(obj, (*_LABELS, QUEUE), queue)
    if priority and not label(obj, PRIORITY):
        obj = put(obj, (*_LABELS, PRIORITY), priority)
    for slot in workload.at(obj):
        obj = _with_resources(obj, slot, profile)
        if not queue:
            obj = _with_node(obj, slot, profile, warnings)
    return obj, list(dict.fromkeys(warnings))


def priority_of(profile: Object) -> str:
    kueue = ((profile.get("spec") or {}).get("scheduling") or {}).get("kueue") or {}
    return str(kueue.get("priorityClass") or "")


def is_accelerator(identifier: Object) -> bool:
    if identifier.get("resourceType") in ("CPU", "Memory"):
        return False
    return identifier.get("resourceType") == "Accelerator" or "/" in str(identifier.get("identifier", ""))


def _wanted(slot: Slot, profile: Object) -> list[Object]:
    return [one for one in identifiers(profile) if slot.accelerators or not is_accelerator(one)]


def container_at(obj: Object, slot: Slot) -> tuple[str | int, ...] | None:
    """The path of the container the profile's amounts are for."""
    if slot.holder is not None:
        return slot.holder if isinstance(found(obj, slot.holder), Mapping) else None
    containers = found(obj, (*slot.pod, "containers"))
    if not isinstance(containers, list) or not containers:
        return (*slot.pod, "containers", 0) if slot.creates_main else None
    names = [one.get("name") if isinstance(one, Mapping) else None for one in containers]
    if slot.main:
        return (*slot.pod, "containers", names.index(slot.main)) if slot.main in names else None
    name = (obj.get("metadata") or {}).get("name")
    return (*slot.pod, "containers", names.index(name) if name in names else 0)


def _with_resources(obj: Object, slot: Slot, profile: Object) -> Object:
    wanted, at = _wanted(slot, profile), container_at(obj, slot)
    if not wanted or at is None:
        return obj
    container = found(obj, at)
    if container is None:  # an LLMInferenceService without containers gets its main one
        obj = replaced(obj, at[:-1], [{"name": slot.main}])
        container = found(obj, at)
    resources = container.get("resources") or {}
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    for identifier in wanted:
        name = str(identifier.get("identifier", ""))
        if name not in requests:
            requests[name] = _request(identifier, name, limits.get(name))
        limits.setdefault(name, requests[name])
    if requests == resources.get("requests") and limits == resources.get("limits"):
        return obj
    resources = {**resources, "requests": requests, "limits": limits}
    return replaced(obj, at, {**container, "resources": resources})  # type: ignore[no-any-return]


def _request(identifier: Object, name: str, limit: Any) -> Any:
    """A missing request: the default, but no more than the user's limit; for accelerators the limit itself."""
    usual = quantity(identifier.get("defaultCount"), name)
    most = _amount(limit)
    if most is None:
        return usual
    return limit if is_accelerator(identifier) or most < _count(usual, name) else usual


def _with_node(obj: Object, slot: Slot, profile: Object, warnings: list[str]) -> Object:
    node, pod = node_of(profile), found(obj, slot.pod)
    if not isinstance(pod, Mapping):
        return obj
    changed = dict(pod)
    if selector := node.get("nodeSelector"):
        current = pod.get("nodeSelector") or {}
        for key, value in selector.items():
            if current.get(key, value) != value:
                name = offered.name_of(profile)
                warnings.append(
                    f"nodeSelector {key}: {current[key]} becomes {value}, as hardware profile '{name}' says"
                )
        changed["nodeSelector"] = {**current, **selector}
    if listed := _tolerations(profile):
        known = {toleration_key(each) for each in listed}
        own = [each for each in pod.get("tolerations") or () if toleration_key(each) not in known]
        changed["tolerations"] = [*listed, *own]
    return obj if changed == pod else replaced(obj, slot.pod, changed)


def _tolerations(profile: Object) -> list[dict[str, Any]]:
    listed = node_of(profile).get("tolerations") or ()
    return [{key: value for key, value in one.items() if value not in ("", None)} for one in listed]


# -- Taking away --------------------------------------------------------------------------------------------------------


def _removed(workload: Workload, obj: Object, old: Object, before: Object | None) -> Answer:
    """The annotation was taken away: what the profile had set goes with it, as far as it is still as the profile set it."""
    name = annotation(old, NAME)
    if NAMESPACE in ((obj.get("metadata") or {}).get("annotations") or {}):
        obj = drop(obj, (*_ANNOTATIONS, NAMESPACE))
    if before is None:
        return Answer(obj, (f"hardware profile '{name}' is gone: what it had set stays",))
    if not workload.mutable:
        return Answer(obj)
    return Answer(_without(workload, obj, old, before, keep=frozenset(_resource_names(before))))


def _resource_names(profile: Object) -> list[str]:
    return [str(one.get("identifier", "")) for one in identifiers(profile)]


def _without(workload: Workload, obj: Object, old: Object, profile: Object, *, keep: frozenset[str]) -> Object:
    """Without the profile's label, selectors, tolerations, and of its resources those the user does not change here."""
    queue, priority = queue_of(profile), priority_of(profile)
    if queue and label(obj, QUEUE) == queue:
        obj = drop(obj, (*_LABELS, QUEUE))
    if priority and label(obj, PRIORITY) == priority:
        obj = drop(obj, (*_LABELS, PRIORITY))
    for slot in workload.at(obj):
        obj = _without_node(obj, slot, profile)
        obj = _without_resources(obj, old, slot, [n for n in _resource_names(profile) if n not in keep])
    return obj


def _without_node(obj: Object, slot: Slot, profile: Object) -> Object:
    pod = found(obj, slot.pod)
    if not isinstance(pod, Mapping):
        return obj
    changed, selector = dict(pod), node_of(profile).get("nodeSelector") or {}
    known = {toleration_key(each) for each in _tolerations(profile)}
    if selector and pod.get("nodeSelector"):
        left = {key: value for key, value in pod["nodeSelector"].items() if selector.get(key) != value}
        changed = {**changed, "nodeSelector": left} if left else _less(changed, "nodeSelector")
    if known and pod.get("tolerations"):
        kept = [each for each in pod["tolerations"] if toleration_key(each) not in known]
        changed = {**changed, "tolerations": kept} if kept else _less(changed, "tolerations")
    return obj if changed == pod else replaced(obj, slot.pod, changed)


def _less(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def _without_resources(obj: Object, old: Object, slot: Slot, names: Sequence[str]) -> Object:
    at, before = container_at(obj, slot), container_at(old, slot)
    container = found(obj, at) if at is not None else None
    if at is None or not isinstance(container, Mapping) or not names:
        return obj
    former = (found(old, before) or {}).get("resources") or {} if before is not None else {}
    resources = dict(container.get("resources") or {})
    for part in ("requests", "limits"):
        amounts, known = resources.get(part) or {}, former.get(part) or {}
        if amounts:
            resources[part] = {n: v for n, v in amounts.items() if n not in names or known.get(n) != v}
    return replaced(obj, at, {**container, "resources": resources})  # type: ignore[no-any-return]


# -- Bounds -------------------------------------------------------------------------------------------------------------


def _bounds(workload: Workload, obj: Object, old: Object | None, profile: Object) -> list[FieldError]:
    """Requests and limits outside of the profile's minimum and maximum; `old` has what was accepted before."""
    errors: list[FieldError] = []
    for slot in workload.at(obj):
        at = container_at(obj, slot)
        container = found(obj, at) if at is not None else None
        if at is None or not isinstance(container, Mapping):
            continue
        before = container_at(old, slot) if old is not None else None
        former = (found(old, before) or {}) if before is not None else {}
        for identifier in _wanted(slot, profile):
            errors += _outside(identifier, profile, at, container, former)
    return errors


def _outside(
    identifier: Object, profile: Object, at: Sequence[str | int], container: Object, former: Object
) -> list[FieldError]:
    name = str(identifier.get("identifier", ""))
    errors = []
    for part in ("requests", "limits"):
        value = ((container.get("resources") or {}).get(part) or {}).get(name)
        amount = _amount(value)
        if amount is None or ((former.get("resources") or {}).get(part) or {}).get(name) == value:
            continue
        path = f"{_spelled(at)}.resources.{part}[{name}]"
        for field, word, wrong in (("minCount", "at least", -1), ("maxCount", "at most", 1)):
            bound = identifier.get(field)
            if bound is None:
                continue
            limit = _count(quantity(bound, name), name)
            if (amount > limit) - (amount < limit) == wrong:
                title = offered.name_of(profile)
                errors.append(
                    invalid(path, str(value), f"must be {word} {bound} ({field} of hardware profile '{title}')")
                )
    return errors


def _spelled(path: Sequence[str | int]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def _amount(value: Any) -> Quantity | None:
    """None for what is no quantity: the schema says so itself. Compared by value alone."""
    try:
        return None if value is None else replace(parse_quantity(value), family="decimal")
    except ValueError:
        return None


def _count(text: Any, name: str) -> Quantity:
    try:
        found = from_int(text) if isinstance(text, int) else parse_quantity(text)
    except ValueError as error:
        raise UnreadableError(f"{name}: {error}") from None
    return replace(found, family="decimal")
