"""Deployments and StatefulSets: they have no switch to suspend them, so their pods are held instead.

A Deployment's pods are single pods, each with a workload of its own. A StatefulSet's are one group, served together:
its workload is made by the set (`stateful_set_workload`), its pods join it by name (`member`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.base.fielderrors import FieldError, child, forbidden
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.resources import DEPLOYMENTS, STATEFUL_SETS
from gpuaas.kueue.integrations import keys, outcome, podsets, rules, topology
from gpuaas.kueue.integrations.integration import Find, Integration
from gpuaas.kueue.integrations.jobs import (
    annotations_of,
    labels_of,
    new_workload,
    owner_reference,
    priority_class_of,
    queue_of,
)
from gpuaas.kueue.integrations.names import workload_name
from gpuaas.kueue.integrations.pods import shape_of

Object = dict[str, Any]
View = Mapping[str, Any]

POD_INDEX = "apps.kubernetes.io/pod-index"


class Deployments(Integration):
    framework = "deployment"
    resource = DEPLOYMENTS
    webhook = "deployment"


class StatefulSets(Integration):
    framework = "statefulset"
    resource = STATEFUL_SETS
    webhook = "statefulset"


DEPLOYMENT, STATEFUL_SET = Deployments(), StatefulSets()


def hold_deployment(obj: Object) -> None:
    """Its pods will know their queue, and that they are held."""
    template = obj["spec"]["template"]
    metadata = template.setdefault("metadata", {})
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {**annotations, keys.SUSPENDING_PARENT: DEPLOYMENT.framework}
    metadata["labels"] = {**(metadata.get("labels") or {}), **pod_labels(obj)}


def hold_stateful_set(obj: Object) -> None:
    metadata = obj["spec"]["template"].setdefault("metadata", {})
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {**annotations, keys.SUSPENDING_PARENT: STATEFUL_SET.framework}


def pod_labels(parent: View) -> dict[str, str]:
    labels = {keys.MANAGED: "true"}
    if queue_of(parent):
        labels[keys.QUEUE] = queue_of(parent)
    if priority_class_of(parent):
        labels[keys.PRIORITY_CLASS] = priority_class_of(parent)
    return labels


def belongs_to_others(stateful_set: View) -> bool:
    """Another integration answers for its pods."""
    metadata = stateful_set["spec"]["template"].get("metadata") or {}
    parent = (metadata.get("annotations") or {}).get(keys.SUSPENDING_PARENT)
    return parent is not None and parent != STATEFUL_SET.framework


def workload_name_of(stateful_set: View, find: Callable[[str], View | None] = lambda _: None) -> str:
    """Where there is only one under the name that Kueue gave until 0.17, which another set could come to have: that."""
    metadata = stateful_set["metadata"]
    uid = metadata.get("uid", "")
    origin = annotations_of(stateful_set).get(keys.ORIGIN_UID)
    if origin and keys.MULTIKUEUE_ORIGIN in labels_of(stateful_set):
        return workload_name(STATEFUL_SETS.kind, STATEFUL_SETS.group, metadata["name"], origin)
    name, older = (workload_name(STATEFUL_SETS.kind, STATEFUL_SETS.group, metadata["name"], each) for each in (uid, ""))
    if find(name) is not None:
        return name
    found = find(older)
    owners = {each.get("uid") for each in (found or {}).get("metadata", {}).get("ownerReferences") or ()}
    return older if found is not None and owners <= {uid} else name


def replicas_of(obj: View) -> int:
    replicas = obj["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def stateful_set_workload(obj: View) -> Object:
    template = obj["spec"]["template"]
    pod_set: Object = {"name": keys.MAIN, "count": replicas_of(obj), "template": {"spec": dict(template["spec"])}}
    asked = topology.request(template.get("metadata"), index_label=POD_INDEX)
    if asked is not None:
        pod_set["topologyRequest"] = asked
    workload = new_workload(obj, STATEFUL_SETS, podsets.sanitized([pod_set]))
    metadata = workload["metadata"]
    metadata["ownerReferences"] = [owner_reference(obj, STATEFUL_SETS, controller=False)]
    metadata["annotations"] = {**metadata.get("annotations", {}), **owner_notes(obj)}
    return workload


def owner_notes(obj: View) -> dict[str, str]:
    return {
        keys.IS_GROUP: "true",
        keys.JOB_OWNER_KIND: rules.group_version_kind(STATEFUL_SET),
        keys.JOB_OWNER_NAME: obj["metadata"]["name"],
    }


def member(pod: View, stateful_set: View, name: str) -> Object:
    """The pod as a member of its set's group, which has its workload's name."""
    metadata = pod["metadata"]
    annotations = {
        **annotations_of(pod),
        keys.PREBUILT: name,
        keys.GROUP_NAME: name,
        keys.GROUP_TOTAL: str(replicas_of(stateful_set)),
        keys.GROUP_FAST: "true",
        keys.GROUP_SERVING: "true",
        keys.GROUP_POD_INDEX_LABEL: POD_INDEX,
        keys.ROLE_HASH: keys.MAIN,
    }
    labels = {**labels_of(pod), **pod_labels(stateful_set)}
    return {**pod, "metadata": {**metadata, "annotations": annotations, "labels": labels}}


# At the API.


def create_errors(kind: Integration, obj: View) -> list[FieldError]:
    return [
        *rules.name_errors(labels_of(obj), rules.LABELS, keys.QUEUE),
        *rules.elastic_errors(kind, obj),
        *rules.gate_errors(obj),
    ]


def update_errors(kind: Integration, obj: View, old: View) -> list[FieldError]:
    found = [*rules.name_errors(labels_of(obj), rules.LABELS, keys.QUEUE), *rules.elastic_errors(kind, obj)]
    idle = not (old.get("status") or {}).get("readyReplicas")
    if not idle or not queue_of(obj):
        found += rules.immutable(rules.QUEUE_PATH, queue_of(obj), queue_of(old))
    found += rules.priority_update(obj, old, suspended=idle)
    return found + rules.gate_update_errors(obj, old)


def held_update_errors(obj: View, old: View, find: Find) -> list[FieldError]:
    """What a held StatefulSet may not change: what its workload was counted with. It scales to zero and back."""
    found = template_errors("spec.template.spec", *(each["spec"]["template"]["spec"] for each in (obj, old)))
    before, after = replicas_of(old), replicas_of(obj)
    if before and after:
        return found + rules.immutable("spec.replicas", obj["spec"].get("replicas"), old["spec"].get("replicas"))
    if before == 0 and after > 0:
        if (old.get("status") or {}).get("replicas"):
            return [*found, forbidden("spec.replicas", "scaling down is still in progress")]
        namespace = old["metadata"]["namespace"]
        name = workload_name_of(old, lambda each: find(WORKLOADS, namespace, each))
        workload = find(WORKLOADS, namespace, name)
        if workload is not None and not outcome.is_on_hold(workload):
            words = "workload from previous scale-down is still being deleted"
            found.append(forbidden("spec.replicas", words))
    return found


def template_errors(path: str, after: View, before: View) -> list[FieldError]:
    return _shape_errors(path, shape_of(after), shape_of(before))


def _shape_errors(path: str, after: Any, before: Any) -> list[FieldError]:
    match after, before:
        case dict(), dict():
            return [
                error
                for key in sorted({*after, *before})
                for error in _shape_errors(child(path, key), after.get(key), before.get(key))
            ]
        case list(), list() if len(after) == len(before) and all(isinstance(each, dict) for each in after):
            return [
                error
                for index, (a, b) in enumerate(zip(after, before, strict=True))
                for error in _shape_errors(child(path, index), a, b)
            ]
    return [] if podsets.means_the_same(after, before, amounts=True) else rules.immutable(path, after, before)
