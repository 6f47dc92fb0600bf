"""A workload's status and its life: what is written when it moves on."""

from typing import Any

import pytest

from gpuaas.engine.lifecycle import Life, evict, release, reserve
from gpuaas.kueue.workload_state import life_of, status_with

SECOND = 1000


def workload(life: Life) -> dict[str, Any]:
    empty: dict[str, Any] = {"metadata": {"name": "w", "namespace": "team"}, "spec": {"podSets": []}}
    return {**empty, "status": status_with(empty, life)}


def test_reading_what_was_written_gives_the_same_life() -> None:
    life = evict(reserve(Life(), "q", (), 0), "Preempted", "to make room", 5 * SECOND, rule="InClusterQueue")
    assert life_of(workload(life)) == life


@pytest.mark.parametrize(("ran", "told"), [(0, 0), (900, 0), (61_000, 61)])
def test_a_round_that_ended_counts_however_short_it_was(ran: int, told: int) -> None:
    admitted = workload(reserve(Life(), "q", (), 0))
    assert "accumulatedPastExecutionTimeSeconds" not in admitted["status"]
    gone = release(evict(life_of(admitted), "Preempted", "to make room", ran), ran)
    assert status_with(admitted, gone)["accumulatedPastExecutionTimeSeconds"] == told
