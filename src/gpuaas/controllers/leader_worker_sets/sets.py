"""What a LeaderWorkerSet wants to be there, as its operator would make it: sets, the service that names their pods, and
the environment that describes its group to each pod (`add_group_environment`). Pure; module controller makes it so.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.numbers import is_digits
from gpuaas.client.protocol import Object, Resource
from gpuaas.runtime.metadata import controller_reference, labels_of
from gpuaas.runtime.pods import is_ready
from gpuaas.runtime.values import template_hash

LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", True, "LeaderWorkerSet")
_POD = Resource("", "v1", "pods", True, "Pod")
_PREFIX = "leaderworkerset.sigs.k8s.io"
NAME, GROUP, WORKER = f"{_PREFIX}/name", f"{_PREFIX}/group-index", f"{_PREFIX}/worker-index"
GROUP_KEY, REVISION = f"{_PREFIX}/group-key", f"{_PREFIX}/template-revision-hash"
SIZE, LEADER_NAME, REPLICAS = f"{_PREFIX}/size", f"{_PREFIX}/leader-name", f"{_PREFIX}/replicas"

View = Mapping[str, Any]


def size_of(obj: View) -> int:
    size = obj["spec"]["leaderWorkerTemplate"].get("size")
    return 1 if size is None else int(size)


def replicas_of(obj: View) -> int:
    replicas = obj["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def revision_of(obj: View) -> str:
    return template_hash(obj["spec"]["leaderWorkerTemplate"])


def leaders(obj: View) -> Object:
    """The set of all leaders; it has the name of the whole."""
    metadata, template = obj["metadata"], obj["spec"]["leaderWorkerTemplate"]
    labels = {NAME: metadata["name"], REVISION: revision_of(obj)}
    pod = template.get("leaderTemplate") or template["workerTemplate"]
    spec = {
        "serviceName": metadata["name"],
        "replicas": replicas_of(obj),
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {NAME: metadata["name"], WORKER: "0"}},
        "template": _with(pod, {**labels, WORKER: "0"}, {SIZE: str(size_of(obj))}),
    }
    made = _set(metadata["name"], obj, labels, spec, controller_reference(obj, LEADER_WORKER_SETS))
    made["metadata"]["annotations"] = {REPLICAS: str(replicas_of(obj))}
    return made


def workers(obj: View, leader: View) -> Object:
    """The set of one leader's workers; it has the leader's name and goes with it."""
    metadata, name = obj["metadata"], leader["metadata"]["name"]
    known = {key: labels_of(leader).get(key, "") for key in (GROUP, NAME, GROUP_KEY)}
    labels = {**known, REVISION: labels_of(leader).get(REVISION, "")}
    unique = (obj["spec"].get("networkConfig") or {}).get("subdomainPolicy") == "UniquePerReplica"
    notes = {SIZE: str(size_of(obj)), LEADER_NAME: name}
    spec = {
        "serviceName": name if unique else metadata["name"],
        "replicas": size_of(obj) - 1,
        "podManagementPolicy": "Parallel",
        "ordinals": {"start": 1},
        "selector": {"matchLabels": known},
        "template": _with(obj["spec"]["leaderWorkerTemplate"]["workerTemplate"], labels, notes),
    }
    return _set(name, obj, labels, spec, controller_reference(leader, _POD))


def _set(name: str, obj: View, labels: Mapping[str, str], spec: Object, owner: Object) -> Object:
    metadata = {"name": name, "namespace": obj["metadata"]["namespace"], "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def _with(template: View, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {**template, "metadata": metadata}


def service(obj: View) -> Object:
    name = obj["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": obj["metadata"]["namespace"],
            "ownerReferences": [controller_reference(obj, LEADER_WORKER_SETS)],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {NAME: name}},
    }


def completed(obj: Object) -> None:
    """What its own webhook fills in before the schema has its say."""
    spec = dict(obj["spec"])
    template = dict(spec.get("leaderWorkerTemplate") or {})
    policy = template.get("restartPolicy") or "RecreateGroupOnPodRestart"
    template["restartPolicy"] = "None" if policy == "Default" else policy
    rollout = dict(spec.get("rolloutStrategy") or {})
    rollout["type"] = rollout.get("type") or "RollingUpdate"
    if rollout.get("rollingUpdateConfiguration") is None:
        rollout["rollingUpdateConfiguration"] = {"maxUnavailable": 1, "maxSurge": 0, "partition": 0}
    network = dict(spec.get("networkConfig") or {})
    network["subdomainPolicy"] = network.get("subdomainPolicy") or "Shared"
    obj["spec"] = {**spec, "leaderWorkerTemplate": template, "rolloutStrategy": rollout, "networkConfig": network}


def add_group_environment(pod: Object) -> None:
    """A new pod of such a set learns its group, its place in it, and where its leader is."""
    metadata, spec = pod["metadata"], pod["spec"]
    labels, notes = dict(metadata.get("labels") or {}), metadata.get("annotations") or {}
    ordinal = metadata.get("name", "").rpartition("-")[2]
    if NAME not in labels or SIZE not in notes or not is_digits(ordinal):
        return
    if labels.get(WORKER) == "0" and LEADER_NAME not in notes:
        where = f"{metadata.get('namespace', '')}/{metadata['name']}"
        labels.setdefault(GROUP, ordinal)
        labels.setdefault(GROUP_KEY, hashlib.sha1(where.encode(), usedforsecurity=False).hexdigest())
    else:
        labels[WORKER] = ordinal
    metadata["labels"] = labels
    leader = f"{labels[NAME]}-{labels.get(GROUP, '')}.{spec.get('subdomain', '')}.{metadata.get('namespace', '')}"
    known = {"LWS_LEADER_ADDRESS": leader, "LWS_GROUP_SIZE": notes[SIZE], "LWS_WORKER_INDEX": labels[WORKER]}
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_with_environment(container, known) for container in spec[part]]


def _with_environment(container: View, known: Mapping[str, str]) -> Object:
    given = list(container.get("env") or ())
    names = {each["name"] for each in given}
    added = [{"name": name, "value": value} for name, value in known.items() if name not in names]
    return {**container, "env": [*added, *given]}


def status(obj: View, groups: Sequence[tuple[View, View | None]], now: str) -> Object:
    """`groups`: each leader with the set of its workers. A group is ready as a whole."""
    size, revision = size_of(obj), revision_of(obj)
    ready = sum(1 for leader, set_of in groups if is_ready(leader) and _ready(set_of) >= size - 1)
    generation = obj["metadata"].get("generation", 1)
    done = ready == replicas_of(obj) == len(groups)
    wanted = {
        "Progressing": (not done, "GroupsProgressing", "Replicas are progressing"),
        "Available": (done, "AllGroupsReady", "All replicas are ready"),
    }
    before = {each["type"]: each for each in (obj.get("status") or {}).get("conditions") or ()}
    conditions = []
    for kind, (holds, reason, message) in wanted.items():
        state = "True" if holds else "False"
        known = before.get(kind)
        since = known["lastTransitionTime"] if known is not None and known["status"] == state else now
        told_of = {"type": kind, "status": state, "reason": reason, "message": message}
        conditions.append({**told_of, "lastTransitionTime": since, "observedGeneration": generation})
    name = obj["metadata"]["name"]
    return {
        "replicas": len(groups),
        "readyReplicas": ready,
        "updatedReplicas": sum(1 for leader, _ in groups if labels_of(leader).get(REVISION) == revision),
        "hpaPodSelector": f"{NAME}={name},{WORKER}=0",
        "observedGeneration": generation,
        "conditions": conditions,
    }


def _ready(set_of: View | None) -> int:
    return int(((set_of or {}).get("status") or {}).get("readyReplicas") or 0)
