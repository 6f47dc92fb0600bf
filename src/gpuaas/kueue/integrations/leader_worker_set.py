"""LeaderWorkerSets: replicas that are a leader with its workers, each of them one workload.

Like a StatefulSet it has no switch to suspend it: its pods are held, and those of one replica join the workload of that
replica as a group (`member`). Module replicated has the rules that all such sets share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuaas.base.fielderrors import FieldError, child
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations import keys, podsets, replicated, rules, topology
from gpuaas.kueue.integrations.integration import Find, Integration
from gpuaas.kueue.integrations.jobs import annotations_of, labels_of, new_workload, owner_reference
from gpuaas.kueue.integrations.names import workload_name

Object = dict[str, Any]
View = Mapping[str, Any]

LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", True, "LeaderWorkerSet")
PREFIX = "leaderworkerset.sigs.k8s.io"
SET_NAME, GROUP_INDEX, WORKER_INDEX = f"{PREFIX}/name", f"{PREFIX}/group-index", f"{PREFIX}/worker-index"
LEADER_NAME = f"{PREFIX}/leader-name"
COMPONENT_INDEX = "kueue.x-k8s.io/component-workload-index"
LEADER, WORKER = "leader", "worker"
_TEMPLATE = "spec.leaderWorkerTemplate"


class LeaderWorkerSets(Integration):
    framework = "leaderworkerset.x-k8s.io/leaderworkerset"
    resource = LEADER_WORKER_SETS
    webhook = "leaderworkerset"


LEADER_WORKER_SET = LeaderWorkerSets()


def size_of(obj: View) -> int:
    size = obj["spec"]["leaderWorkerTemplate"].get("size")
    return 1 if size is None else int(size)


def leader_of(obj: View) -> View | None:
    """The template of its leaders, where they have one of their own."""
    found: View | None = obj["spec"]["leaderWorkerTemplate"].get("leaderTemplate")
    return found


def name_of(obj: View, group: int | str) -> str:
    """Of the workload of one replica."""
    metadata, kind = obj["metadata"], LEADER_WORKER_SETS
    return workload_name(kind.kind, kind.group, f"{metadata['name']}-{group}", metadata.get("uid", ""))


def hold(obj: Object) -> None:
    """Its pods will know their queue, and that they are held."""
    template = dict(obj["spec"]["leaderWorkerTemplate"])
    if template.get("leaderTemplate") is not None:
        template["leaderTemplate"] = _held(obj, template["leaderTemplate"], {})
    asked = annotations_of(template["workerTemplate"]) if template["workerTemplate"].get("metadata") else {}
    offset = {keys.INDEX_OFFSET: "1"} if leader_of(obj) is not None and keys.POD_SET_GROUP not in asked else {}
    template["workerTemplate"] = _held(obj, template["workerTemplate"], offset)
    obj["spec"] = {**obj["spec"], "leaderWorkerTemplate": template}


def _held(obj: View, template: View, more: Mapping[str, str]) -> Object:
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in replicated.pod_labels(obj).items() if key != keys.MANAGED}
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    parent = {keys.SUSPENDING_PARENT: LEADER_WORKER_SET.framework, keys.GROUP_SERVING: "true"}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **parent, **more}
    return {**template, "metadata": metadata}


def pod_sets(obj: View) -> list[Object]:
    leader, workers = leader_of(obj), obj["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    if leader is None:
        return [_pod_set(keys.MAIN, size_of(obj), workers, WORKER_INDEX)]
    return [_pod_set(LEADER, 1, leader, ""), _pod_set(WORKER, size_of(obj) - 1, workers, WORKER_INDEX)]


def _pod_set(name: str, count: int, template: View, index_label: str) -> Object:
    metadata = dict(template.get("metadata") or {})
    for part in ("labels", "annotations"):
        if metadata.get(part):
            metadata[part] = {key: value for key, value in metadata[part].items() if not _is_its_own(key)}
    found: Object = {"name": name, "count": count, "template": {**template, "metadata": metadata}}
    asked = topology.request(template.get("metadata"), index_label=index_label)
    if asked is not None:
        found["topologyRequest"] = asked
    return found


def _is_its_own(key: str) -> bool:
    return key.startswith(PREFIX) and key != SET_NAME


def workload(obj: View, group: int) -> Object:
    made = new_workload(obj, LEADER_WORKER_SETS, podsets.sanitized(pod_sets(obj)))
    metadata = made["metadata"]
    metadata["name"] = name_of(obj, group)
    metadata["ownerReferences"] = [owner_reference(obj, LEADER_WORKER_SETS, controller=False)]
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        keys.IS_GROUP: "true",
        keys.JOB_OWNER_KIND: rules.group_version_kind(LEADER_WORKER_SET),
        keys.JOB_OWNER_NAME: obj["metadata"]["name"],
        COMPONENT_INDEX: str(group),
    }
    return made


def member(pod: View, obj: View, group: str) -> Object:
    """The pod as a member of its replica's group, which has its workload's name."""
    name = name_of(obj, group)
    role = keys.MAIN
    if leader_of(obj) is not None:
        role = WORKER if LEADER_NAME in annotations_of(pod) else LEADER
    annotations = {
        **annotations_of(pod),
        keys.PREBUILT: name,
        keys.GROUP_NAME: name,
        keys.GROUP_TOTAL: str(size_of(obj)),
        keys.ROLE_HASH: role,
    }
    labels = {**labels_of(pod), **replicated.pod_labels(obj)}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations, "labels": labels}}


# At the API.


def create_errors(obj: View) -> list[FieldError]:
    found = replicated.create_errors(LEADER_WORKER_SET, obj)
    parts = {each["name"]: each for each in pod_sets(obj)}
    paths = {}
    for name, part in parts.items():
        path = child(_TEMPLATE, "leaderTemplate" if name == LEADER else "workerTemplate", "metadata")
        paths[name] = child(path, "annotations")
        found += topology.errors(path, part["template"].get("metadata"), part["count"])
    return found or topology.group_errors(list(parts.values()), paths)


def held_update_errors(obj: View, old: View, _: Find) -> list[FieldError]:
    """What a held one may not change: what its workloads were counted with."""
    found: list[FieldError] = []
    for part in ("leaderTemplate", "workerTemplate"):
        after, before = (each["spec"]["leaderWorkerTemplate"].get(part) for each in (obj, old))
        path = child(_TEMPLATE, part)
        if after is None or before is None:
            found += rules.immutable(path, after, before)
        else:
            found += replicated.template_errors(child(path, "spec"), after["spec"], before["spec"])
    return found + rules.immutable(child(_TEMPLATE, "size"), size_of(obj), size_of(old))
