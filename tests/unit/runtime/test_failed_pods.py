"""What fails is replaced at once, what fails again and again later and later."""

from typing import Any

from gpuaas.runtime.failed_pods import LONGEST, FailedPods
from gpuaas.testing.objects import pod

Object = dict[str, Any]


def _failed(uid: str, **status: Any) -> Object:
    made = pod(uid, phase="Failed")
    made["metadata"]["uid"] = uid
    made["status"] |= status
    return made


def test_the_pause_doubles_with_each_round_and_is_forgotten_after_a_quiet_time() -> None:
    failed, now, pods = FailedPods(), 1000.0, []
    waits = []
    for number in range(12):
        pods.append(_failed(str(number)))
        wait = failed.wait("set", pods, now)
        assert failed.wait("set", pods, now) == wait, "the same pods are counted once"
        waits.append(wait)
        now += wait
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST, LONGEST]
    now += 2 * LONGEST + 1
    assert failed.wait("set", [*pods, _failed("later")], now) == 0


def test_pods_that_fail_together_are_one_round() -> None:
    failed = FailedPods()
    assert failed.wait("set", [_failed("a")], 0) == 0
    assert failed.wait("set", [_failed(uid) for uid in "abcdef"], 1) == 1


def test_who_was_evicted_or_belongs_to_another_does_not_count() -> None:
    failed = FailedPods()
    evicted = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    for number in range(5):
        assert failed.wait("set", [_failed(str(number), **evicted)], number) == 0
    failed.wait("set", [_failed("a")], 10)
    failed.wait("set", [_failed("b")], 10)
    assert failed.wait("other", [_failed("c")], 10) == 0
