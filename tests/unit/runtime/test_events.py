"""What the recorder promises: told once, counted after that, never a flood."""

import asyncio

import pytest

from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import Unavailable
from gpuaas.client.resources import CONFIG_MAPS, EVENTS
from gpuaas.runtime import events
from gpuaas.runtime.controller import Deps
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map
from gpuaas.testing.time import Stage, scenario, stage


def _told(on: Stage) -> list[tuple[str, int, str]]:
    return [(event["reason"], event["count"], event["message"]) for event in on.cluster.all(EVENTS)]


@scenario
async def test_the_same_again_raises_the_count() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester")
        for _ in range(3):
            recorder.event(CONFIG_MAPS, obj, NORMAL, "Done", "it is done")
            await on.advance(10)
        assert _told(on) == [("Done", 3, "it is done")]
        (event,) = on.cluster.all(EVENTS)
        assert event["involvedObject"] == {
            "kind": "ConfigMap",
            "namespace": "default",
            "name": "c",
            "uid": obj["metadata"]["uid"],
            "apiVersion": "v1",
            "resourceVersion": obj["metadata"]["resourceVersion"],
        }
        assert (event["source"], event["reportingComponent"]) == ({"component": "tester"}, "tester")
        assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:20Z")


def _in_series(on: Stage) -> list[tuple[str, int, str]]:
    found = [
        (event["reason"], event.get("series", {}).get("count", 1), event["message"]) for event in on.cluster.all(EVENTS)
    ]
    return sorted(found)


@scenario
async def test_a_series_is_what_is_done_with_one_state_of_an_object_under_its_first_words() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester", series=True)
        for number in range(3):
            recorder.event(CONFIG_MAPS, obj, NORMAL, "Took", f"took {number}")
            await on.advance(1)
        assert _in_series(on) == [("Took", 2, "took 0")]
        changed = on.cluster.put(CONFIG_MAPS, obj | {"data": {"new": "yes"}})
        recorder.event(CONFIG_MAPS, changed, NORMAL, "Took", "took 3")
        await on.settle()
        assert _in_series(on) == [("Took", 1, "took 3"), ("Took", 2, "took 0")]


@scenario
async def test_an_event_of_a_series_has_the_shape_of_the_newer_group() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester", series=True)
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Took", "took it", action="Taking")
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Left", "left it")
        await on.settle()
        one, other = sorted(on.cluster.all(EVENTS), key=lambda each: str(each["reason"]), reverse=True)
        assert (one["action"], other["action"]) == ("Taking", "Left")
        assert (one["eventTime"], one["firstTimestamp"], one["lastTimestamp"]) == (
            "2026-01-01T00:00:00.000000Z",
            None,
            None,
        )
        assert "count" not in one
        assert one["source"] == {}
        assert one["reportingInstance"].startswith("tester-")
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Took", "took it", action="Taking")
        await on.settle()
        told = {each["reason"]: each.get("series") for each in on.cluster.all(EVENTS)}
        assert told["Left"] is None
        assert told["Took"] == {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}


@scenario
async def test_the_number_of_a_series_is_told_when_it_has_ended_and_the_next_begins_anew() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester", series=True)
        for _ in range(30):
            recorder.event(CONFIG_MAPS, obj, NORMAL, "Took", "x")
            await on.advance(1)
        assert _in_series(on) == [("Took", 2, "x")]
        await on.advance(720)
        assert _in_series(on) == [("Took", 30, "x")]
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Took", "x")
        await on.settle()
        assert _in_series(on) == [("Took", 1, "x"), ("Took", 30, "x")]


@scenario
async def test_ten_that_differ_only_in_their_words_become_one() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester")
        for number in range(14):
            recorder.event(CONFIG_MAPS, obj, WARNING, "Odd", f"number {number}")
            await on.settle()
        assert len(_told(on)) == 10
        assert [one for one in _told(on) if one[1] > 1] == [("Odd", 5, "(combined from similar events): number 13")]


