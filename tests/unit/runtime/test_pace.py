"""What is done all the time is done a few times at once, then at a bounded rate."""

from gpuaas.runtime.pace import Pace


def test_the_first_turns_come_at_once_the_others_so_many_times_a_second() -> None:
    pace, now, done = Pace(burst=3, rate=5.0), 100.0, []
    while now < 102.0:
        if not pace.wait(now):
            pace.spend()
            done.append(now)
        now += 0.01
    assert len([at for at in done if at < 100.03]) == 3
    assert 12 <= len(done) <= 14


def test_after_a_rest_there_is_a_burst_again_and_no_more_than_that() -> None:
    pace = Pace(burst=2, rate=1.0)
    pace.wait(0.0)
    pace.spend()
    pace.spend()
    assert pace.wait(0.0) == 1.0
    assert pace.wait(1000.0) == 0.0
    pace.spend()
    pace.spend()
    assert pace.wait(1000.0) == 1.0
