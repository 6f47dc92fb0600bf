"""Who counts as waiting in the statuses of queues, and who does not."""

from typing import Any

import pytest

from gpuaas.kueue.usage_counts import Tally, share_of


def workload(
    *conditions: tuple[str, str, str], annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    told = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    metadata = {"name": "w", "namespace": "team", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"queueName": "main", **spec}, "status": {"conditions": told}}


@pytest.mark.parametrize(
    ("obj", "pending"),
    [
        pytest.param(workload(), 1, id="nobody has looked at it yet"),
        pytest.param(workload(("QuotaReserved", "False", "Pending")), 1, id="it does not fit"),
        pytest.param(workload(("QuotaReserved", "False", "OnHold")), 0, id="its set has no replicas for now"),
        pytest.param(workload(("WaitingForReplacementPods", "True", "X")), 0, id="its pods have to be replaced first"),
        pytest.param(workload(annotations={"kueue.x-k8s.io/admission-gated-by": "x"}), 0, id="somebody holds the gate"),
        pytest.param(workload(active=False), 0, id="it is switched off"),
        pytest.param(workload(("Finished", "True", "Succeeded")), 0, id="it is over"),
    ],
)
def test_only_who_may_be_admitted_waits(obj: dict[str, Any], pending: int) -> None:
    tally = Tally()
    tally.put("team/w", share_of(workload(), "q"))
    tally.put("team/w", share_of(obj, "q"))
    assert tally.cluster_queues["q"].pending == tally.local_queues["team/main"].pending == pending
