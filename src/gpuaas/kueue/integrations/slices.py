"""Elastic jobs: which workload stands for a job that grows and shrinks while it runs, and which of its pods may go.

Each time such a job grows, a workload of the new size, a slice, replaces the one before; both live until the new one
holds its quota. Shrinking happens in place. All slices of a chain share the name of the first, and their pods carry it.
What a replacement costs is `engine.slices`'s question; the loops are in gpuaas.controllers.integrations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.jobs import annotations_of, labels_of
from gpuaas.kueue.integrations.outcome import REPLACED, eviction_of, is_finished, is_reserved
from gpuaas.kueue.integrations.pods import has_ended, has_gate

Object = dict[str, Any]
View = Mapping[str, Any]

OUT_OF_SYNC = "OutOfSync"
_REPLACED_WORDS = "Replaced to accommodate a new workload slice"
_LEFT_BEHIND = "The workload slice is out of sync with its parent job"
_PROVISIONED = ("autoscaling.x-k8s.io/consume-provisioning-request", "autoscaling.x-k8s.io/provisioning-class-name")
"""Annotations that, once a pod has them, stay as they are."""


@dataclass(frozen=True, slots=True)
class Chain:
    current: Object | None
    """The one that says what the job says, or comes closest; None: none of them will do."""
    holder: Object | None
    """The one whose quota the job's pods run on, if any."""
    over: tuple[tuple[Object, str, str], ...] = ()
    """Those that have no part in it any more: (workload, reason, words)."""


def slice_name(workload: View) -> str:
    return annotations_of(workload).get(keys.SLICE_NAME) or str(workload["metadata"]["name"])


def chain_of(workloads: Sequence[Object]) -> Chain:
    """What to make of the slices of one job that are not finished: one holds quota, and at most one waits to replace it.

    One that is being evicted has lost; where it is the only one, its job's controller sees it out.
    """
    live = in_order(workloads)
    holder = _holder(live)
    if len(live) < 2:
        return Chain(live[0] if live else None, holder)
    replacements = _replacements(live)
    current = _current(live, holder, replacements)
    over = tuple(
        (each, REPLACED, _REPLACED_WORDS) if _key(each) in replacements else (each, OUT_OF_SYNC, _LEFT_BEHIND)
        for each in live
        if each is not current and each is not holder
    )
    return Chain(current, holder, over)


def _current(live: list[Object], holder: Object | None, replacements: Mapping[str, Object]) -> Object | None:
    if holder is None:
        return next((each for each in reversed(live) if eviction_of(each) is None), None)
    waiting = replacements.get(_key(holder))
    return holder if waiting is None or is_reserved(waiting) else waiting


def in_order(workloads: Sequence[Object]) -> list[Object]:
    """Those not finished, the oldest first."""
    live = [each for each in workloads if not is_finished(each)]
    return sorted(live, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["uid"]))


def _holder(live: list[Object]) -> Object | None:
    """The newest that holds quota and is not on its way out, at the head of its chain."""
    replacements = _replacements(live)
    found = None
    for each in live:
        after = replacements.get(_key(each))
        if eviction_of(each) is None and is_reserved(each) and (after is None or not is_reserved(after)):
            found = each
    return found


def _replacements(live: Sequence[Object]) -> dict[str, Object]:
    """Who replaces whom. Where two claim the same, the one that holds quota is right."""
    found: dict[str, Object] = {}
    for each in live:
        key = annotations_of(each).get(keys.REPLACES)
        if key and eviction_of(each) is None and (key not in found or not is_reserved(found[key])):
            found[key] = each if key not in found or is_reserved(each) else found[key]
    return found


def _key(workload: View) -> str:
    return f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"


def linked(workload: Object, live: Sequence[Object]) -> Object:
    """A new slice, marked as such, that continues the chain of the one there is."""
    metadata = workload["metadata"]
    notes = {**annotations_of(workload), keys.ELASTIC: "true", keys.SLICE_NAME: metadata["name"]}
    if live:
        notes |= {keys.REPLACES: _key(live[0]), keys.SLICE_NAME: slice_name(live[0])}
    return {**workload, "metadata": {**metadata, "annotations": notes}}


# Sizes.


def sizes_of(pod_sets: Sequence[View]) -> dict[str, int]:
    return {each.get("name", keys.MAIN): each.get("count", 1) for each in pod_sets}


def resized(workload: View, sizes: Mapping[str, int]) -> Object:
    spec = workload["spec"]
    pod_sets = [{**each, "count": sizes[each.get("name", keys.MAIN)]} for each in spec.get("podSets") or ()]
    return {**workload, "spec": {**spec, "podSets": pod_sets}}


def only_shrinks(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return before != after and all(after[name] <= count for name, count in before.items())


# Pods.


def gated(template: View) -> Object:
    """The pod template whose pods wait until their slice is admitted."""
    spec = template.get("spec") or {}
    gates = spec.get("schedulingGates") or []
    if any(gate.get("name") == keys.ELASTIC for gate in gates):
        return dict(template)
    return {**template, "spec": {**spec, "schedulingGates": [*gates, {"name": keys.ELASTIC}]}}


def is_gated(template: View) -> bool:
    return has_gate({"spec": (template or {}).get("spec") or {}}, keys.ELASTIC)


def may_go(workload: View, pods: Sequence[Object], gone: Collection[str]) -> list[tuple[Object, Object]]:
    """Pods of the chain and what they become, as many as the admitted slice has room for, those first by name.

    `gone`: uids of those that were let go already, whatever they look like.
    """
    room = sizes_of(workload["spec"].get("podSets") or ())
    waiting: list[Object] = []
    for pod in pods:
        if has_ended(pod):
            continue
        if has_gate(pod, keys.ELASTIC) and pod["metadata"]["uid"] not in gone:
            waiting.append(pod)
        else:
            name = labels_of(pod).get(keys.POD_SET, "")
            room[name] = room.get(name, 0) - 1
    found = []
    for pod in sorted(waiting, key=lambda each: str(each["metadata"]["name"])):
        name = labels_of(pod).get(keys.POD_SET, "")
        ready = _let_go(pod, workload, name) if room.get(name, 0) > 0 else None
        if ready is not None:
            room[name] -= 1
            found.append((pod, ready))
    return found


def _let_go(pod: Object, workload: View, pod_set: str) -> Object | None:
    """Without its gate and with what admission checks add since; None if that contradicts what it has."""
    notes, selector = dict(annotations_of(pod)), dict(pod["spec"].get("nodeSelector") or {})
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        for update in check.get("podSetUpdates") or ():
            if update.get("name") != pod_set:
                continue
            added = {key: value for key, value in (update.get("annotations") or {}).items() if key in _PROVISIONED}
            for target, more in ((notes, added), (selector, update.get("nodeSelector") or {})):
                if any(target.get(key, value) != value for key, value in more.items()):
                    return None
                target |= more
    gates = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != keys.ELASTIC]
    spec = {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}
    spec |= {"schedulingGates": gates} if gates else {}
    spec |= {"nodeSelector": selector} if selector else {}
    metadata = {**pod["metadata"], "annotations": notes} if notes else pod["metadata"]
    return {**pod, "metadata": metadata, "spec": spec}
