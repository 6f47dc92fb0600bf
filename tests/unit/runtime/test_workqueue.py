"""What the queue promises: each key once in line, never two workers on one key, later means later."""

import asyncio

from gpuaas.base.clock import VirtualClock
from gpuaas.runtime.workqueue import WorkQueue
from gpuaas.testing.time import scenario


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@scenario
async def test_a_key_added_twice_is_in_line_once() -> None:
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    queue.add("a")
    queue.add("b")
    queue.add("a")
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]


@scenario
async def test_a_key_added_while_worked_on_comes_again_after_done() -> None:
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0, "nobody else may take it now"
    queue.done(key)
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.idle


@scenario
async def test_failures_of_one_key_wait_longer_each_time_and_forget_starts_over() -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock, first_delay=1.0, longest_delay=4.0)
    waits = []
    for _ in range(4):
        queue.add_rate_limited("a")
        deadline = clock.next_deadline()
        await _turns()
        deadline = clock.next_deadline()
        assert deadline is not None
        waits.append(deadline - clock.now())
        clock.advance(waits[-1])
        await _turns()
        queue.done(await queue.get())
    assert waits == [1.0, 2.0, 4.0, 4.0]
    queue.forget("a")
    queue.add_rate_limited("a")
    await _turns()
    clock.advance(1.0)
    await _turns()
    assert len(queue) == 1
    await queue.close()


@scenario
async def test_the_earliest_of_several_delays_counts() -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("a", 60)
    queue.add_after("b", 30)
    queue.add_after("a", 10)
    await _turns()
    clock.advance(10)
    await _turns()
    assert (await queue.get(), len(queue)) == ("a", 0)
    queue.done("a")
    clock.advance(50)
    await _turns()
    assert await queue.get() == "b"
    assert len(queue) == 0, "the later delay of a key already delivered is void"
    await queue.close()


@scenario
async def test_a_worker_that_is_stopped_while_waiting_loses_no_work() -> None:
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await _turns()
    queue.add("a")
    first.cancel()
    await _turns()
    assert await second == "a"
