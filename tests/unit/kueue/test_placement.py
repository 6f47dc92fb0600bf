"""What is read of places: which pods take room on their own account, and whether a workload needs a second look."""

from typing import Any

import pytest

from gpuaas.engine.changes import OtherUsage
from gpuaas.kueue.topology_assignment import needs_second_look, others_on_nodes

PLACED = {"kueue.x-k8s.io/podset-required-topology": "rack"}


def pod(cpu: str, node: str = "n1", phase: str = "Running", notes: dict[str, str] | None = None) -> dict[str, Any]:
    containers = [{"resources": {"requests": {"cpu": cpu}}}]
    spec = {"containers": containers, **({"nodeName": node} if node else {})}
    return {"metadata": {"annotations": notes or {}}, "spec": spec, "status": {"phase": phase}}


def test_only_pods_that_are_there_and_were_not_placed_take_room() -> None:
    pods = [
        pod("1"),
        pod("500m"),
        pod("2", node="n2"),
        pod("4", node=""),
        pod("8", phase="Succeeded"),
        pod("16", notes=PLACED),
    ]
    assert list(others_on_nodes(pods)) == [
        OtherUsage("n1", (("cpu", 1500), ("pods", 2))),
        OtherUsage("n2", (("cpu", 2000), ("pods", 1))),
    ]


def workload(*true: str, **status: Any) -> dict[str, Any]:
    slices = [{"domainCount": 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 1}}]
    placed = {"topologyAssignment": {"levels": ["kubernetes.io/hostname"], "slices": slices}}
    given = {"name": "main", **({"delayedTopologyRequest": "Pending"} if status.pop("later", False) else placed)}
    conditions = [{"type": each, "status": "True"} for each in ("QuotaReserved", *true)]
    whole = {"admission": {"podSetAssignments": [given]}, "conditions": conditions, **status}
    return {"metadata": {"name": "w"}, "spec": {}, "status": whole}


READY = [{"name": "c", "state": "Ready"}]


@pytest.mark.parametrize(
    ("found", "needed"),
    [
        (workload("Admitted"), False),
        (workload("Admitted", unhealthyNodes=[{"name": "n1"}]), True),
        (workload("Admitted", unhealthyNodes=[{"name": "n2"}]), False),
        (workload(unhealthyNodes=[{"name": "n1"}]), False),
        (workload("Admitted", "Evicted", unhealthyNodes=[{"name": "n1"}]), False),
        (workload("Admitted", "Finished", unhealthyNodes=[{"name": "n1"}]), False),
        (workload(later=True, admissionChecks=READY), True),
        (workload(later=True, admissionChecks=[*READY, {"name": "d", "state": "Pending"}]), False),
        (workload(admissionChecks=READY), False),
        ({"metadata": {"name": "w"}, "spec": {}}, False),
    ],
    ids=[
        "all is well",
        "a node of its failed",
        "a node it is not on failed",
        "not admitted yet",
        "on its way out",
        "done",
        "places are left for later and the checks are ready",
        "not all of them",
        "nothing is left for later",
        "nothing is known of it",
    ],
)
def test_who_needs_a_second_look(found: dict[str, Any], needed: bool) -> None:
    assert needs_second_look(found) is needed
