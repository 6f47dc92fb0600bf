"""A workload's status and its state: what is written when it moves on."""

from typing import Any

import pytest

from gpuaas.engine.lifecycle import WorkloadState, evict, release, reserve
from gpuaas.kueue.workload_state import status_with, workload_state_of

SECOND = 1000


def workload(state: WorkloadState) -> dict[str, Any]:
    empty: dict[str, Any] = {"metadata": {"name": "w", "namespace": "team"}, "spec": {"podSets": []}}
    return {**empty, "status": status_with(empty, state)}


def test_reading_what_was_written_gives_the_same_life() -> None:
    state = evict(reserve(WorkloadState(), "q", (), 0), "Preempted", "to make room", 5 * SECOND, rule="InClusterQueue")
    assert workload_state_of(workload(state)) == state


@pytest.mark.parametrize(("ran", "told"), [(0, 0), (900, 0), (61_000, 61)])
def test_a_round_that_ended_counts_however_short_it_was(ran: int, told: int) -> None:
    admitted = workload(reserve(WorkloadState(), "q", (), 0))
    assert "accumulatedPastExecutionTimeSeconds" not in admitted["status"]
    gone = release(evict(workload_state_of(admitted), "Preempted", "to make room", ran), ran)
    assert status_with(admitted, gone)["accumulatedPastExecutionTimeSeconds"] == told
