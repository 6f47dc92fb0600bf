"""The queue cases: kubectl scripts as in `scripts/`, run on upstream Kueue and on ours over the same nodes.

In them a line `look` stands for everything people look at (`LOOK`), after the controllers have come to rest. Whatever
lies outside a case's namespace bears its label, so that it can be found and cleaned up.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.real import script

FOLDER = Path(__file__).parent / "queues"
FLEET = FOLDER / "fleet.yaml"
_EVENT = "KIND:.involvedObject.kind,NAME:.involvedObject.name,TYPE:.type,REASON:.reason,BY:.reportingComponent,MESSAGE:.message"
_CLUSTER_WIDE = "clusterqueues,cohorts,resourceflavors,workloadpriorityclasses,admissionchecks"
LOOK = (
    "kubectl get workloads",
    "kubectl get localqueues -o wide",
    "kubectl get clusterqueues -o wide -l case=$NS",
    "kubectl get jobs,pods",
    "kubectl get workloads -o yaml",
    "kubectl get localqueues -o yaml",
    "kubectl get clusterqueues -o yaml -l case=$NS",
    "kubectl get jobs -o yaml",
    f"@sorted kubectl get events --no-headers -o custom-columns={_EVENT}",
)
CLEANING = (
    "@quiet kubectl delete jobs,pods,deployments,statefulsets,rayclusters --all --wait=false",
    f"@quiet kubectl delete {_CLUSTER_WIDE} -l case=$NS --wait=false",
)


def load() -> list[script.Case]:
    return [replace(case, lines=_lines(case)) for case in script.load(FOLDER)]


def _lines(case: script.Case) -> tuple[str, ...]:
    spelled = [each for line in case.lines for each in ("@settle", *(LOOK if line == "look" else (line,)))]
    return (*spelled, *CLEANING)
