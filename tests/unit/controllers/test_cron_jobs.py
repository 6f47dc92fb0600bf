"""What a cron job promises: jobs at the times its schedule names, in its time zone, none twice."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.client.resources import CRON_JOBS, JOBS
from gpuaas.controllers.cron_jobs import CronJobController
from gpuaas.controllers.cron_jobs.schedule import parse_schedule
from gpuaas.testing.objects import cron_job
from gpuaas.testing.time import Stage, scenario, stage

DONE = [{"type": "Complete", "status": "True"}]


def _at(text: str, zone: str = "UTC") -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "then"),
    [
        ("* * * * *", "2026-01-01 00:00:00", "2026-01-01 00:01:00"),
        ("*/15 * * * *", "2026-01-01 00:14:59", "2026-01-01 00:15:00"),
        ("5/20 * * * *", "2026-01-01 00:26:00", "2026-01-01 00:45:00"),
        ("0 9-17/4 * * MON-FRI", "2026-01-02 17:30:00", "2026-01-05 09:00:00"),
        ("0 0 31 * *", "2026-01-31 00:00:00", "2026-03-31 00:00:00"),
        ("0 0 29 2 *", "2026-01-01 00:00:00", "2028-02-29 00:00:00"),
        ("0 0 13 * FRI", "2026-01-01 00:00:00", "2026-01-02 00:00:00"),
        ("0 0 */10 * MON", "2026-01-01 00:00:00", "2026-01-05 00:00:00"),
        ("0 0 */1 * MON", "2026-01-01 00:00:00", "2026-01-05 00:00:00"),
        ("30 9 * * mon", "2026-01-01 12:00:00", "2026-01-05 09:30:00"),
        ("0 12 1,15 jan,JUL ?", "2026-01-16 00:00:00", "2026-07-01 12:00:00"),
        ("@daily", "2026-01-01 00:00:00", "2026-01-02 00:00:00"),
        ("@weekly", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
        ("@every 1h30m", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
        ("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01 00:30:00", "2026-01-02 00:00:00"),
    ],
)
def test_the_next_time(schedule: str, after: str, then: str) -> None:
    found = parse_schedule(schedule).next(_at(after))
    assert found is not None
    assert datetime.fromtimestamp(found, UTC).strftime("%Y-%m-%d %H:%M:%S") == then


def test_a_time_the_clocks_skip_does_not_come_and_one_they_repeat_comes_twice() -> None:
    zone = "Europe/Berlin"
    spring = parse_schedule("30 2 * * *", zone).next(_at("2026-03-29 00:00:00", zone))
    assert spring == _at("2026-03-30 02:30:00", zone)
    autumn = parse_schedule("30 2 * * *", zone)
    first = autumn.next(_at("2026-10-25 00:00:00", zone))
    assert first is not None
    assert autumn.next(first) == first + 3600


def test_a_time_that_never_comes_is_none() -> None:
    assert parse_schedule("0 0 30 2 *").next(_at("2026-01-01 00:00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("* * * *", "expected exactly 5 fields, found 4"),
        ("61 * * * *", "end of range (61) above maximum (59)"),
        ("* * 0 * *", "beginning of range (0) below minimum (1)"),
        ("*/0 * * * *", "step of range should be a positive number"),
        ("9-5 * * * *", "beginning of range (9) beyond end of range (5)"),
        ("x * * * *", "failed to parse int from x"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("TZ=Mars/Base * * * * *", "unknown time zone Mars/Base"),
        ("@every soon", "failed to parse duration"),
    ],
)
def test_what_is_no_schedule_is_told(schedule: str, words: str) -> None:
    with pytest.raises(ValueError) as found:
        parse_schedule(schedule)
    assert words in str(found.value)


@given(st.integers(0, 59), st.integers(0, 23), st.integers(1_700_000_000, 1_900_000_000))
def test_the_next_time_is_later_and_matches(minute: int, hour: int, after: int) -> None:
    found = parse_schedule(f"{minute} {hour} * * *").next(after)
    assert found is not None
    moment = datetime.fromtimestamp(found, UTC)
    assert (moment.minute, moment.hour) == (minute, hour)
    assert 0 < found - after <= 86_400


def _jobs(on: Stage) -> list[str]:
    return [job["metadata"]["name"] for job in on.cluster.all(JOBS)]


def _finish(on: Stage, name: str) -> None:
    moment = datetime.fromtimestamp(on.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    on.cluster.set_status(JOBS, name, "default", conditions=DONE, completionTime=moment, startTime=moment)


@scenario
async def test_a_job_each_minute_named_after_its_time() -> None:
    async with stage(CronJobController) as on:
        on.cluster.put(CRON_JOBS, cron_job("tick", "* * * * *"))
        await on.advance(130)
        first = int(_at("2026-01-01 00:01:00")) // 60
        assert _jobs(on) == [f"tick-{first}", f"tick-{first + 1}"]
        status = on.cluster.read(CRON_JOBS, "tick", "default")["status"]
        assert [one["name"] for one in status["active"]] == _jobs(on)
        assert status["lastScheduleTime"] == "2026-01-01T00:02:00Z"
        stamp = on.cluster.all(JOBS)[0]["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        assert stamp == "2026-01-01T00:01:00Z"
        assert on.cluster.events()[0] == f"Normal SuccessfulCreate cronjob/tick Created job tick-{first}"


@scenario
async def test_forbid_waits_and_replace_removes() -> None:
    async with stage(CronJobController) as on:
        on.cluster.put(CRON_JOBS, cron_job("wait", "* * * * *", concurrencyPolicy="Forbid"))
        on.cluster.put(CRON_JOBS, cron_job("swap", "* * * * *", concurrencyPolicy="Replace"))
        await on.advance(190)
        first = int(_at("2026-01-01 00:01:00")) // 60
        assert _jobs(on) == [f"swap-{first + 2}", f"wait-{first}"]
        _finish(on, f"wait-{first}")
        await on.settle()
        assert f"wait-{first + 2}" in _jobs(on), "what it waited with is made up for"


@scenario
async def test_only_the_last_of_several_missed_times_is_made_up_for_and_only_within_the_deadline() -> None:
    async with stage(CronJobController) as on:
        on.cluster.put(CRON_JOBS, cron_job("nap", "* * * * *", suspend=True))
        on.cluster.put(CRON_JOBS, cron_job("late", "0 * * * *", suspend=True, startingDeadlineSeconds=60))
        await on.advance(3600 + 300)
        assert _jobs(on) == []
        for name in ("nap", "late"):
            await on.cluster.patch(CRON_JOBS, name, {"spec": {"suspend": False}}, "default")
        await on.settle()
        assert _jobs(on) == [f"nap-{int(on.clock.now()) // 60}"]


@scenario
async def test_finished_jobs_are_kept_to_the_limit() -> None:
    async with stage(CronJobController) as on:
        on.cluster.put(CRON_JOBS, cron_job("tick", "* * * * *", successfulJobsHistoryLimit=2))
        for _ in range(5):
            await on.advance(61)
            for name in _jobs(on):
                if not on.cluster.read(JOBS, name, "default").get("status"):
                    _finish(on, name)
            await on.settle()
        assert len(_jobs(on)) == 2
        status = on.cluster.read(CRON_JOBS, "tick", "default")["status"]
        assert "active" not in status
        assert status["lastSuccessfulTime"] >= "2026-01-01T00:04:00Z"
        reasons = {event.split()[1] for event in on.cluster.events()}
        assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= reasons


@scenario
async def test_a_schedule_nobody_can_read_is_told_in_an_event() -> None:
    async with stage(CronJobController) as on:
        on.cluster.put(CRON_JOBS, cron_job("bad", "every now and then"))
        on.cluster.put(CRON_JOBS, cron_job("lost", "* * * * *", timeZone="Mars/Base"))
        on.cluster.put(CRON_JOBS, cron_job("never", "59 23 31 2 *"))
        await on.advance(120)
        assert _jobs(on) == []
        told = {(event.split()[1], event.split()[2]) for event in on.cluster.events()}
        assert told == {
            ("UnparseableSchedule", "cronjob/bad"),
            ("UnknownTimeZone", "cronjob/lost"),
            ("InvalidSchedule", "cronjob/never"),
        }


@scenario
async def test_a_restart_makes_no_second_job_for_one_time() -> None:
    async with stage(CronJobController) as first:
        first.cluster.put(CRON_JOBS, cron_job("tick", "* * * * *"))
        await first.advance(65)
        cluster = first.cluster
    made = [job["metadata"]["uid"] for job in cluster.all(JOBS)]
    cluster.set_status(CRON_JOBS, "tick", "default", active=[], lastScheduleTime="2026-01-01T00:00:00Z")
    async with stage(CronJobController, cluster=cluster) as second:
        await second.settle()
        assert [job["metadata"]["uid"] for job in cluster.all(JOBS)] == made
        status = cluster.read(CRON_JOBS, "tick", "default")["status"]
        assert [one["uid"] for one in status["active"]] == made
