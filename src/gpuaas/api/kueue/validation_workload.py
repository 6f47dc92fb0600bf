"""What Kueue's webhook refuses of workloads, in its order and words, on the object and on its status.

Like `validation`, but an update may keep what was already wrong before: such an object must be able to converge. Gates
as Kueue 0.19 has them by default: partial admission, elastic jobs, admission gates and topology checks on, priority
boost off.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuaas.api.kinds import Behaviour
from gpuaas.api.kueue.validation import IMMUTABLE, labels, not_negative, quantity, tolerations
from gpuaas.api.metadata import qualified_messages
from gpuaas.base.fielderrors import (
    FieldError,
    child,
    duplicate,
    forbidden,
    invalid,
    keyed,
    not_found,
    not_supported,
    required,
    too_long,
)
from gpuaas.base.names import is_dns1123_subdomain, is_qualified_name

ELASTIC = "kueue.x-k8s.io/elastic-job"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"

_ANNOTATIONS_LIMIT = 256 * 1024
_GATE_LIMIT = 63
_GATES_PATH = keyed("metadata.annotations", GATED_BY)
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")

_AMOUNTS = frozenset({"resourceUsage", "requests", "limits", "overhead"})

Fields = Mapping[str, Any]


class WorkloadRules(Behaviour):
    webhook = "vworkload.kb.io"
    field_selectors = ("status.admission.clusterQueue",)
    free_numbers = ("accumulatedPastExecutionTimeSeconds", "schedulingStats.evictions.*.count")

    def validate(self, obj: Fields) -> list[FieldError]:
        return list(_workload(obj, None))

    def check_update(self, obj: Fields, old: Fields) -> list[FieldError]:
        return [*_workload(obj, old), *_update(obj, old)]

    def validate_status_update(self, obj: Fields, old: Fields) -> list[FieldError]:
        return self.check_update(obj, old)

    def warnings(self, obj: Fields, old: Fields | None) -> Sequence[str]:
        found = []
        for i, pod_set in enumerate(_pod_sets(obj)):
            count = (pod_set.get("topologyRequest") or {}).get("subGroupCount")
            if count is not None and count < 0:
                path = child("spec.podSets", i, "topologyRequest", "subGroupCount")
                found.append(f"{path}: negative value {count} is deprecated and will be rejected in a future release")
        return found

    def fields(self, obj: Fields) -> Mapping[str, str]:
        admission = _status(obj).get("admission") or {}
        return {"status.admission.clusterQueue": admission.get("clusterQueue", "")}


def has_condition(obj: Fields, type_: str) -> bool:
    return any(
        condition.get("type") == type_ and condition.get("status") == "True"
        for condition in _status(obj).get("conditions") or ()
    )


def is_reserved(obj: Fields) -> bool:
    return has_condition(obj, "QuotaReserved")


def is_elastic(obj: Fields) -> bool:
    return _annotations(obj).get(ELASTIC) == "true"


# -- any workload -----------------------------------------------------------------------------------------------------


def _workload(obj: Fields, old: Fields | None) -> Iterator[FieldError]:
    variable = 0
    known = _pod_sets(old) if old is not None else ()
    for i, pod_set in enumerate(_pod_sets(obj)):
        if i >= len(known) or known[i] is not pod_set:  # a status says nothing new of them
            yield from _pod_set(pod_set, child("spec.podSets", i))
        variable += pod_set.get("minCount") is not None
    if variable > 1:
        yield invalid("spec.podSets", variable, "at most one podSet can use minCount")
    if variable and is_elastic(obj):
        yield invalid("spec.podSets", variable, "partial admission and elastic job cannot be used together")
    if is_reserved(obj):
        yield from _admission(obj, old)
    yield from _conditions(_status(obj).get("conditions") or ())
    yield from _reclaimable(obj, old)
    for i, check in enumerate(_status(obj).get("admissionChecks") or ()):
        yield from _pod_set_updates(check, obj, child("status.admissionChecks", i, "podSetUpdates"))
    yield from _gates(_annotations(obj).get(GATED_BY, ""))


def _pod_set(pod_set: Fields, path: str) -> Iterator[FieldError]:
    template = pod_set.get("template") or {}
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from labels(metadata.get("labels"), child(path, "template.metadata.labels"))
    yield from _annotation_keys(metadata.get("annotations"), child(path, "template.metadata.annotations"))
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind) or ()):
            yield from _resources(container.get("resources"), child(path, f"template.spec.{kind}", i, "resources"))
    yield from _resources(spec.get("resources"), child(path, "template.spec.resources"))
    yield from _slices(pod_set.get("topologyRequest") or {}, child(path, "topologyRequest"))


def _resources(resources: Fields | None, path: str) -> Iterator[FieldError]:
    for kind in ("requests", "limits"):
        for name, value in ((resources or {}).get(kind) or {}).items():
            place = keyed(child(path, kind), name)
            if name == "pods":
                yield invalid(place, name, "the key is reserved for internal kueue use")
            yield from not_negative(quantity(value), place)


def _slices(request: Fields, path: str) -> Iterator[FieldError]:
    size = request.get("podSetSliceSize")
    if request.get("podSetSliceRequiredTopology") is not None:
        if size is None:
            yield required(child(path, "podSetSliceSize"), "must be set when podSetSliceRequiredTopology is specified")
        elif size <= 0:
            yield invalid(child(path, "podSetSliceSize"), size, "must be greater than 0")
    elif size is not None:
        yield forbidden(
            child(path, "podSetSliceSize"), "may not be set when podSetSliceRequiredTopology is not specified"
        )
    for i, constraint in enumerate(request.get("podsetSliceRequiredTopologyConstraints") or ()):
        if constraint["size"] <= 0:
            place = child(path, "podsetSliceRequiredTopologyConstraints", i, "size")
            yield invalid(place, constraint["size"], "must be greater than 0")


def _admission(obj: Fields, old: Fields | None) -> Iterator[FieldError]:
    admission = _status(obj).get("admission")
    if admission is None:
        if old is None or not (is_reserved(old) and _status(old).get("admission") is None):
            yield required("status.admission", "must be set while the QuotaReserved condition is true")
        return
    names = {pod_set["name"] for pod_set in _pod_sets(obj)}
    for i, assignment in enumerate(admission.get("podSetAssignments") or ()):
        path = child("status.admission.podSetAssignments", i)
        if assignment["name"] not in names:
            yield not_found(child(path, "name"), assignment["name"])
        count = assignment.get("count") or 0
        for name, used in (assignment.get("resourceUsage") or {}).items() if count else ():
            amount = quantity(used)
            if (amount.milli if name == "cpu" else amount.value) % count:
                yield invalid(keyed(child(path, "resourceUsage"), name), str(amount), f"is not a multiple of {count}")


def _conditions(conditions: Sequence[Fields]) -> Iterator[FieldError]:
    """The schema has checked lengths and values; this is what Kubernetes' own check of conditions adds."""
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        path = child("status.conditions", i)
        if condition["type"] in seen:
            yield duplicate(child(path, "type"), condition["type"])
        seen.add(condition["type"])
        yield from (invalid(child(path, "type"), condition["type"], t) for t in qualified_messages(condition["type"]))


