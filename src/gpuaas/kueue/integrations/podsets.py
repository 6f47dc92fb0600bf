"""Pod sets of jobs: what a start adds to their pod templates, what a stop takes back, and when two are the same.

`Info` is everything a start may set; `from_admission` reads it from an admitted workload and the flavors it was given,
`from_pod_set` from the template as the job had it. Templates are never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuaas.base.names import is_dns1123_label
from gpuaas.base.quantity import parse_quantity
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.keys import MULTIKUEUE_ORIGIN, WORKER_POD
from gpuaas.kueue.workload_state import conditions_of, is_true

Object = dict[str, Any]
View = Mapping[str, Any]
Flavors = Callable[[str], View | None]
"""A ResourceFlavor by its name."""


class CannotStart(Exception):
    """What is to be injected contradicts the job; waiting will not help."""


class FlavorMissing(Exception):
    """An assigned flavor is not there (yet)."""


@dataclass(frozen=True, slots=True)
class Info:
    name: str
    count: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[View] = ()
    gates: Sequence[View] = ()


def from_pod_set(pod_set: View) -> Info:
    """The template as the job had it before anything was added."""
    template = pod_set.get("template") or {}
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    return Info(
        pod_set.get("name", keys.MAIN),
        pod_set.get("count", 1),
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
        spec.get("nodeSelector") or {},
        spec.get("tolerations") or (),
        spec.get("schedulingGates") or (),
    )


def originals(workload: View | None) -> list[Info]:
    return [] if workload is None else [from_pod_set(each) for each in workload["spec"].get("podSets") or ()]


def from_admission(workload: View, flavors: Flavors) -> list[Info]:
    """What the admitted workload's pods get: selectors and tolerations of its flavors, labels, and what checks add."""
    status = workload.get("status") or {}
    assignments = (status.get("admission") or {}).get("podSetAssignments") or ()
    pod_sets = {each.get("name", keys.MAIN): each for each in workload["spec"].get("podSets") or ()}
    found = []
    for assignment in assignments:
        pod_set = pod_sets.get(assignment.get("name", keys.MAIN)) or {}
        info = _given(workload, assignment, pod_set, flavors)
        for check in status.get("admissionChecks") or ():
            info = _with_updates(info, check)
        found.append(info)
    return found


def from_assignment(assignment: View, pod_set: View, flavors: Flavors) -> Info:
    """What the pods of an assignment get of their flavors and their topology."""
    selector: dict[str, str] = {}
    tolerations: list[View] = []
    for name in dict.fromkeys((assignment.get("flavors") or {}).values()):
        flavor = flavors(name)
        if flavor is None:
            raise FlavorMissing(f'resourceflavors.kueue.x-k8s.io "{name}" not found')
        spec = flavor.get("spec") or {}
        selector |= spec.get("nodeLabels") or {}
        tolerations += spec.get("tolerations") or ()
    annotations: dict[str, str] = {}
    gates: list[View] = []
    if assignment.get("topologyAssignment"):
        gates.append({"name": keys.TOPOLOGY_GATE})
        request = pod_set.get("topologyRequest") or {}
        if not any(part in request for part in ("required", "preferred", "unconstrained")):
            annotations[keys.UNCONSTRAINED_TOPOLOGY] = "true"
    count = assignment.get("count", pod_set.get("count", 1))
    return Info(assignment.get("name", keys.MAIN), count, {}, annotations, selector, tolerations, gates)


