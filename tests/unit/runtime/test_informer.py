"""What a view of a resource promises: it holds what the server holds, after every kind of interruption."""

import asyncio
from typing import Any

from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import Unavailable
from gpuaas.client.resources import CONFIG_MAPS, PODS
from gpuaas.runtime.informer import Informers
from gpuaas.runtime.metadata import Key
from gpuaas.runtime.writes import ReadYourWrites
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map, pod
from gpuaas.testing.time import scenario


async def _turns(count: int = 40) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class _Seen:
    def __init__(self) -> None:
        self.news: list[str] = []

    def __call__(self, old: Any, new: Any) -> None:
        match old, new:
            case None, _:
                self.news.append(f"+{new['metadata']['name']}")
            case _, None:
                self.news.append(f"-{old['metadata']['name']}")
            case _:
                self.news.append(f"~{new['metadata']['name']}")


@scenario
async def test_list_then_watch_tells_everything_once() -> None:
    cluster = FakeCluster()
    cluster.put(CONFIG_MAPS, config_map("a"))
    informers = Informers(cluster, cluster.clock)
    seen = _Seen()
    view = informers.of(CONFIG_MAPS)
    view.subscribe(seen)
    informers.start()
    await view.synced()
    cluster.put(CONFIG_MAPS, config_map("b"))
    cluster.put(CONFIG_MAPS, config_map("a", data={"x": "1"}))
    await cluster.delete(CONFIG_MAPS, "b", "default")
    await _turns()
    assert seen.news == ["+a", "+b", "~a", "-b"]
    assert [obj["metadata"]["name"] for obj in view.all()] == ["a"]
    await informers.stop()


@scenario
async def test_who_asks_only_for_what_belongs_to_others_hears_of_nothing_else() -> None:
    cluster = FakeCluster()
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
    owned = config_map("owned")
    owned["metadata"]["ownerReferences"] = owner
    cluster.put(CONFIG_MAPS, owned)
    cluster.put(CONFIG_MAPS, config_map("free"))
    informers = Informers(cluster, cluster.clock)
    view, early, late = informers.of(CONFIG_MAPS), _Seen(), _Seen()
    view.subscribe(early, owned=True)
    informers.start()
    await view.synced()
    view.subscribe(late, owned=True)
    await cluster.patch(CONFIG_MAPS, "free", {"data": {"x": "1"}}, "default")
    await cluster.patch(CONFIG_MAPS, "free", {"metadata": {"ownerReferences": owner}}, "default")
    await cluster.patch(CONFIG_MAPS, "owned", {"metadata": {"ownerReferences": None}}, "default")
    await cluster.patch(CONFIG_MAPS, "owned", {"data": {"x": "1"}}, "default")
    await _turns()
    assert early.news == late.news == ["+owned", "~free", "~owned"]
    assert view.hears(early)
    view.unsubscribe(early)
    assert not view.hears(early)
    assert view.has_listeners
    await informers.stop()


@scenario
async def test_a_watch_that_ends_is_resumed_without_a_new_list() -> None:
    cluster = FakeCluster()
    informers = Informers(cluster, cluster.clock)
    seen = _Seen()
    view = informers.of(CONFIG_MAPS)
    view.subscribe(seen)
    informers.start()
    await view.synced()
    cluster.fail_next("list", CONFIG_MAPS, Unavailable("a list would fail"))
    await _turns()
    cluster.disconnect()
    cluster.put(CONFIG_MAPS, config_map("a"))
    await _turns()
    assert seen.news == ["+a"]
    await informers.stop()


@scenario
async def test_a_revision_that_is_gone_means_a_new_list_and_the_difference_is_told() -> None:
    cluster = FakeCluster()
    cluster.put(CONFIG_MAPS, config_map("stays"))
    cluster.put(CONFIG_MAPS, config_map("goes"))
    informers = Informers(cluster, cluster.clock)
    seen = _Seen()
    view = informers.of(CONFIG_MAPS)
    view.subscribe(seen)
    informers.start()
    await view.synced()
    await _turns()
    seen.news.clear()
    cluster.disconnect()
    cluster.remove(CONFIG_MAPS, "goes", "default")
    cluster.put(CONFIG_MAPS, config_map("comes"))
    cluster.compact()
    await _turns()
    assert sorted(seen.news) == ["+comes", "-goes"]
    await informers.stop()


@scenario
async def test_a_server_that_fails_is_asked_again_later() -> None:
    clock = VirtualClock()
    cluster = FakeCluster(clock)
    cluster.put(CONFIG_MAPS, config_map("a"))
    for _ in range(3):
        cluster.fail_next("list", CONFIG_MAPS, Unavailable("not yet"))
    informers = Informers(cluster, clock)
    view = informers.of(CONFIG_MAPS)
    informers.start()
    await _turns()
    assert not view.is_synced
    for _ in range(3):
        clock.advance(30)
        await _turns()
    assert view.is_synced
    assert view.get("default", "a") is not None
    await informers.stop()


