"""Who gets the processor when: requests come first, in slices, and nobody waits for ever."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gpuaas.apiserver.load_shedding import Slices, Turns
from gpuaas.testing.time import scenario


class _Timers:
    """The loop's timers, fired by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[Callable[[], None]] = []
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", self._later, raising=False)

    def _later(self, _delay: float, call: Callable[[], None]) -> object:
        self.waiting.append(call)
        return call

    async def fire(self) -> None:
        calls, self.waiting = self.waiting, []
        for call in calls:
            call()
        await _turn_of_the_loop()


async def _turn_of_the_loop() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def _ask(turns: Turns, count: int) -> tuple[list[int], list[asyncio.Task[Any]]]:
    """Asks for turns; the list says who has had one, in order."""
    had: list[int] = []

    async def one(number: int) -> None:
        await turns.take()
        had.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(count)]
    await _turn_of_the_loop()
    return had, tasks


def _busy(requests: int) -> Turns:
    turns = Turns()
    for _ in range(requests):
        turns.began()
    return turns


@scenario
async def test_few_requests_hold_nobody_up() -> None:
    had, _ = await _ask(_busy(7), 3)
    assert had == [0, 1, 2]


def test_under_load_the_longest_waiting_go_first_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    @scenario
    async def play() -> None:
        timers = _Timers(monkeypatch)
        had, _ = await _ask(_busy(8), 3)
        assert had == []
        await timers.fire()
        assert had == [0]
        await timers.fire()
        await timers.fire()
        assert had == [0, 1, 2]
        assert not timers.waiting, "nobody waits: nothing ticks"

    play()


def test_where_timers_come_late_the_loop_is_full_and_turns_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    @scenario
    async def play() -> None:
        now, timers = 0.0, _Timers(monkeypatch)
        turns = Turns(lambda: now)
        had, _ = await _ask(turns, 1)
        assert had == [0], "as long as nothing is known"
        now += 0.021
        await timers.fire()
        had, _ = await _ask(turns, 6)
        assert had == [0, 1, 2, 3], "one each five milliseconds, however late the timer comes"
        now += 0.005
        await timers.fire()
        assert had == [0, 1, 2, 3, 4, 5], "the timer came in time: nobody is held up"
        assert not timers.waiting, "nobody waits: nothing ticks"

    play()


def test_everybody_goes_on_when_the_requests_have_been_answered_and_no_more_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @scenario
    async def play() -> None:
        timers, turns = _Timers(monkeypatch), _busy(9)
        had, _ = await _ask(turns, 4)
        for _ in range(9):
            turns.ended()
        await _turn_of_the_loop()
        assert had == [], "written together, answered together: the next ones may be on their way"
        await timers.fire()
        assert had == [0]
        await timers.fire()
        assert had == [0, 1, 2, 3]

    play()


def test_who_gave_up_takes_no_turn_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    @scenario
    async def play() -> None:
        timers = _Timers(monkeypatch)
        had, tasks = await _ask(_busy(8), 4)
        tasks[0].cancel()
        tasks[2].cancel()
        await _turn_of_the_loop()
        await timers.fire()
        assert had == [1]
        await timers.fire()
        assert had == [1, 3]

    play()


@pytest.mark.parametrize(
    ("others", "by_turn"),
    [(0.0, [3, 6, 9]), (1 / 16, [3, 6, 9]), (1 / 4, [3, 55, 107])],
    ids=["nobody else", "others take a while", "others take very long: longer slices"],
)
def test_what_arrives_at_once_is_served_in_slices_in_the_order_it_came(others: float, by_turn: list[int]) -> None:
    @scenario
    async def play() -> None:
        now, served = 0.0, []
        slices = Slices(lambda: now)

        def serve(number: int) -> None:
            nonlocal now
            now += 1 / 1024  # a number that adds up exactly
            served.append(number)

        for number in range(150):
            slices.run(partial(serve, number))
        seen = []
        while len(served) < 150:
            seen.append(len(served))
            now += others
            await asyncio.sleep(0)
        assert served == list(range(150))
        assert seen[: len(by_turn)] == by_turn
        await _turn_of_the_loop()
        slices.run(partial(serve, 150))
        assert served[-1] == 150, "where nobody waits, a request is served at once"

    play()


def test_it_is_quiet_when_no_request_is_under_way_and_none_came_meanwhile() -> None:
    turns = Turns()
    assert turns.is_quiet()
    turns.began()
    assert not turns.is_quiet()
    assert not turns.is_quiet()
    turns.ended()
    assert turns.is_quiet()
    turns.began()
    turns.ended()
    assert not turns.is_quiet()
    assert turns.is_quiet()