@scenario
async def test_one_source_may_tell_25_things_about_an_object_then_one_each_five_minutes() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester")
        for number in range(40):
            recorder.event(CONFIG_MAPS, obj, WARNING, f"Reason{number}", "x")
        await on.settle()
        assert len(_told(on)) == 25
        await on.advance(301)
        recorder.event(CONFIG_MAPS, obj, WARNING, "Later", "x")
        await on.settle()
        assert len(_told(on)) == 26


@scenario
async def test_an_event_that_expired_is_told_anew() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester")
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Done", "x")
        await on.settle()
        on.cluster.remove(EVENTS, on.cluster.all(EVENTS)[0]["metadata"]["name"], "default")
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Done", "x")
        await on.settle()
        assert _told(on) == [("Done", 1, "x")]


@scenario
async def test_a_server_that_refuses_does_not_stop_the_next_one() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        on.cluster.fail_next("create", EVENTS, Unavailable("full"))
        recorder = on.deps.events.recorder("tester")
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Lost", "x")
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Told", "x")
        await on.settle()
        assert [one[0] for one in _told(on)] == ["Told"]


def test_dependencies_can_be_made_without_a_running_loop() -> None:
    cluster = FakeCluster(VirtualClock())
    assert Deps.over(cluster, cluster.clock, cluster).events.idle


@scenario
async def test_a_burst_about_many_objects_is_written_whole() -> None:
    async with stage() as on:
        recorder = on.deps.events.recorder("tester")
        for number in range(12_000):
            recorder.event(CONFIG_MAPS, config_map(f"c{number}"), NORMAL, "Done", "x")
        assert not on.deps.events.idle
        await on.settle()
        assert on.deps.events.idle
        assert len(_told(on)) == 12_000


@scenario
async def test_the_same_again_before_it_is_written_costs_no_second_write() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester")
        for _ in range(20):
            recorder.event(CONFIG_MAPS, obj, NORMAL, "Done", "x")
        await on.settle()
        assert _told(on) == [("Done", 20, "x")]
        assert [write.verb for write in on.cluster.writes if write.resource == "events"] == ["create"]


@scenario
async def test_what_is_told_again_while_it_is_being_written_is_counted_after() -> None:
    async with stage() as on:
        obj = on.cluster.put(CONFIG_MAPS, config_map("c"))
        recorder = on.deps.events.recorder("tester")
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Done", "x")
        await asyncio.sleep(0)  # its task has begun
        await asyncio.sleep(0)
        recorder.event(CONFIG_MAPS, obj, NORMAL, "Done", "x")
        await on.settle()
        assert _told(on) == [("Done", 2, "x")]


@scenario
async def test_more_than_can_be_kept_is_dropped_with_a_word() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "QUEUE_LIMIT", 10)
        said: list[str] = []
        patch.setattr(events._log, "warning", lambda words, *values: said.append(words % values))
        async with stage() as on:
            recorder = on.deps.events.recorder("tester")
            for number in range(25):
                recorder.event(CONFIG_MAPS, config_map(f"c{number}"), NORMAL, "Done", "x")
            await on.settle()
            assert len(_told(on)) == 10
            assert said == [
                "10 events wait to be written: new ones are dropped until some are",
                "15 events were dropped",
            ]
            recorder.event(CONFIG_MAPS, config_map("c24"), NORMAL, "Done", "x")
            await on.settle()
            assert len(_told(on)) == 11, "what was dropped is new when it is told again"


@scenario
async def test_only_one_asks_for_its_turn_at_a_time() -> None:
    waiting: list[asyncio.Future[None]] = []

    async def turn() -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]

    cluster = FakeCluster(VirtualClock())
    sink = events.EventSink(cluster, cluster.clock, turn)
    running = asyncio.ensure_future(sink.run())
    for number in range(5):
        sink.recorder("tester").event(CONFIG_MAPS, config_map(f"c{number}"), NORMAL, "Done", "x")
    for served in range(5):
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(waiting) == served + 1
        waiting[-1].set_result(None)
    for _ in range(20):
        await asyncio.sleep(0)
    assert sink.idle
    assert len(cluster.all(EVENTS)) == 5
    running.cancel()
