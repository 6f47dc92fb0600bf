"""What would become of a job that is submitted now: starts, waits behind others, preempts, or meets no queue."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.builders import Lab, queue

from gpuaas.base.clock import VirtualClock
from gpuaas.engine.checks import fingerprint
from gpuaas.kueue.submission import workload_for
from gpuaas.kueue.workloads import Reader
from gpuaas.views.effects import Effects, Prediction


def lab() -> Lab:
    """team-a has two GPUs, of which one is taken; team-b has none and one job waits."""
    made = Lab(queue("team-a", 2, within="LowerPriority"), queue("team-b", 1))
    made.run("a-1", "team-a", 1)
    made.run("b-1", "team-b", 1)
    made.submit("b-2", "team-b", 1)
    made.settle()
    return made


def predicted(made: Lab, where: str, amount: int, priority: int = 0) -> Prediction:
    clock = VirtualClock(made.now / 1000 + 1)
    workload = {
        "metadata": {"name": "x", "namespace": "ns", "uid": "x", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"queueName": where, "priority": priority, "podSets": [_set(amount)]},
    }
    before = fingerprint(made.engine)
    found = Effects(made.engine, clock, read=Reader().workload).of_submission(workload)
    assert fingerprint(made.engine) == before, "something of the trial is left"
    return found


def _set(amount: int) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"gpu": str(amount)}}}
    return {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}


@pytest.mark.parametrize(
    ("where", "amount", "priority", "words"),
    [
        ("team-a", 1, 0, "It would start now in queue team-a"),
        ("team-a", 2, 0, "It would wait first in line in queue team-a: too little quota is free"),
        ("team-a", 2, 10, "It would start in queue team-a by preempting 1 job of ns"),
        ("team-b", 1, 0, "It would wait behind 1 job in queue team-b: too little quota is free"),
        ("team-b", 1, 10, "It would wait first in line in queue team-b: too little quota is free"),
        ("none", 1, 0, "It would wait: the queue it names does not exist in this namespace"),
    ],
)
def test_predictions(where: str, amount: int, priority: int, words: str) -> None:
    assert predicted(lab(), where, amount, priority).sentence(lambda _: True) == words


def test_a_job_of_a_namespace_one_may_not_read_is_counted_and_not_named() -> None:
    found = predicted(lab(), "team-a", 2, 10)
    assert found.sentence(lambda _: False) == "It would start in queue team-a by preempting 1 job"


def test_a_job_becomes_the_workload_it_would_get() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"template": template, "parallelism": 3, "completions": 3},
    }
    found = workload_for(job, 7, 1_700_000_000.0)
    assert found is not None
    assert (found["spec"]["queueName"], found["spec"]["priority"]) == ("q", 7)
    assert found["spec"]["podSets"][0]["count"] == 3
    assert workload_for({**job, "kind": "ConfigMap"}, 0, 0.0) is None