def _reclaimable(obj: Fields, old: Fields | None) -> Iterator[FieldError]:
    counts = {pod_set["name"]: pod_set.get("count", 1) for pod_set in _pod_sets(obj)}
    # An elastic job that was scaled down carries its old numbers for a while.
    stale = _reclaimable_counts(old) if old is not None and is_elastic(obj) else {}
    for entry in _status(obj).get("reclaimablePods") or ():
        name, count = entry["name"], entry["count"]
        path = keyed("status.reclaimablePods", name)
        if name not in counts:
            yield not_supported(child(path, "name"), name, list(counts))
        elif count > counts[name] and stale.get(name) != count:
            yield invalid(child(path, "count"), count, f"should be less or equal to {counts[name]}")


def _pod_set_updates(check: Fields, obj: Fields, path: str) -> Iterator[FieldError]:
    names = sorted(pod_set["name"] for pod_set in _pod_sets(obj))
    for i, update in enumerate(check.get("podSetUpdates") or ()):
        place = child(path, i)
        if update["name"] not in names:
            yield not_supported(child(place, "name"), update["name"], names)
        yield from tolerations(update.get("tolerations") or (), child(place, "tolerations"))
        yield from _annotation_keys(update.get("annotations"), child(place, "annotations"))
        yield from labels(update.get("nodeSelector"), child(place, "nodeSelector"))
        yield from labels(update.get("labels"), child(place, "labels"))