def _given(workload: View, assignment: View, pod_set: View, flavors: Flavors) -> Info:
    annotations = {keys.WORKLOAD: workload["metadata"]["name"]}
    notes = workload["metadata"].get("annotations") or {}
    if notes.get(keys.ELASTIC) == "true":
        annotations[keys.SLICE_NAME] = notes.get(keys.SLICE_NAME) or annotations[keys.WORKLOAD]
    labels = {keys.POD_SET: assignment.get("name", keys.MAIN), keys.LOCAL_QUEUE: workload["spec"].get("queueName", "")}
    if MULTIKUEUE_ORIGIN in (workload["metadata"].get("labels") or {}):
        labels[WORKER_POD] = "true"
    cluster_queue = workload["status"]["admission"]["clusterQueue"]
    if not is_dns1123_label(cluster_queue):
        labels[keys.CLUSTER_QUEUE] = cluster_queue
    info = from_assignment(assignment, pod_set, flavors)
    annotations |= info.annotations
    return Info(info.name, info.count, labels, annotations, info.node_selector, info.tolerations, info.gates)


def _with_updates(info: Info, check: View) -> Info:
    for update in check.get("podSetUpdates") or ():
        if update.get("name") == info.name:
            more = Info(
                info.name,
                info.count,
                update.get("labels") or {},
                update.get("annotations") or {},
                update.get("nodeSelector") or {},
                update.get("tolerations") or (),
            )
            try:
                return _merged(info, more)
            except CannotStart as error:
                raise CannotStart(f'in admission check "{check["name"]}": {error}') from error
    return info


def _merged(one: Info, more: Info) -> Info:
    return Info(
        one.name,
        one.count,
        _joined("labels", one.labels, more.labels),
        _joined("annotations", one.annotations, more.annotations),
        _joined("nodeSelector", one.node_selector, more.node_selector),
        _united(one.tolerations, more.tolerations),
        _united(one.gates, more.gates),
    )


def _united(one: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    known = set(map(_hashable, one))
    return [*one, *(each for each in more if _hashable(each) not in known)]


def _hashable(entry: Any) -> Any:
    return tuple(sorted(entry.items())) if isinstance(entry, Mapping) else entry


def _joined(what: str, one: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    for key in sorted(one):
        if key in more and one[key] != more[key]:
            raise CannotStart(
                f"invalid admission check PodSetUpdate: conflict for {what}: "
                f"conflict for key={key}, value1={one[key]}, value2={more[key]}"
            )
    return {**one, **more}


def injected(template: View, info: Info) -> Object:
    """The pod template with everything the start adds."""
    before = from_pod_set({"template": template})
    if keys.SLICE_NAME in info.annotations:  # an elastic job starts again with what an earlier slice has left there
        ours = {keys.SLICE_NAME, keys.WORKLOAD}
        before = replace(before, annotations={k: v for k, v in before.annotations.items() if k not in ours})
    return _with(template, _merged(before, info))


def restored(template: View, info: Info) -> Object:
    """The pod template as it was."""
    return _with(template, info)


def _with(template: View, info: Info) -> Object:
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    for target, key, value in (
        (metadata, "labels", dict(info.labels)),
        (metadata, "annotations", dict(info.annotations)),
        (spec, "nodeSelector", dict(info.node_selector)),
        (spec, "tolerations", list(info.tolerations)),
        (spec, "schedulingGates", list(info.gates)),
    ):
        if value:
            target[key] = value
        else:
            target.pop(key, None)
    changed = {**template, "spec": spec}
    if metadata or "metadata" in template:
        changed["metadata"] = metadata
    return changed


def expect(infos: Sequence[Info], number: int) -> None:
    if len(infos) != number:
        raise CannotStart(f"invalid podset infos: expecting {number} podset, got {len(infos)}")


def sanitized(pod_sets: Iterable[View]) -> list[Object]:
    """Of variables set twice only the last counts, in the place of the first."""
    return [_sanitized(each) for each in pod_sets]


def _sanitized(pod_set: View) -> Object:
    spec = (pod_set.get("template") or {}).get("spec") or {}
    changed = {
        key: [_without_repeats(container) for container in spec[key]]
        for key in ("containers", "initContainers")
        if spec.get(key)
    }
    return {**pod_set, "template": {**pod_set["template"], "spec": {**spec, **changed}}}


def _without_repeats(container: Object) -> Object:
    variables = container.get("env")
    if not variables:
        return container
    last = {each["name"]: each for each in variables}
    return container if len(last) == len(variables) else {**container, "env": list(last.values())}


# When a job and its workload speak of the same pods.


def running(workload: View, flavors: Flavors) -> list[Object] | None:
    """The pod sets as they run; None while nothing is reserved, or where they cannot run."""
    if not is_true(conditions_of(workload).get("QuotaReserved")):
        return None
    try:
        infos = {info.name: info for info in from_admission(workload, flavors)}
        found = []
        for pod_set in workload["spec"].get("podSets") or ():
            info = infos.get(pod_set.get("name", keys.MAIN))
            if info is None:
                return None
            changed = {**pod_set, "template": injected(pod_set["template"], info)}
            if pod_set.get("minCount") is not None:
                changed["count"] = info.count
            found.append(changed)
    except (CannotStart, FlavorMissing):
        return None
    return found


def spelled(pod_set: View) -> Object:
    """As a workload has it: metadata even where there are none, and amounts as Kubernetes writes them."""
    template = pod_set.get("template") or {}
    spec = dict(template.get("spec") or {})
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_spelled_container(each) for each in spec[kind]]
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value not in ({}, None)}
    return {**pod_set, "template": {**template, "metadata": metadata, "spec": spec}}


