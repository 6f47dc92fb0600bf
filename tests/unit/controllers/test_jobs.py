"""What a job promises: enough pods at a time, each counted once, and an end with its reason."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base.clock import rfc3339
from gpuaas.client.protocol import Propagation
from gpuaas.client.resources import JOBS, PODS
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.controllers.jobs import JobController
from gpuaas.controllers.jobs.indexes import first_free, format_indexes, parse_indexes
from gpuaas.controllers.jobs.policies import match_failure, match_success
from gpuaas.controllers.jobs.tally import FINALIZER, INDEX
from gpuaas.controllers.jobs.verdict import backoff
from gpuaas.controllers.ttl_after_finished import TtlAfterFinishedController
from gpuaas.runtime.metadata import annotations_of, finalizers_of
from gpuaas.testing.objects import job
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([0, 2, 3, 4, 7, 8], "0,2-4,7,8")],
)
def test_indexes_are_written_in_runs(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 100) == set(indexes)


@given(st.sets(st.integers(0, 300)))
def test_indexes_survive_being_written_and_read(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes), 301) == indexes


def test_indexes_beyond_the_completions_and_nonsense_are_left_out() -> None:
    assert parse_indexes("0-9,x,12,2-y", 4) == {0, 1, 2, 3}
    assert first_free({0, 2}, 3, 5) == [1, 3, 4]


@pytest.mark.parametrize(
    ("failures", "elapsed", "left"), [(0, 0, 0), (1, 0, 10), (1, 4, 6), (2, 0, 20), (9, 0, 600), (3, 60, 0)]
)
def test_the_pause_before_a_replacement_doubles(failures: int, elapsed: float, left: float) -> None:
    assert backoff(failures, 1000.0, 1000.0 + elapsed) == left


def _failed(code: int, **conditions: str) -> Object:
    return {
        "metadata": {"namespace": "n", "name": "p"},
        "status": {
            "phase": "Failed",
            "conditions": [{"type": kind, "status": value} for kind, value in conditions.items()],
            "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}],
        },
    }


RULES = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [7]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1]}},
    ]
}


def test_the_first_rule_that_matches_decides_what_a_failure_means() -> None:
    message = "Container main for pod n/p failed with exit code 42 matching FailJob rule at index 0"
    assert match_failure(RULES, _failed(42)).fails_job == message
    assert match_failure(RULES, _failed(7)).fails_index
    assert not match_failure(RULES, _failed(1, DisruptionTarget="True")).counts
    assert match_failure(RULES, _failed(1, DisruptionTarget="False")).counts
    assert match_failure(None, _failed(42)).counts


@pytest.mark.parametrize(
    ("rule", "succeeded", "met"),
    [
        ({"succeededIndexes": "0,2"}, {0, 2}, True),
        ({"succeededIndexes": "0,2"}, {0, 1}, False),
        ({"succeededIndexes": "0-4", "succeededCount": 2}, {1, 4}, True),
        ({"succeededCount": 3}, {5, 6}, False),
        ({"succeededCount": 2}, {5, 6}, True),
    ],
)
def test_success_policies(rule: Object, succeeded: set[int], met: bool) -> None:
    assert bool(match_success({"rules": [rule]}, succeeded, 10)) is met


async def _end(on: Stage, pod: Object, phase: str = "Succeeded", code: int = 0) -> None:
    ended = {"terminated": {"exitCode": code, "finishedAt": rfc3339(on.clock.now())}}
    statuses = [{"name": "main", "state": ended}]
    on.cluster.set_status(PODS, pod["metadata"]["name"], "default", phase=phase, containerStatuses=statuses)
    await on.advance(1)


def _active(on: Stage) -> list[Object]:
    return [pod for pod in on.cluster.all(PODS) if pod["status"].get("phase", "Pending") not in ("Succeeded", "Failed")]


def _status(on: Stage, name: str = "j") -> Object:
    status: Object = on.cluster.read(JOBS, name, "default")["status"]
    return status


def _said(on: Stage, name: str = "j") -> list[str]:
    return [
        f"{one['type']} {one['reason']}" for one in _status(on, name).get("conditions", ()) if one["status"] == "True"
    ]


def _fix_pending(on: Stage) -> None:
    for pod in on.cluster.all(PODS):
        if "status" not in pod:
            on.cluster.set_status(PODS, pod["metadata"]["name"], "default", phase="Pending")


async def _start(on: Stage, obj: Object) -> None:
    on.cluster.put(JOBS, obj)
    await on.advance(1)
    _fix_pending(on)
    await on.advance(1)


@scenario
async def test_a_job_of_three_two_at_a_time() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j", parallelism=2, completions=3))
        assert len(_active(on)) == 2
        for _ in range(3):
            _fix_pending(on)
            await _end(on, _active(on)[0])
        status = _status(on)
        assert status["succeeded"] == 3
        assert _said(on) == ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]
        assert status["uncountedTerminatedPods"] == {}
        assert (status["ready"], status["terminating"], status.get("active", 0)) == (0, 0, 0)
        assert status["completionTime"]
        assert not any(FINALIZER in finalizers_of(pod) for pod in on.cluster.all(PODS))
        assert len(on.cluster.all(PODS)) == 3
        assert on.cluster.events()[-1] == "Normal Completed job/j Job completed"


@scenario
async def test_failures_are_replaced_after_a_pause_until_the_limit_ends_the_job() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j", backoffLimit=1))
        await _end(on, _active(on)[0], "Failed", 1)
        assert _active(on) == [], "ten seconds of pause"
        await on.advance(10)
        _fix_pending(on)
        assert len(_active(on)) == 1
        await _end(on, _active(on)[0], "Failed", 1)
        assert _said(on) == ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]
        assert _status(on)["failed"] == 2
        await on.advance(3600)
        assert len(on.cluster.all(PODS)) == 2


@scenario
async def test_when_a_job_fails_its_other_pods_are_stopped_and_counted() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j", parallelism=3, completions=3, backoffLimit=0))
        await _end(on, _active(on)[0], "Failed", 1)
        await on.advance(1)
        assert _active(on) == []
        assert _status(on)["failed"] == 3
        assert "Failed BackoffLimitExceeded" in _said(on)


@scenario
async def test_an_indexed_job_fills_every_index_once() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j", parallelism=2, completions=4, completionMode="Indexed"))
        seen: set[str] = set()
        while _active(on):
            one = _active(on)[0]
            index = annotations_of(one)[INDEX]
            assert index not in seen
            seen.add(index)
            assert one["metadata"]["labels"][INDEX] == index
            assert one["spec"]["hostname"] == f"j-{index}"
            assert one["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
            await _end(on, one)
            _fix_pending(on)
        assert seen == {"0", "1", "2", "3"}
        assert _status(on)["completedIndexes"] == "0-3"
        assert "Complete CompletionsReached" in _said(on)


@scenario
async def test_a_limit_for_each_index_fails_indexes_and_the_job_at_its_end() -> None:
    async with stage(JobController) as on:
        spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "backoffLimit": 2**31 - 1}
        await _start(on, job("j", parallelism=2, completions=2, **spec))
        for _ in range(2):
            (zero,) = [pod for pod in _active(on) if annotations_of(pod)[INDEX] == "0"]
            await _end(on, zero, "Failed", 1)
            await on.advance(30)
            _fix_pending(on)
        assert _status(on)["failedIndexes"] == "0"
        await _end(on, _active(on)[0])
        assert _said(on) == ["FailureTarget FailedIndexes", "Failed FailedIndexes"]
        assert _status(on)["completedIndexes"] == "1"


@scenario
async def test_a_suspended_job_has_no_pods_and_its_time_starts_when_it_is_resumed() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j", parallelism=2, completions=2, suspend=True, activeDeadlineSeconds=60))
        assert (_active(on), _said(on)) == ([], ["Suspended JobSuspended"])
        assert "startTime" not in _status(on)
        await on.advance(600)
        await on.cluster.patch(JOBS, "j", {"spec": {"suspend": False}}, "default")
        await on.advance(1)
        _fix_pending(on)
        assert len(_active(on)) == 2
        assert _said(on) == []
        await on.cluster.patch(JOBS, "j", {"spec": {"suspend": True}}, "default")
        await on.advance(1)
        assert _active(on) == []
        assert "failed" not in _status(on), "pods taken away by a suspension have not failed"
        reasons = [event.split()[1] for event in on.cluster.events()]
        assert reasons.count("Suspended") + reasons.count("Resumed") >= 2


@scenario
async def test_a_job_that_was_done_before_its_start_was_noted_and_it_was_suspended_is_complete() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j"))
        (pod,) = _active(on)
        on.cluster.set_status(PODS, pod["metadata"]["name"], "default", phase="Succeeded")
        on.cluster.set_status(JOBS, "j", "default", startTime=None)
        await on.cluster.patch(JOBS, "j", {"spec": {"suspend": True}}, "default")
        await on.advance(5)
        assert "Complete CompletionsReached" in _said(on)
        assert _status(on)["startTime"] <= _status(on)["completionTime"], "the API refuses a finished job without one"


@scenario
async def test_the_deadline_ends_a_job() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j", activeDeadlineSeconds=60))
        await on.advance(50)
        assert _said(on) == []
        await on.advance(20)
        assert _said(on) == ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]
        assert _active(on) == []


@scenario
async def test_without_completions_one_success_is_enough_and_the_others_may_finish() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j", parallelism=2, completions=None))
        await _end(on, _active(on)[0])
        assert (len(_active(on)), _said(on)) == (1, [])
        await _end(on, _active(on)[0], "Failed", 1)
        assert "Complete CompletionsReached" in _said(on)


@scenario
async def test_each_pod_is_counted_once_even_if_the_controller_dies_in_between() -> None:
    async with stage(JobController) as first:
        await _start(first, job("j", parallelism=3, completions=3))
        pods = _active(first)
        cluster = first.cluster
    # Between the two lives: two pods ended, and the first life had only written down the uid of one.
    for one in pods[:2]:
        cluster.set_status(PODS, one["metadata"]["name"], "default", phase="Succeeded")
    noted = {"succeeded": [pods[0]["metadata"]["uid"]]}
    cluster.set_status(JOBS, "j", "default", uncountedTerminatedPods=noted)
    async with stage(JobController, cluster=cluster) as second:
        await second.advance(2)
        assert _status(second)["succeeded"] == 2
        await _end(second, _active(second)[0])
        assert _status(second)["succeeded"] == 3
        assert "Complete CompletionsReached" in _said(second)


@scenario
async def test_pods_of_a_deleted_job_are_not_held_back() -> None:
    async with stage(JobController, GarbageCollector) as on:
        await _start(on, job("j", parallelism=2, completions=2))
        await on.cluster.delete(JOBS, "j", "default", propagation=Propagation.BACKGROUND)
        await on.advance(5)
        assert on.cluster.all(PODS) == []


@scenario
async def test_a_job_managed_by_somebody_else_is_left_alone() -> None:
    async with stage(JobController) as on:
        await _start(on, job("j", managedBy="kueue.x-k8s.io/multikueue"))
        assert on.cluster.all(PODS) == []
        assert "status" not in on.cluster.read(JOBS, "j", "default")


@scenario
async def test_a_finished_job_goes_after_its_time() -> None:
    async with stage(JobController, TtlAfterFinishedController, GarbageCollector) as on:
        await _start(on, job("j", ttlSecondsAfterFinished=100))
        await _end(on, _active(on)[0])
        await on.advance(90)
        assert on.cluster.exists(JOBS, "j", "default")
        await on.advance(20)
        assert not on.cluster.exists(JOBS, "j", "default")
        assert on.cluster.all(PODS) == []
