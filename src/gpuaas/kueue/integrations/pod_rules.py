"""What pods are refused for, and what a held pod gets when it is made.

Beyond upstream's rules two of ours: the admission gate goes only when the pod's workload is admitted, and a managed
pod stays managed. Without them a user who may edit a pod could start it past its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, keyed, required
from gpuaas.base.quantity import parse_quantity
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.resources import PODS
from gpuaas.kueue.integrations import keys, outcome, rules, topology
from gpuaas.kueue.integrations.integration import CannotCompose, Find
from gpuaas.kueue.integrations.jobs import annotations_of, labels_of, prebuilt_of
from gpuaas.kueue.integrations.names import workload_name
from gpuaas.kueue.integrations.pods import Pods, group_of, has_ended, has_gate, role_of, total_of
from gpuaas.kueue.integrations.rules import ANNOTATIONS, LABELS

Object = dict[str, Any]
View = Mapping[str, Any]

_KIND = Pods()


def hold(pod: Object, *, by_parent: bool) -> None:
    """Gates a new pod. One that a parent answers for needs no finalizer: the parent's controller sees it go."""
    metadata, spec = pod["metadata"], pod["spec"]
    if not by_parent:
        metadata["labels"] = {**(metadata.get("labels") or {}), keys.MANAGED: "true"}
        metadata["finalizers"] = list(dict.fromkeys((*(metadata.get("finalizers") or ()), keys.MANAGED)))
    index = annotations_of(pod).get(keys.GROUP_POD_INDEX_LABEL)
    if index is not None:
        labels = metadata.get("labels") or {}
        metadata["labels"] = {**labels, keys.GROUP_POD_INDEX: labels.get(index, "")}
    gates = list(spec.get("schedulingGates") or ())
    for name in (keys.ADMISSION_GATE, keys.TOPOLOGY_GATE):
        if not any(gate.get("name") == name for gate in gates):
            gates.append({"name": name})
    spec["schedulingGates"] = gates
    metadata["annotations"] = {**(metadata.get("annotations") or {}), keys.ROLE_HASH: role_of(pod)}


def create_errors(pod: View) -> list[FieldError]:
    return [*rules.create_errors(_KIND, pod), *_errors(pod)]


def update_errors(pod: View, old: View, find: Find, *, default_queue: bool) -> list[FieldError]:
    found = rules.update_errors(_KIND, pod, old, default_queue=default_queue)
    found += _errors(pod)
    if group_of(pod) and annotations_of(old).get(keys.RETRIABLE) == "false" != annotations_of(pod).get(keys.RETRIABLE):
        path = keyed(ANNOTATIONS, keys.RETRIABLE)
        found.append(forbidden(path, "unretriable pod group can't be converted to retriable"))
    if group_of(old):
        found += rules.immutable(_group_path(pod), group_of(pod), group_of(old))
    return found + _escapes(pod, old, find)


def resize_errors(pod: View, old: View) -> list[FieldError]:
    """A pod that was admitted keeps to what it was admitted with."""
    found = []
    for key in ("containers", "initContainers"):
        before = {each["name"]: _requests(each) for each in old["spec"].get(key) or ()}
        for index, each in enumerate(pod["spec"].get(key) or ()):
            for name, amount in _requests(each).items():
                if amount > before.get(each["name"], {}).get(name, 0):
                    path = child("spec", key, index, "resources", "requests")
                    found.append(forbidden(keyed(path, name), "may not grow once admitted by Kueue"))
    return found


def _requests(container: View) -> dict[str, int]:
    resources = container.get("resources") or {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(amount).nano for name, amount in merged.items()}


def warning(pod: View, *, owner_managed: bool) -> str:
    if labels_of(pod).get(keys.MANAGED) != "true" or not owner_managed:
        return ""
    return f"pod owner is managed by kueue, label '{keys.MANAGED}=true' might lead to unexpected behaviour"


def _errors(pod: View) -> list[FieldError]:
    found: list[FieldError] = []
    if labels_of(pod).get(keys.MANAGED, "true") != "true":
        found.append(forbidden(keyed(LABELS, keys.MANAGED), "managed label value can only be 'true'"))
    found += _group_errors(pod)
    found += topology.errors("metadata", pod["metadata"])
    prebuilt, group = prebuilt_of(pod), group_of(pod)
    if group and prebuilt and prebuilt != group:
        words = "prebuilt workload and pod group should be equal"
        found.append(invalid(rules.prebuilt_path(pod), prebuilt, words))
    return found


def _group_errors(pod: View) -> list[FieldError]:
    total, group = annotations_of(pod).get(keys.GROUP_TOTAL), group_of(pod)
    by = "annotation" if annotations_of(pod).get(keys.GROUP_NAME) else "label"
    words = f"both the '{keys.GROUP_TOTAL}' annotation and the '{keys.GROUP_NAME}' {by} should be set"
    total_path = keyed(ANNOTATIONS, keys.GROUP_TOTAL)
    if not group:
        return [] if total is None else [required(_group_path(pod), words)]
    where = (annotations_of(pod), ANNOTATIONS) if by == "annotation" else (labels_of(pod), LABELS)
    found = rules.name_errors(*where, keys.GROUP_NAME)
    if total is None:
        return [*found, required(total_path, words)]
    try:
        total_of(pod)
    except CannotCompose as error:
        found.append(invalid(total_path, total, str(error)))
    return found


def _escapes(pod: View, old: View, find: Find) -> list[FieldError]:
    found: list[FieldError] = []
    if labels_of(old).get(keys.MANAGED) == "true" and not has_ended(old):
        found += rules.immutable(keyed(LABELS, keys.MANAGED), labels_of(pod).get(keys.MANAGED, ""), "true")
    if has_gate(old) and not has_gate(pod) and not _is_admitted(old, find):
        words = f"the gate '{keys.ADMISSION_GATE}' is removed when the workload of the pod is admitted"
        found.append(forbidden("spec.schedulingGates", words))
    return found


def _is_admitted(pod: View, find: Find) -> bool:
    metadata = pod["metadata"]
    alone = workload_name(PODS.kind, PODS.group, metadata["name"], metadata.get("uid", ""))
    workload = find(WORKLOADS, metadata["namespace"], prebuilt_of(pod) or group_of(pod) or alone)
    if workload is None or not outcome.is_admitted(workload) or outcome.eviction_of(workload) is not None:
        return False
    return any(each.get("uid") == metadata.get("uid") for each in workload["metadata"].get("ownerReferences") or ())


def _group_path(pod: View) -> str:
    return keyed(ANNOTATIONS if annotations_of(pod).get(keys.GROUP_NAME) else LABELS, keys.GROUP_NAME)
