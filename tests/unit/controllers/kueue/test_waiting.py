"""Why workloads wait, by queue and one by one, as the scheduler's last look left it."""

from __future__ import annotations

from tests.unit.engine.builders import Lab, queue

from gpuaas.controllers.kueue.waiting import WaitingReasons
from gpuaas.engine.values import ClusterQueue, StopPolicy


def looked(lab: Lab) -> WaitingReasons:
    """Reasons after the engine has looked at all that waits."""
    found = WaitingReasons(lab.engine)
    for number in range(10):
        found.looked(lab.engine.cycle(number))
    return found


def test_a_queue_s_jobs_are_counted_by_reason_the_most_first() -> None:
    lab = Lab(queue("q", 4))
    lab.run("r", "q", 4)
    for number in range(3):
        lab.submit(f"w{number}", "q", 2)
    lab.submit("huge", "q", 40)
    found = looked(lab)
    assert found.counted("q") == [("WaitingForQuota", 3), ("ExceedsMaxQuota", 1)]
    assert (found.of("ns/w2"), found.of("ns/huge"), found.of("ns/r")) == ("WaitingForQuota", "ExceedsMaxQuota", "")


def test_a_queue_that_is_stopped_suspends_all_of_its_jobs() -> None:
    lab = Lab(queue("q", 4))
    lab.run("r", "q", 4)
    lab.submit("w", "q", 2)
    lab.tell(ClusterQueue("q", stop=StopPolicy.HOLD))
    assert looked(lab).counted("q") == [("Suspended", 1)]


def test_what_was_never_looked_at_waits_behind_others_and_a_queue_that_is_not_there_has_nothing() -> None:
    lab = Lab(queue("q", 4))
    lab.run("r", "q", 4)
    lab.submit("w", "q", 2)
    found = WaitingReasons(lab.engine)
    assert found.counted("q") == [("BehindOthersInQueue", 1)]
    assert found.counted("other") == []
    assert found.of("ns/none") == ""
