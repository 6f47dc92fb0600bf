"""Shadow pods: a worker's pod as the hub shows it, without volumes, resources, service account and node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuaas.kueue.integrations import keys
from gpuaas.kueue.multikueue.names import CLUSTER, ELSEWHERE, NODE, ORIGIN

Object = dict[str, Any]
View = Mapping[str, Any]

_UIDS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NOT_SHOWN = frozenset({keys.MANAGED, keys.QUEUE, keys.PREBUILT, keys.GROUP_NAME, ORIGIN, keys.WORKER_POD})
_OF_CONTAINERS = ("name", "image", "imagePullPolicy", "command", "args", "workingDir", "ports")


def is_shadow(pod: View) -> bool:
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(each.get("name") == ELSEWHERE for each in gates)


def shadow_of(pod: View, cluster: str, owner: View) -> Object:
    """`owner`: the reference of the hub's workload to its job, which the shadow belongs to as well."""
    metadata, spec = pod["metadata"], pod["spec"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in _NOT_SHOWN}
    labels |= {key: owner["uid"] for key in _UIDS if key in labels}
    notes = {CLUSTER: cluster, **({NODE: spec["nodeName"]} if spec.get("nodeName") else {})}
    made: Object = {
        "containers": [_container(each) for each in spec["containers"]],
        "restartPolicy": spec.get("restartPolicy", "Always"),
        "schedulingGates": [{"name": ELSEWHERE}],
        "nodeSelector": {CLUSTER: cluster},
        "automountServiceAccountToken": False,
    }
    if spec.get("initContainers"):
        made["initContainers"] = [_container(each) for each in spec["initContainers"]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [dict(owner)],
        },
        "spec": made,
    }


def shadow_status(shadow: View, pod: View) -> Object:
    status = dict(pod.get("status") or {})
    status.pop("qosClass", None)
    qos = (shadow.get("status") or {}).get("qosClass")
    return {**status, **({"qosClass": qos} if qos else {})}


def _container(container: View) -> Object:
    return {key: container[key] for key in _OF_CONTAINERS if key in container}
