"""Who faulted on a card shared by MPS, found by running alone."""

from __future__ import annotations

from typing import Any

from gpuaas.executors.mps_suspects import Suspects, suspect_of


def pod(job: str, uid: str = "") -> dict[str, Any]:
    owners = [{"uid": job, "controller": True}] if job else []
    return {"metadata": {"uid": uid or f"pod-of-{job}", "ownerReferences": owners}}


def test_a_pod_is_known_by_its_job() -> None:
    assert suspect_of(pod("job", "first")) == suspect_of(pod("job", "second"))
    assert suspect_of(pod("", "bare")) == "bare"


def test_one_fault_makes_nobody_run_alone() -> None:
    suspects = Suspects()
    assert not suspects.on_fault("GPU-1", ["a", "b"], 0)
    assert not suspects.runs_alone(pod("a"), 1)


def test_after_a_second_one_those_of_both_run_alone_until_one_faults_alone() -> None:
    suspects = Suspects()
    suspects.on_fault("GPU-1", ["a", "b", "c"], 0)
    assert not suspects.on_fault("GPU-1", ["b", "c", "d"], 600)
    assert [job for job in "abcd" if suspects.runs_alone(pod(job), 700)] == ["b", "c"]
    assert suspects.on_fault("GPU-1", ["c"], 800)
    assert not any(suspects.runs_alone(pod(job), 801) for job in "abcd")


def test_a_fault_of_long_ago_does_not_count() -> None:
    suspects = Suspects()
    suspects.on_fault("GPU-1", ["a", "b"], 0)
    suspects.on_fault("GPU-1", ["a", "b"], 3601)
    assert not suspects.runs_alone(pod("a"), 3602)


def test_suspicion_ends_after_an_hour() -> None:
    suspects = Suspects()
    suspects.on_fault("GPU-1", ["a", "b"], 0)
    suspects.on_fault("GPU-1", ["a", "b"], 10)
    assert suspects.runs_alone(pod("a"), 3000)
    assert not suspects.runs_alone(pod("a"), 3700)


def test_who_is_alone_when_its_card_faults_is_known_at_once() -> None:
    assert Suspects().on_fault("GPU-1", ["a"], 0)
