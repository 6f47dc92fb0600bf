"""Where jobs' pods are: the nodes of pods, found from what the job or its Workload is called.

A pod belongs to its owners, to what owns those (a ReplicaSet's Deployment), and to the Workload its annotation names.
Reading walks from a family of uids down to the pods, so it costs what that job has and not what the cluster has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

View = Mapping[str, Any]
_WORKLOAD = "kueue.x-k8s.io/workload"
_Key = tuple[str, ...]
_K = TypeVar("_K")


class Places:
    def __init__(self) -> None:
        self._pods: dict[_Key, tuple[str, _Key]] = {}  # the node, and all that a family can name it by
        self._pods_below: dict[str, dict[_Key, None]] = {}
        self._owned: dict[_Key, tuple[str, _Key]] = {}  # what stands between: its uid and its owners'
        self._below: dict[str, dict[str, None]] = {}

    def pod_changed(self, namespace: str, name: str, pod: View | None) -> None:
        key = (namespace, name)
        _, names = self._pods.pop(key, ("", ()))
        for each in names:
            _drop(self._pods_below, each, key)
        node = ((pod or {}).get("spec") or {}).get("nodeName")
        if pod is None or not node:
            return
        meta = pod["metadata"]
        workload = (meta.get("annotations") or {}).get(_WORKLOAD)
        names = (meta["uid"], *owner_uids(pod), *((f"{namespace}/{workload}",) if workload else ()))
        self._pods[key] = (node, names)
        for each in names:
            self._pods_below.setdefault(each, {})[key] = None

    def owner_changed(self, kind: str, namespace: str, name: str, obj: View | None) -> None:
        """Of what stands between jobs and pods. What has no owner itself leads nowhere and is not kept."""
        key = (kind, namespace, name)
        uid, above = self._owned.pop(key, ("", ()))
        for each in above:
            _drop(self._below, each, uid)
        if obj is None or not (owners := owner_uids(obj)):
            return
        uid = obj["metadata"]["uid"]
        self._owned[key] = (uid, owners)
        for each in owners:
            self._below.setdefault(each, {})[uid] = None

    def nodes_of(self, family: Iterable[str]) -> list[str]:
        reached: set[str] = set()
        walking, nodes = list(family), set[str]()
        while walking:
            uid = walking.pop()
            if uid in reached:
                continue
            reached.add(uid)
            walking += self._below.get(uid, ())
            nodes.update(self._pods[key][0] for key in self._pods_below.get(uid, ()))
        return sorted(nodes)


def owner_uids(obj: View) -> tuple[str, ...]:
    return tuple(each["uid"] for each in obj["metadata"].get("ownerReferences") or ())


def _drop(index: dict[str, dict[_K, None]], name: str, key: _K) -> None:
    bucket = index.get(name)
    if bucket is not None:
        bucket.pop(key, None)
        if not bucket:
            del index[name]
