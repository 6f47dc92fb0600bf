"""Which replica set is the deployment's new one, what a replica set carries, and what the status says.

The new replica set is the one whose template is the deployment's; all others are old. Revisions are numbers in
annotations: the new one's is always the highest. The module sizes says how large they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Object
from gpuaas.client.resources import DEPLOYMENTS
from gpuaas.controllers.deployments.sizes import (
    DESIRED,
    MAXIMUM,
    available,
    by_age,
    max_surge,
    max_unavailable,
    new_size,
    wanted,
)
from gpuaas.runtime.metadata import annotations_of, controller_reference
from gpuaas.runtime.values import template_hash, without_zeros

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
NOT_COPIED = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAXIMUM, ROLLBACK_TO}
)
NO_LIMIT = 2**31 - 1
HISTORY_LENGTH = 2000
PROGRESSING, AVAILABLE, FAILURE = "Progressing", "Available", "ReplicaFailure"


def split(deployment: Mapping[str, Any], sets: Sequence[Object]) -> tuple[Object | None, list[Object]]:
    """The new replica set, if there is one, and the old ones."""
    new = next((one for one in by_age(sets) if same_template(one, deployment)), None)
    return new, [one for one in sets if one is not new]


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _bare(one["spec"]["template"]) == _bare(other["spec"]["template"])


def new_replica_set(deployment: Mapping[str, Any], old: Sequence[Object]) -> Object:
    template = deployment["spec"]["template"]
    mark = template_hash(template, (deployment.get("status") or {}).get("collisionCount"))
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: mark}
    selector = deployment["spec"].get("selector") or {}
    marked = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: mark}}
    name = deployment["metadata"]["name"][: 253 - len(mark) - 1]
    spec: Object = {
        "replicas": new_size(deployment, old, 0),
        "selector": marked,
        "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
    }
    if deployment["spec"].get("minReadySeconds"):
        spec["minReadySeconds"] = deployment["spec"]["minReadySeconds"]
    metadata = {
        "name": f"{name}-{mark}",
        "namespace": deployment["metadata"]["namespace"],
        "labels": dict(labels),
        "annotations": {**set_annotations(deployment, {}, next_revision(old)), **size_annotations(deployment)},
        "ownerReferences": [controller_reference(deployment, DEPLOYMENTS)],
    }
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def set_annotations(deployment: Mapping[str, Any], known: Mapping[str, str], revision: int) -> dict[str, str]:
    """The annotations of the new replica set: the deployment's, and a revision that never goes down."""
    copied = {key: value for key, value in annotations_of(deployment).items() if key not in NOT_COPIED}
    annotations = {**known, **copied}
    before = known.get(REVISION, "")
    number = natural(before or "0")
    if number is None:
        return annotations
    if number < revision:
        annotations[REVISION] = str(revision)
        if before:
            annotations[HISTORY] = _history(known.get(HISTORY, ""), before)
    return annotations


def size_annotations(deployment: Mapping[str, Any]) -> dict[str, str]:
    size = wanted(deployment)
    return {DESIRED: str(size), MAXIMUM: str(size + max_surge(deployment))}


def next_revision(old: Sequence[Mapping[str, Any]]) -> int:
    return max(map(revision_of, old), default=0) + 1


def revision_of(one: Mapping[str, Any]) -> int:
    return natural(annotations_of(one).get(REVISION, "")) or 0