@scenario
async def test_objects_are_found_by_owner_namespace_and_own_indexes() -> None:
    cluster = FakeCluster()
    owner = cluster.put(CONFIG_MAPS, config_map("owner"))
    cluster.put(PODS, pod("mine", owner=(CONFIG_MAPS, owner), node="n1"))
    cluster.put(PODS, pod("other", namespace="far", node="n2"))
    informers = Informers(cluster, cluster.clock)
    view = informers.of(PODS)
    view.add_index("node", lambda obj: (obj["spec"].get("nodeName", ""),))
    informers.start()
    await view.synced()

    def names(found: list[dict[str, Any]]) -> list[str]:
        return [obj["metadata"]["name"] for obj in found]

    assert names(view.owned_by(owner["metadata"]["uid"])) == ["mine"]
    assert names(view.in_namespace("far")) == ["other"]
    assert names(view.indexed("node", "n1")) == ["mine"]
    cluster.put(PODS, pod("mine", node="n2"))
    await _turns()
    assert view.owned_by(owner["metadata"]["uid"]) == []
    assert sorted(names(view.indexed("node", "n2"))) == ["mine", "other"]
    await informers.stop()


@scenario
async def test_a_writer_sees_its_own_writes() -> None:
    cluster = FakeCluster()
    informers = Informers(cluster, cluster.clock)
    view = informers.of(CONFIG_MAPS)
    informers.start()
    await view.synced()
    client = ReadYourWrites(cluster, informers)
    for number in range(5):
        made = await client.create(CONFIG_MAPS, config_map(f"c{number}"), "default")
        assert view.get("default", f"c{number}") == made
        changed = await client.patch(CONFIG_MAPS, f"c{number}", {"data": {"x": "y"}}, "default")
        assert view.get("default", f"c{number}") == changed
        await client.delete(CONFIG_MAPS, f"c{number}", "default")
        assert view.get("default", f"c{number}") is None
    await informers.stop()


@scenario
async def test_taking_off_the_last_finalizer_is_seen_as_the_end_of_the_object() -> None:
    cluster = FakeCluster()
    informers = Informers(cluster, cluster.clock)
    view = informers.of(CONFIG_MAPS)
    informers.start()
    await view.synced()
    client = ReadYourWrites(cluster, informers)
    await client.create(CONFIG_MAPS, config_map("held", finalizers=["x/y"]), "default")
    await client.delete(CONFIG_MAPS, "held", "default")
    assert view.get("default", "held") is not None
    await client.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, "default")
    assert view.get("default", "held") is None
    await informers.stop()


@scenario
async def test_waiting_writers_are_released_when_the_view_stops() -> None:
    cluster = FakeCluster()
    informers = Informers(cluster, cluster.clock)
    view = informers.of(CONFIG_MAPS)
    informers.start()
    await view.synced()
    waiters = [
        asyncio.create_task(view.caught_up(10**9)),
        asyncio.create_task(view.gone(Key("default", "x"), "u")),
    ]
    cluster.put(CONFIG_MAPS, config_map("x"))
    await _turns()
    await informers.stop()
    await asyncio.gather(*waiters)


@scenario
async def test_an_outline_keeps_metadata_and_tells_the_same_news() -> None:
    cluster = FakeCluster()
    cluster.put(CONFIG_MAPS, config_map("a", data={"x": "1"}))
    informers = Informers(cluster, cluster.clock)
    seen = _Seen()
    view = informers.outline(CONFIG_MAPS)
    view.subscribe(seen)
    informers.start()
    await view.synced()
    cluster.put(CONFIG_MAPS, config_map("b", data={"x": "2"}))
    cluster.put(CONFIG_MAPS, config_map("a", data={"x": "3"}))
    await _turns()
    client = ReadYourWrites(cluster, informers)
    await client.delete(CONFIG_MAPS, "b", "default")  # whoever writes waits for outlines too
    assert seen.news == ["+a", "+b", "~a", "-b"]
    assert [sorted(obj) for obj in view.all()] == [["apiVersion", "kind", "metadata"]]
    assert all("managedFields" not in obj["metadata"] for obj in view.all())
    await informers.stop()


@scenario
async def test_who_needs_whole_objects_gets_them_whoever_came_first() -> None:
    cluster = FakeCluster()
    cluster.put(CONFIG_MAPS, config_map("a", data={"x": "1"}))
    cluster.put(PODS, pod("p"))
    informers = Informers(cluster, cluster.clock)
    whole = informers.of(PODS)
    assert informers.outline(PODS) is whole, "one view is enough where it has everything"
    outline = informers.outline(CONFIG_MAPS)
    informers.start()
    late = informers.of(CONFIG_MAPS)
    await informers.synced()
    assert late is not outline
    assert [obj["data"] for obj in late.all()] == [{"x": "1"}]
    assert informers.outline(CONFIG_MAPS) is late
    await informers.stop()


@scenario
async def test_a_view_nobody_listens_to_any_more_is_given_up() -> None:
    cluster = FakeCluster()
    informers = Informers(cluster, cluster.clock)
    seen, other = _Seen(), _Seen()
    informers.outline(CONFIG_MAPS).subscribe(seen)
    informers.of(PODS).subscribe(other)
    informers.start()
    await informers.synced()
    await informers.release(CONFIG_MAPS, seen)
    assert informers.known(CONFIG_MAPS) is None
    assert informers.known(PODS) is not None
    await informers.stop()
