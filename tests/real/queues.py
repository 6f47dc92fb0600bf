"""The queue cases: kubectl scripts as in `scripts/`, run on upstream Kueue and on ours over the same nodes.

In them a line `look` stands for everything people look at (`LOOK`), after the controllers have come to rest. Whatever
lies outside a case's namespace bears its label, so that it can be found and cleaned up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.real import cluster, nodes, script, sides

FOLDER = Path(__file__).parent / "queues"
FLEET = FOLDER / "fleet.yaml"
DIFFERENCES = FOLDER / "differences.toml"
_EVENT = "KIND:.involvedObject.kind,NAME:.involvedObject.name,TYPE:.type,REASON:.reason,BY:.reportingComponent,MESSAGE:.message"
_CLUSTER_WIDE = "clusterqueues,cohorts,resourceflavors,workloadpriorityclasses,admissionchecks"
LOOK = (
    "kubectl get workloads,localqueues,jobs,pods",
    "kubectl get clusterqueues -o wide -l case=$NS",
    "kubectl get workloads,localqueues,jobs -o json | ./tidy",
    "kubectl get clusterqueues,cohorts -l case=$NS -o json | ./tidy",
    # Nobody starts containers on kwok's nodes, so nobody tells of it; among equal nodes the scheduler takes any.
    f"@sorted kubectl get events --no-headers -o custom-columns={_EVENT} | grep -v '  kubelet  ' | sed 's/ to .*-[01]$/ to a node/; s/ was [0-9]*s/ was <age>/' | sort -u",
)
# How often an object was written, how many seconds something took, in which order conditions and owners came: all of
# that is a matter of moments.
TIDY = """#!/usr/bin/env python3
import json, sys

def tidy(value):
    if isinstance(value, list):
        return [tidy(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: tidy(each) for name, each in value.items() if name not in ("resourceVersion", "managedFields")}
    if isinstance(made.get("conditions"), list):
        made["conditions"].sort(key=lambda each: each["type"])
    if isinstance(made.get("ownerReferences"), list):
        made["ownerReferences"].sort(key=lambda each: each["name"])
    if "accumulatedPastExecutionTimeSeconds" in made:
        made["accumulatedPastExecutionTimeSeconds"] = "<seconds>"
    return made

print(json.dumps(tidy(json.load(sys.stdin)), indent=1, sort_keys=True))
"""
CLEANING = (
    "@quiet kubectl delete jobs,pods,deployments,statefulsets,rayclusters --all --wait=false",
    f"@quiet kubectl delete {_CLUSTER_WIDE} -l case=$NS --wait=false",
)


def load() -> list[script.Case]:
    tools = {"tidy": TIDY}
    return [replace(case, lines=_lines(case), files=case.files | tools, strict=True) for case in script.load(FOLDER)]


def _lines(case: script.Case) -> tuple[str, ...]:
    spelled = [each for line in case.lines for each in ("@settle", *(LOOK if line == "look" else (line,)))]
    return (*spelled, *CLEANING)


@contextlib.contextmanager
def real_side(name: str = "real") -> Iterator[sides.Side]:
    with cluster.real_cluster() as made:
        nodes.add_nodes(made.side, FLEET.read_text())
        side = sides.Side(name, made.kubeconfig, queues=True)
        try:
            yield side
        finally:
            side.close()


@contextlib.contextmanager
def our_side(name: str = "ours") -> Iterator[sides.Side]:
    with sides.our_side(name, FLEET.read_text(), queues=True) as side:
        yield side