def superfluous(deployment: Mapping[str, Any], old: Sequence[Object]) -> list[Object]:
    """Old replica sets beyond the history limit that hold no pods."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == NO_LIMIT:
        return []
    living = [one for one in by_age(old) if not one["metadata"].get("deletionTimestamp")]
    living.sort(key=revision_of)
    oldest = living[: max(0, len(living) - limit)]
    return [one for one in oldest if _is_empty(one)]


def has_deadline(deployment: Mapping[str, Any]) -> bool:
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, NO_LIMIT)


def counts(deployment: Mapping[str, Any], new: Object | None, old: Sequence[Object], now: float) -> Object:
    """The status but for the progress of a rollout."""
    everyone = [*old, *([new] if new else [])]
    statuses = [one.get("status") or {} for one in everyone]
    able = available(everyone)
    known = deployment.get("status") or {}
    status = {
        "observedGeneration": deployment["metadata"].get("generation"),
        "replicas": sum(one.get("replicas", 0) for one in statuses),
        "updatedReplicas": (new.get("status") or {}).get("replicas", 0) if new else 0,
        "readyReplicas": sum(one.get("readyReplicas", 0) for one in statuses),
        "availableReplicas": able,
        "unavailableReplicas": max(0, sum(map(wanted, everyone)) - able),
        "terminatingReplicas": _terminating(statuses),
        "collisionCount": known.get("collisionCount"),
        "conditions": list(known.get("conditions") or ()),
    }
    enough = able >= wanted(deployment) - max_unavailable(deployment)
    set_condition(
        status,
        AVAILABLE,
        "True" if enough else "False",
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "Deployment has minimum availability." if enough else "Deployment does not have minimum availability.",
        now,
    )
    return _tidy(status)


def rollout_status(deployment: Mapping[str, Any], new: Object | None, old: Sequence[Object], now: float) -> Object:
    """The status during a rollout: how it gets on, and what is in its way."""
    status = counts(deployment, new, old, now)
    known = find(deployment.get("status") or {}, PROGRESSING)
    if not has_deadline(deployment):
        drop_condition(status, PROGRESSING)
    elif not _was_complete(status, known):
        _judge_progress(deployment, status, new, known, now)
    failure = _failure([*([new] if new else []), *old])
    if failure is None:
        drop_condition(status, FAILURE)
    else:
        moment = failure["lastTransitionTime"]
        condition = {**failure, "lastUpdateTime": moment}
        _put_condition(status, condition)
    return _tidy(status)


def seconds_to_deadline(deployment: Mapping[str, Any], status: Mapping[str, Any], now: float) -> float | None:
    """When a rollout without news must be looked at again."""
    progressing = find(deployment.get("status") or {}, PROGRESSING)
    if not has_deadline(deployment) or progressing is None or is_complete(deployment, status):
        return None
    if progressing["reason"] == "ProgressDeadlineExceeded":
        return None
    since = parse_rfc3339(progressing["lastUpdateTime"])
    return max(1.0, since + float(deployment["spec"]["progressDeadlineSeconds"]) - now + 1)


def is_complete(deployment: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    size = wanted(deployment)
    sizes = (status.get("updatedReplicas", 0), status.get("replicas", 0), status.get("availableReplicas", 0))
    generation = deployment["metadata"].get("generation", 0)
    return sizes == (size, size, size) and status.get("observedGeneration", 0) >= generation


def find(status: Mapping[str, Any], type: str) -> Object | None:
    return next((one for one in status.get("conditions") or () if one["type"] == type), None)


def set_condition(status: Object, type: str, value: str, reason: str, message: str, now: float) -> None:
    """As the real controller: nothing changes while value and reason are the same."""
    moment = rfc3339(now)
    condition = {
        "type": type,
        "status": value,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }
    _put_condition(status, condition)


def drop_condition(status: Object, type: str) -> None:
    status["conditions"] = [one for one in status.get("conditions") or () if one["type"] != type]


def _put_condition(status: Object, condition: Object) -> None:
    known = find(status, condition["type"])
    if known is not None and known["status"] == condition["status"]:
        if known["reason"] == condition["reason"]:
            return
        condition["lastTransitionTime"] = known["lastTransitionTime"]
    drop_condition(status, condition["type"])
    status["conditions"].append(condition)


def _judge_progress(
    deployment: Mapping[str, Any], status: Object, new: Object | None, known: Object | None, now: float
) -> None:
    what = f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    if is_complete(deployment, status):
        message = f"{what} has successfully progressed."
        set_condition(status, PROGRESSING, "True", "NewReplicaSetAvailable", message, now)
    elif _progresses(deployment.get("status") or {}, status):
        drop_condition(status, PROGRESSING)
        set_condition(status, PROGRESSING, "True", "ReplicaSetUpdated", f"{what} is progressing.", now)
        if known is not None and known["status"] == "True":
            # Progress of a rollout in progress: a new time of update, the old time of transition.
            status["conditions"][-1]["lastTransitionTime"] = known["lastTransitionTime"]
    elif _timed_out(deployment, status, now):
        message = f"{what} has timed out progressing."
        set_condition(status, PROGRESSING, "False", "ProgressDeadlineExceeded", message, now)


def _was_complete(status: Mapping[str, Any], known: Object | None) -> bool:
    all_new = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return all_new and known is not None and known["reason"] == "NewReplicaSetAvailable"


def _progresses(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    def old_replicas(status: Mapping[str, Any]) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    if old_replicas(after) < old_replicas(before):
        return True
    more = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return any(after.get(part, 0) > before.get(part, 0) for part in more)


def _timed_out(deployment: Mapping[str, Any], status: Mapping[str, Any], now: float) -> bool:
    progressing = find(status, PROGRESSING)
    if progressing is None or progressing["reason"] == "NewReplicaSetAvailable":
        return False
    if progressing["reason"] == "ProgressDeadlineExceeded":
        return True
    return parse_rfc3339(progressing["lastUpdateTime"]) + float(deployment["spec"]["progressDeadlineSeconds"]) < now


def _failure(sets: Sequence[Object]) -> Object | None:
    for one in sets:
        failure = find(one.get("status") or {}, FAILURE)
        if failure is not None:
            return failure
    return None


def _terminating(statuses: Sequence[Mapping[str, Any]]) -> int | None:
    total = 0
    for status in statuses:
        if "terminatingReplicas" in status:
            total += status["terminatingReplicas"]
        elif status.get("observedGeneration"):
            return None
    return total


def _tidy(status: Mapping[str, Any]) -> Object:
    tidy = without_zeros(status, "terminatingReplicas", "collisionCount")
    return {key: value for key, value in tidy.items() if value is not None}


def _is_empty(one: Mapping[str, Any]) -> bool:
    status = one.get("status") or {}
    seen = one["metadata"].get("generation", 0) <= status.get("observedGeneration", 0)
    return status.get("replicas", 0) == 0 and wanted(one) == 0 and seen


def _history(history: str, before: str) -> str:
    revisions = [part for part in history.split(",") if part]
    while revisions and len(",".join([*revisions, before])) > HISTORY_LENGTH:
        revisions.pop(0)
    return ",".join([*revisions, before])


def _bare(template: Mapping[str, Any]) -> Object:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}