def _annotation_keys(annotations: Mapping[str, str] | None, path: str) -> Iterator[FieldError]:
    size = 0
    for key, value in sorted((annotations or {}).items()):
        size += len(key.encode()) + len(value.encode())
        yield from (invalid(path, key, text) for text in is_qualified_name(key.lower()))
    if size > _ANNOTATIONS_LIMIT:
        yield too_long(path, _ANNOTATIONS_LIMIT)


def _gates(value: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for gate in _split(value):
        if not gate:
            yield invalid(_GATES_PATH, value, "cannot contain empty gate names")
            continue
        if gate in seen:
            yield invalid(_GATES_PATH, value, f"duplicate gate name: {gate}")
            continue
        seen.add(gate)
        yield from _domain_prefixed(gate)
        if len(gate) > _GATE_LIMIT:
            yield too_long(_GATES_PATH, _GATE_LIMIT)


def _domain_prefixed(gate: str) -> Iterator[FieldError]:
    host, _, path = gate.partition("/")
    if not host or not path:
        yield invalid(_GATES_PATH, gate, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from (invalid(_GATES_PATH, host, text) for text in is_dns1123_subdomain(host))
    if not _HTTP_PATH.fullmatch(path):
        yield invalid(_GATES_PATH, path, f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')")


# -- updates ----------------------------------------------------------------------------------------------------------


def _update(obj: Fields, old: Fields) -> Iterator[FieldError]:
    if is_reserved(old):
        yield from _same_pod_sets(_pod_sets(obj), _pod_sets(old))
        if is_reserved(obj):
            yield from _reclaimable_update(obj, old)
    yield from _same_admission(_status(obj).get("admission"), _status(old).get("admission"))
    yield from _same_ready_updates(obj, old)
    yield from _cluster_name(obj, old)
    yield from _gates_update(_annotations(obj).get(GATED_BY, ""), _annotations(old).get(GATED_BY, ""))


def _same_pod_sets(new: Sequence[Fields], old: Sequence[Fields]) -> Iterator[FieldError]:
    """Pod sets stay as they were admitted, except that they may shrink."""
    if len(new) != len(old):
        yield invalid("spec.podSets", new, IMMUTABLE)
        return
    for i, (pod_set, before) in enumerate(zip(new, old, strict=True)):
        shrunk = pod_set.get("count", 1) < before.get("count", 1)
        allowed = {**before, "count": pod_set.get("count", 1)} if shrunk else before
        if pod_set != allowed and _plain(pod_set) != _plain(allowed):
            yield invalid(f"spec.podSets.{i}", pod_set, IMMUTABLE)


def _reclaimable_update(obj: Fields, old: Fields) -> Iterator[FieldError]:
    new, before = _reclaimable_counts(obj), _reclaimable_counts(old)
    if new == before or not before:
        return
    shrunk = _scaled_down(obj)
    for name, count in new.items():
        if count < before.get(name, count) and name not in shrunk:
            path = child(keyed("status.reclaimablePods", name), "count")
            yield invalid(path, count, f"cannot be less than {before[name]}")
    for name in before:
        if name not in new and name not in shrunk:
            yield required(keyed("status.reclaimablePods", name), "cannot be removed")


def _scaled_down(obj: Fields) -> set[str]:
    """The pod sets of an elastic workload that are now smaller than what was admitted."""
    admission = _status(obj).get("admission")
    if admission is None or not is_elastic(obj):
        return set()
    counts = {pod_set["name"]: pod_set.get("count", 1) for pod_set in _pod_sets(obj)}
    return {
        assignment["name"]
        for assignment in admission.get("podSetAssignments") or ()
        if assignment.get("count") is not None and assignment["count"] > counts.get(assignment["name"], 0)
    }


def _same_admission(new: Fields | None, old: Fields | None) -> Iterator[FieldError]:
    """An admission comes and goes as a whole; only topology may be filled in later."""
    if new is None or old is None or new == old:
        return
    if _without_topology(new) != _without_topology(old):
        yield invalid("status.admission", new, IMMUTABLE)


def _without_topology(admission: Fields) -> Any:
    filled_later = {"topologyAssignment", "delayedTopologyRequest"}
    assignments = [
        {key: value for key, value in assignment.items() if key not in filled_later}
        for assignment in admission.get("podSetAssignments") or ()
    ]
    return _plain({"clusterQueue": admission.get("clusterQueue"), "podSetAssignments": assignments})


def _plain(value: Any, *, amounts: bool = False) -> Any:
    """For comparing what is meant: empty is absent, and an amount is an amount however it is spelled."""
    if isinstance(value, Mapping):
        found = {name: _plain(each, amounts=amounts or name in _AMOUNTS) for name, each in value.items()}
        return {name: each for name, each in found.items() if each is not None and each != {} and each != []}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return quantity(value).nano if amounts and isinstance(value, str | int) else value


def _same_ready_updates(obj: Fields, old: Fields) -> Iterator[FieldError]:
    now = {check["name"]: check for check in _status(obj).get("admissionChecks") or ()}
    for i, check in enumerate(_status(old).get("admissionChecks") or ()):
        later = now.get(check["name"])
        if later is None or check.get("state") != "Ready" or later.get("state") != "Ready":
            continue
        if _plain(later.get("podSetUpdates") or []) != _plain(check.get("podSetUpdates") or []):
            path = child("status.admissionChecks", i, "podSetUpdates")
            yield invalid(path, later.get("podSetUpdates"), IMMUTABLE)


def _cluster_name(obj: Fields, old: Fields) -> Iterator[FieldError]:
    if REPLACES in _annotations(obj):
        return
    name = _status(obj).get("clusterName")
    if name is None or _status(old).get("clusterName") is not None:
        return
    if name not in (_status(old).get("nominatedClusterNames") or ()):
        yield invalid(
            "status.clusterName", name, "when setting clusterName it must be one of the nominatedClusterNames"
        )


def _gates_update(new: str, old: str) -> Iterator[FieldError]:
    if new and not old:
        yield forbidden(_GATES_PATH, "cannot add admission gate after creation")
    elif set(_split(new)) - set(_split(old)):
        yield forbidden(_GATES_PATH, "can only remove gates, not add new ones")
    yield from _gates(new)


# -- reading ----------------------------------------------------------------------------------------------------------


def _pod_sets(obj: Fields) -> Sequence[Fields]:
    return (obj.get("spec") or {}).get("podSets") or ()


def _status(obj: Fields) -> Fields:
    return obj.get("status") or {}


def _annotations(obj: Fields) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _reclaimable_counts(obj: Fields) -> dict[str, int]:
    return {entry["name"]: entry["count"] for entry in _status(obj).get("reclaimablePods") or ()}


def _split(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")] if value.strip() else []
