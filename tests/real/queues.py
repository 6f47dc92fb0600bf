"""The queue cases: kubectl scripts as in `scripts/`, run on upstream Kueue and on ours over the same nodes.

In them a line `look` stands for everything people look at (`LOOK`), after the controllers have come to rest; `look
queued` for what the queues have to do with it, `look slices` where a job has several workloads. Whatever lies outside a
case's namespace bears its label, so that it can be found and cleaned up. The small programs in `tools` write objects,
and belong to every case. The cases in `configured` want both sides told something else than the defaults (`SETTINGS`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from tests.real import cluster, nodes, script, sides

FOLDER = Path(__file__).parent / "queues"
CONFIGURED = FOLDER / "configured"
SETTINGS = CONFIGURED / "kueue.yaml"
TOOLS = FOLDER / "tools"
FLEET = FOLDER / "fleet.yaml"
DIFFERENCES = FOLDER / "differences.toml"
_EVENT = "KIND:.involvedObject.kind,NAME:.involvedObject.name,TYPE:.type,REASON:.reason,BY:.reportingComponent,MESSAGE:.message"
_CLUSTER_WIDE = "clusterqueues,cohorts,resourceflavors,workloadpriorityclasses,admissionchecks,provisioningrequestconfigs,topologies"
_EVENTS = f"@sorted kubectl get events --no-headers -o custom-columns={_EVENT}"
_AGES = "s/ was [0-9]*s/ was <age>/"
_QUEUES = (
    "kubectl get clusterqueues -o wide -l case=$NS",
    "kubectl get clusterqueues,cohorts -l case=$NS -o json | ./tidy",
)
LOOKS = {
    "look": (
        "kubectl get workloads,localqueues,jobs,pods",
        "kubectl get workloads,localqueues,jobs -o json | ./tidy",
        *_QUEUES,
        # Nobody starts containers on kwok's nodes, so nobody tells of it; among equal nodes the scheduler takes any.
        f"{_EVENTS} | grep -v '  kubelet  ' | sed 's/ to .*-[01]$/ to a node/; {_AGES}' | sort -u",
    ),
    "look queued": (
        "kubectl get workloads,localqueues",
        "kubectl get workloads,localqueues -o json | ./tidy",
        *_QUEUES,
        f"{_EVENTS} | grep 'kueue' | sed '{_AGES}' | sort -u",
    ),
    # The slices of one job differ only in what was made up for them: the smaller first.
    "look slices": (
        "kubectl get workloads --sort-by={.spec.podSets[0].count}",
        "kubectl get workloads --sort-by={.spec.podSets[0].count} -o json | ./tidy",
        "@sorted kubectl get pods --no-headers",
        "kubectl get localqueues,jobs -o json | ./tidy",
        *_QUEUES,
        f"{_EVENTS} | grep 'kueue' | sed '{_AGES}' | sort -u",
    ),
}
# How often an object was written, how many seconds something took, in which order conditions and owners came: all of
# that is a matter of moments. So is whether the last pods that were done are told as done before the whole job is, and
# whether who deactivates a workload, as upstream does twice at times, comes back to say that it is going to.
TIDY = """#!/usr/bin/env python3
import json, sys

def tidy(value):
    if isinstance(value, list):
        return [tidy(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: tidy(each) for name, each in value.items() if name not in ("resourceVersion", "managedFields")}
    if made.get("kind") == "Workload" and "spec" in made:
        ended(made)
    if isinstance(made.get("conditions"), list):
        made["conditions"].sort(key=lambda each: each["type"])
    if isinstance(made.get("ownerReferences"), list):
        made["ownerReferences"].sort(key=lambda each: each["name"])
    if "accumulatedPastExecutionTimeSeconds" in made:
        made["accumulatedPastExecutionTimeSeconds"] = "<seconds>"
    return made

def ended(workload):
    status = workload.get("status", {})
    conditions = status.get("conditions", [])
    if any(each["type"] == "Finished" and each["status"] == "True" for each in conditions):
        status.pop("reclaimablePods", None)
    if not workload["spec"].get("active", True):
        conditions[:] = [each for each in conditions if each["type"] != "DeactivationTarget"]

print(json.dumps(tidy(json.load(sys.stdin)), indent=1, sort_keys=True))
"""
CLEANING = (
    "@quiet kubectl delete jobs,jobsets,trainjobs,rayjobs,pods,deployments,statefulsets,rayclusters --all --wait=false",
    "@quiet kubectl delete pytorchjobs,tfjobs,xgboostjobs,paddlejobs,jaxjobs,mpijobs --all --wait=false",
    "@quiet kubectl delete workloads --all --wait=false",  # upstream keeps the pods of a group as long as it is there
    f"@quiet kubectl delete {_CLUSTER_WIDE} -l case=$NS --wait=false",
)


def load(folder: Path = FOLDER) -> list[script.Case]:
    return [spelled(case) for case in script.load(folder)]


def spelled(case: script.Case) -> script.Case:
    """With what its looks stand for, the tools, and the cleaning up."""
    tools = {"tidy": TIDY} | {file.name: file.read_text() for file in TOOLS.iterdir()}
    return replace(case, lines=_lines(case), files=tools | case.files, strict=True)


def _lines(case: script.Case) -> tuple[str, ...]:
    spelled = [each for line in case.lines for each in ("@settle", *LOOKS.get(line, (line,)))]
    return (*spelled, *CLEANING)


def settings() -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load(SETTINGS.read_text())
    return told


@contextlib.contextmanager
def real_side(name: str = "real", told: dict[str, Any] | None = None) -> Iterator[sides.Side]:
    with cluster.real_cluster(told) as made:
        nodes.add_nodes(made.side, FLEET.read_text())
        side = sides.Side(name, made.kubeconfig, queues=True)
        try:
            yield side
        finally:
            side.close()


@contextlib.contextmanager
def our_side(name: str = "ours", told: dict[str, Any] | None = None) -> Iterator[sides.Side]:
    with sides.our_side(name, FLEET.read_text(), queues=True, told=told) as side:
        yield side
