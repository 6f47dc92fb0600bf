"""Plain pods: one alone, or a group that is admitted together. Held by a scheduling gate, stopped by deletion.

A unit is what one workload stands for: `{"metadata": …, "pods": […], "group": NAME}`, where the metadata are the first
pod's and the group is "" for a single pod. Which pods of a group count is `pod_groups`' question.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.numbers import natural
from gpuaas.client.resources import PODS
from gpuaas.kueue.integrations import keys, topology
from gpuaas.kueue.integrations.integration import CannotCompose, Find, Finish, Queueable
from gpuaas.kueue.integrations.jobs import annotations_of, labels_of
from gpuaas.kueue.integrations.podsets import Info, injected

Object = dict[str, Any]
View = Mapping[str, Any]

ENDED = ("Succeeded", "Failed")


def unit(pods: Sequence[Object], group: str = "") -> Object:
    return {"metadata": pods[0]["metadata"], "pods": list(pods), "group": group}


def group_of(pod: View) -> str:
    return annotations_of(pod).get(keys.GROUP_NAME) or labels_of(pod).get(keys.GROUP_NAME, "")


def total_of(pod: View) -> int:
    """How many pods its group has; raises CannotCompose where that is not said."""
    text = annotations_of(pod).get(keys.GROUP_TOTAL)
    if text is None:
        raise CannotCompose(f"failed to extract '{keys.GROUP_TOTAL}' annotation")
    total = natural(text.removeprefix("+"))
    if total is None:
        raise CannotCompose(f'strconv.Atoi: parsing "{text}": invalid syntax')
    if total < 1:
        words = f"incorrect annotation value '{keys.GROUP_TOTAL}={text}'"
        raise CannotCompose(f"{words}: group total count should be greater than zero")
    return total


def is_managed(pod: View) -> bool:
    return labels_of(pod).get(keys.MANAGED) == "true"


def has_gate(pod: View, name: str = keys.ADMISSION_GATE) -> bool:
    return any(gate.get("name") == name for gate in pod["spec"].get("schedulingGates") or ())


def phase_of(pod: View) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def has_ended(pod: View) -> bool:
    return phase_of(pod) in ENDED


def is_suspended(pod: View) -> bool:
    return has_ended(pod) or has_gate(pod)


def is_deleting(pod: View) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_fast(pod: View) -> bool:
    return annotations_of(pod).get(keys.GROUP_FAST) == "true"


def can_run(pod: View) -> bool:
    """It runs, has succeeded, or may still run; not once it failed, or is deleted before it has a node."""
    if is_deleting(pod) and not pod["spec"].get("nodeName"):
        return False
    return phase_of(pod) != "Failed"


def is_ready(pod: View) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def holds_quota(pod: View, now: float) -> bool:
    """It runs, and if it is going its time to go is not over: one stuck on a lost node does not count."""
    if phase_of(pod) != "Running":
        return False
    metadata = pod["metadata"]
    grace = metadata.get("deletionGracePeriodSeconds")
    if not metadata.get("deletionTimestamp") or grace is None:
        return True
    return now <= parse_rfc3339(metadata["deletionTimestamp"]) + float(grace)


def started(pod: View, info: Info) -> Object:
    """The pod without its gate and with what it was given."""
    changed = injected({"metadata": pod["metadata"], "spec": pod["spec"]}, info)
    placed = any(gate["name"] == keys.TOPOLOGY_GATE for gate in info.gates)
    spec = dict(changed["spec"])
    gone = (keys.ADMISSION_GATE,) if placed else (keys.ADMISSION_GATE, keys.TOPOLOGY_GATE)
    left = [gate for gate in spec.get("schedulingGates") or () if gate["name"] not in gone]
    spec.pop("schedulingGates", None)
    if left:
        spec["schedulingGates"] = left
    return {**pod, "metadata": changed["metadata"], "spec": spec}


def role_of(pod: View) -> str:
    """Pods of one role are alike in all that matters for admission."""
    return annotations_of(pod).get(keys.ROLE_HASH) or role_hash(pod["spec"])


def role_hash(spec: View) -> str:
    """As upstream computes it: of JSON in which maps are sorted, and what Go has as structs is in their order."""
    shape = dict(sorted(shape_of(spec).items()))
    for key in ("containers", "initContainers"):
        shape[key] = shape[key] and [
            {"ports": _in_order(each["ports"], _PORT), "resources": each["resources"]} for each in shape[key]
        ]
    shape["tolerations"] = _in_order(shape["tolerations"], _TOLERATION)
    text = json.dumps({"spec": shape}, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


_PORT = ("name", "hostPort", "containerPort", "protocol", "hostIP")
_TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")


def _in_order(items: Sequence[View] | None, fields: Sequence[str]) -> list[Object] | None:
    return [{key: each[key] for key in fields if key in each} for each in items] if items else None


def shape_of(spec: View) -> Object:
    plain = ("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority", "topologySpreadConstraints")
    shape: Object = {key: spec.get(key) for key in (*plain, "overhead", "resourceClaims")}
    for key in ("initContainers", "containers"):
        shape[key] = [
            {
                "resources": {"requests": _sorted((each.get("resources") or {}).get("requests"))},
                "ports": each.get("ports"),
            }
            for each in spec.get(key) or ()
        ] or None
    if spec.get("resources") is not None:
        shape["resources"] = spec["resources"].get("requests")
    return shape


def _sorted(amounts: View | None) -> Object | None:
    return None if amounts is None else dict(sorted(amounts.items()))


def pod_set_of(pod: View, name: str = keys.MAIN, count: int = 1) -> Object:
    found: Object = {"name": name, "count": count, "template": {"spec": dict(pod["spec"])}}
    asked = topology.request(pod["metadata"], index_label=keys.GROUP_POD_INDEX)
    if asked is not None:
        found["topologyRequest"] = asked
    return found


def group_pod_sets(pods: Sequence[View]) -> list[Object]:
    """One pod set a role, by its hash."""
    able = [pod for pod in pods if can_run(pod)]
    counts = Counter(role_of(pod) for pod in able)
    first = {role_of(pod): pod for pod in reversed(able)}
    return [pod_set_of(first[role], role, counts[role]) for role in sorted(counts)]


class Pods(Queueable):
    """Over units."""

    framework = "pod"
    resource = PODS
    webhook = "pod"

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def pod_sets(self, job: View, find: Find) -> list[Object]:
        pods = job["pods"]
        if not job["group"]:
            return [pod_set_of(pods[0])]
        if not is_fast(pods[0]):
            return group_pod_sets(pods)
        able = next((pod for pod in pods if can_run(pod)), None)
        if able is None:
            raise CannotCompose("failed to find a runnable pod in the group")
        return [pod_set_of(able, role_of(able), total_of(pods[0]))]

    def is_suspended(self, job: View) -> bool:
        return any(map(is_suspended, job["pods"])) if "pods" in job else is_suspended(job)

    def is_active(self, job: View) -> bool:
        """A single pod never holds its quota longer than its workload; a group does while any pod runs."""
        return bool(job["group"]) and any(holds_quota(pod, self.now) for pod in job["pods"])

    def finished(self, job: View) -> Finish | None:
        pods = job["pods"]
        if not job["group"]:
            ended = pods[0] if has_ended(pods[0]) else None
            status = (ended or {}).get("status") or {}
            return None if ended is None else Finish(status.get("message", ""), status["phase"] == "Succeeded")
        if annotations_of(pods[0]).get(keys.GROUP_SERVING) == "true":
            return None
        try:
            total = total_of(pods[0])
        except CannotCompose:
            return None
        succeeded = sum(phase_of(pod) == "Succeeded" for pod in pods)
        given_up = any(annotations_of(pod).get(keys.RETRIABLE) == "false" for pod in pods)
        if succeeded == total or (given_up and all(map(has_ended, pods))):
            return Finish(f"Pods succeeded: {succeeded}/{total}.", True)
        return None

    def pods_ready(self, job: View) -> bool:
        pods = job["pods"]
        if job["group"]:
            try:
                if len(pods) < total_of(pods[0]):
                    return False
            except CannotCompose:
                return False
        return all(map(is_ready, pods))

    def reclaimable(self, job: View, find: Find) -> dict[str, int]:
        pods = job["pods"]
        if not job["group"] or annotations_of(pods[0]).get(keys.GROUP_SERVING) == "true":
            return {}
        return dict(Counter(role_of(pod) for pod in pods if phase_of(pod) == "Succeeded"))
