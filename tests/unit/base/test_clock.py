"""Virtual time moves only when told to, and wakes sleepers in the order of their deadlines."""

import asyncio

import pytest

from gpuaas.base.clock import VirtualClock, parse_rfc3339, rfc3339, rfc3339_micro


def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    async def scenario() -> list[str]:
        clock = VirtualClock()
        woken: list[str] = []

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(name)

        tasks = [asyncio.create_task(sleeper("late", 10)), asyncio.create_task(sleeper("early", 5))]
        await asyncio.sleep(0)
        clock.advance(4)
        await asyncio.sleep(0)
        assert woken == []
        clock.advance(6)
        await asyncio.gather(*tasks)
        return woken

    assert asyncio.run(scenario()) == ["early", "late"]


def test_times_are_written_as_kubernetes_writes_them_and_read_back() -> None:
    assert rfc3339(1_767_225_600.9) == "2026-01-01T00:00:00Z"
    assert rfc3339_micro(1_767_225_600.25) == "2026-01-01T00:00:00.250000Z"
    assert rfc3339_micro(-62_135_596_798) == "0001-01-01T00:00:02.000000Z"
    assert rfc3339(-62_135_596_798) == "0001-01-01T00:00:02Z"
    assert parse_rfc3339("2026-01-01T01:00:00+01:00") == 1_767_225_600


@pytest.mark.parametrize("text", ["", "2026-01-01", "2026-01-01T00:00:00", "yesterday"])
def test_what_is_no_rfc3339_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_rfc3339(text)
