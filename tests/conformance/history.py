"""What a cluster went through, revision by revision, read from its store's file; and what must hold at each of them.

`History.read` may be called again and again while the server is down or up: it takes what was added. `Rules` is told of
every change in order and notes where quota was over-committed, a job ran twice at a time, or a node held more than it
has. The arithmetic here is written anew, on plain objects: it must not share a mistake with the product.

A workload that is being evicted does not count: Kueue gives the room of a cycle's victims away before they have left.
Their pods count all the same, on the nodes.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

GPU = "nvidia.com/gpu"
Object = dict[str, Any]


@dataclass
class History:
    path: Path
    revision: int = 0

    def read(self) -> Iterator[tuple[int, str, Object | None]]:
        """Revision, key and object (None: deleted) of everything written since the last call."""
        with sqlite3.connect(f"file:{self.path}?mode=ro", uri=True) as db:
            compacted = dict(db.execute("SELECT name, value FROM meta")).get("compacted", 0)
            assert compacted <= self.revision, f"history up to {compacted} is gone, read only up to {self.revision}"
            rows = db.execute(
                "SELECT revision, key, event, bytes FROM log WHERE revision > ? ORDER BY revision", (self.revision,)
            )
            for revision, key, event, raw in rows:
                self.revision = revision
                yield revision, key, None if event == 1 else json.loads(raw)
        db.close()


@dataclass
class Rules:
    nominal: dict[str, int] = field(default_factory=dict)
    limit: dict[str, int] = field(default_factory=dict)
    cohort: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    held: dict[str, tuple[str, int]] = field(default_factory=dict)  # workload -> queue, GPUs
    placed: dict[str, tuple[str, str, int, bool]] = field(default_factory=dict)  # pod -> job, node, GPUs, has begun
    used: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by queue, by cohort, by node
    runs: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by job
    most_held: int = 0
    preempted: int = 0
    changes: int = 0
    broken: list[str] = field(default_factory=list)

    def hear(self, revision: int, key: str, obj: Object | None) -> None:
        self.changes += 1
        match key.split("/")[:2]:
            case ["kueue.x-k8s.io", "workloads"]:
                self._workload(revision, key, obj)
            case ["", "pods"]:
                self._pod(revision, key, obj)
            case ["kueue.x-k8s.io", "clusterqueues"] if obj is not None:
                self._queue(obj)
            case ["", "nodes"] if obj is not None:
                self.capacity[obj["metadata"]["name"]] = _gpus(obj["status"].get("allocatable") or {})

    def _queue(self, obj: Any) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        resource = spec["resourceGroups"][0]["flavors"][0]["resources"][0]
        self.nominal[name] = _number(resource["nominalQuota"])
        self.limit[name] = self.nominal[name] + _number(resource.get("borrowingLimit", 0))
        self.cohort[name] = spec.get("cohortName", "")

    def _workload(self, revision: int, key: str, obj: Object | None) -> None:
        before = self.held.pop(key, None)
        if before is not None:
            self.used[before[0]] -= before[1]
            self.preempted += obj is not None and _condition(obj, "Preempted")
        now = _holds(obj)
        if now is None:
            return
        self.held[key] = now
        queue, gpus = now
        self.used[queue] += gpus
        self.most_held = max(self.most_held, len(self.held))
        if self.used[queue] > self.limit[queue]:
            self.broken.append(f"revision {revision}: {queue} uses {self.used[queue]} of {self.limit[queue]}")
        peers = [name for name, cohort in self.cohort.items() if cohort == self.cohort[queue]]
        total, quota = sum(self.used[name] for name in peers), sum(self.nominal[name] for name in peers)
        if total > quota:
            self.broken.append(f"revision {revision}: cohort {self.cohort[queue]} uses {total} of {quota}")

    def _pod(self, revision: int, key: str, obj: Object | None) -> None:
        before = self.placed.pop(key, None)
        if before is not None:
            job, node, gpus, running = before
            self.used[f"node {node}"] -= gpus
            self.runs[job] -= running
        now = _runs(obj)
        if now is None:
            return
        self.placed[key] = now
        job, node, gpus, running = now
        self.used[f"node {node}"] += gpus
        self.runs[job] += running
        if self.runs[job] > 1:
            self.broken.append(f"revision {revision}: job {job} runs {self.runs[job]} times at once")
        if self.used[f"node {node}"] > self.capacity[node]:
            self.broken.append(f"revision {revision}: {node} holds {self.used[f'node {node}']} GPUs")


def _holds(obj: Object | None) -> tuple[str, int] | None:
    """The queue and the GPUs a workload holds quota for, until it is asked to leave."""
    if obj is None or not _condition(obj, "QuotaReserved") or _condition(obj, "Finished") or _condition(obj, "Evicted"):
        return None
    given = obj["status"]["admission"]
    done = {each["name"]: each["count"] for each in obj["status"].get("reclaimablePods") or ()}
    total = sum(
        _gpus(each["resourceUsage"]) * (each["count"] - done.get(each["name"], 0)) // each["count"]
        for each in given["podSetAssignments"]
    )  # pods that are done give theirs back
    return given["clusterQueue"], total


def _runs(obj: Object | None) -> tuple[str, str, int, bool] | None:
    """The job, the node and the GPUs of a pod that is on a node and has not ended; and whether it has begun."""
    node = obj["spec"].get("nodeName") if obj is not None else None
    if obj is None or not node or obj["status"].get("phase") in ("Succeeded", "Failed"):
        return None
    owner = (obj["metadata"].get("ownerReferences") or [{"uid": obj["metadata"]["uid"]}])[0]["uid"]
    gpus = sum(_gpus((each.get("resources") or {}).get("requests") or {}) for each in obj["spec"]["containers"])
    return owner, node, gpus, obj["status"].get("phase") == "Running"


def _condition(obj: Any, name: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == name and each["status"] == "True" for each in conditions)


def _gpus(amounts: Object) -> int:
    return _number(amounts.get(GPU, 0))


def _number(said: Any) -> int:
    found = Fraction(str(said))
    assert found.denominator == 1
    return found.numerator