def _spelled_container(container: View) -> Object:
    resources = container.get("resources") or {}
    if not any(resources.get(kind) for kind in ("requests", "limits")):
        return dict(container)
    amounts = {
        kind: {name: _spelled(amount) for name, amount in resources[kind].items()}
        for kind in ("requests", "limits")
        if resources.get(kind)
    }
    return {**container, "resources": {**resources, **amounts}}


def _spelled(amount: Any) -> Any:
    try:
        return str(parse_quantity(amount))
    except (TypeError, ValueError):
        return amount  # validation reports what is wrong


def spell_amounts(value: Any) -> Any:
    """The same tree with what containers ask for as Kubernetes writes it: 0.5 cores are "500m"."""
    if isinstance(value, list):
        return [spell_amounts(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: spell_amounts(each) for key, each in value.items()}
    for key in ("resources", "resourcesPerNode"):
        if isinstance(made.get(key), dict):
            made[key] = {kind: _spelled_amounts(kind, found) for kind, found in made[key].items()}
    return made


def _spelled_amounts(kind: str, found: Any) -> Any:
    if kind not in ("requests", "limits") or not isinstance(found, dict):
        return found
    return {name: _spelled(amount) for name, amount in found.items()}


def same(one: Sequence[View], other: Sequence[View], *, tolerations: bool = True) -> bool:
    """Whether counts and containers are the same; admitted workloads may differ in tolerations."""
    return len(one) == len(other) and all(
        _same_pod_set(a, b, tolerations=tolerations) for a, b in zip(one, other, strict=True)
    )


def _same_pod_set(one: View, other: View, *, tolerations: bool) -> bool:
    if one.get("count", 1) != other.get("count", 1) or one.get("minCount") != other.get("minCount"):
        return False
    specs = [(each.get("template") or {}).get("spec") or {} for each in (one, other)]
    fields = ("initContainers", "containers", *(("tolerations",) if tolerations else ()))
    return all(means_the_same(specs[0].get(name), specs[1].get(name)) for name in fields)


def means_the_same(one: Any, other: Any, *, amounts: bool = False) -> bool:
    """Equal but for what is empty or absent, and for the way amounts are written."""
    if one == other or (not one and not other and not isinstance(one, bool) and not isinstance(other, bool)):
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(
            means_the_same(one.get(key), other.get(key), amounts=amounts or key in ("requests", "limits"))
            for key in {*one, *other}
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(means_the_same, one, other))
    if amounts and one is not None and other is not None:
        try:
            return parse_quantity(str(one)) == parse_quantity(str(other))
        except ValueError:
            return False
    return False
