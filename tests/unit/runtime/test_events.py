"""What the recorder promises: told once, counted after that, never a flood."""

from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import Unavailable
from gpuaas.client.resources import CONFIG_MAPS, EVENTS
from gpuaas.runtime.controller import Deps
from gpuaas.runtime.events import NORMAL, WARNING
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
    from gpuaas.testing.cluster import FakeCluster

    cluster = FakeCluster(VirtualClock())
    assert Deps.over(cluster, cluster.clock, cluster).events.idle
