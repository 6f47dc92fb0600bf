"""The client inside the process: the same verbs, rules and events as over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gpuaas.apiserver.local import LocalClient, LocalDiscovery
from gpuaas.base.errors import AlreadyExists, BadRequest, Conflict, Expired, Invalid, NotFound, PathNotFound
from gpuaas.client.protocol import PatchKind, Propagation, Resource
from gpuaas.runtime.eager import begin
from gpuaas.store import writer

from .conftest import Api

MAPS = Resource("", "v1", "configmaps", True, "ConfigMap")
QUEUES = Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", False, "ClusterQueue")


@pytest.fixture
def client(api: Api) -> LocalClient:
    return LocalClient(api.parts.cluster, api.parts.access.system_user("test"), "tester")


def told(api: Api, story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return api.run(asyncio.wait_for(story(), 30))


def config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"of": "local"}}, "data": data}


def test_an_object_is_made_changed_and_deleted(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        made = await client.create(MAPS, config("life", a="1"), "default")
        assert made["metadata"]["managedFields"][0]["manager"] == "tester"
        patched = await client.patch(MAPS, "life", {"data": {"a": "2"}}, "default")
        assert patched["data"] == {"a": "2"}
        await client.patch(
            MAPS, "life", [{"op": "add", "path": "/data/b", "value": "3"}], "default", kind=PatchKind.JSON
        )
        assert (await client.get(MAPS, "life", "default"))["data"] == {"a": "2", "b": "3"}
        await client.delete(MAPS, "life", "default", propagation=Propagation.BACKGROUND)
        with pytest.raises(NotFound):
            await client.get(MAPS, "life", "default")

    told(api, story)


def test_a_write_under_way_is_shown_before_it_can_be_read_and_others_come_after_it(
    api: Api, client: LocalClient
) -> None:
    async def story() -> None:
        await client.create(MAPS, config("first", a="1"), "default")
        first = begin(client.patch(MAPS, "first", {"data": {"a": "2"}}, "default"))
        assert (client.under_way(MAPS, "first", "default") or {})["data"] == {"a": "2"}
        assert (await client.get(MAPS, "first", "default"))["data"] == {"a": "1"}
        second = await client.create(MAPS, config("second"), "default")
        assert int((await first)["metadata"]["resourceVersion"]) < int(second["metadata"]["resourceVersion"])
        assert client.under_way(MAPS, "never", "default") is None

    told(api, story)


def test_it_is_refused_what_others_are_refused(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        await client.create(MAPS, config("twice"), "default")
        with pytest.raises(AlreadyExists):
            await client.create(MAPS, config("twice"), "default")
        with pytest.raises(Invalid):
            await client.create(MAPS, config("Not A Name"), "default")
        with pytest.raises(NotFound):
            await client.create(MAPS, config("nowhere"), "no-such-namespace")
        stale = config("twice") | {"metadata": {"name": "twice", "resourceVersion": "1"}}
        with pytest.raises(Conflict):
            await client.update(MAPS, stale, "default")
        with pytest.raises(Conflict):
            await client.delete(MAPS, "twice", "default", uid="another")
        with pytest.raises(PathNotFound):
            await client.get(Resource("nothing.org", "v1", "things", True, "Thing"), "x", "default")
        with pytest.raises(BadRequest):
            await client.list(MAPS, "default", labels="a in (")

    told(api, story)


def test_a_dry_run_leaves_nothing(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        await client.create(MAPS, config("dry"), "default", dry_run=True)
        with pytest.raises(NotFound):
            await client.get(MAPS, "dry", "default")

    told(api, story)


def test_a_list_comes_in_pages_that_fit_together(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        for number in range(5):
            await client.create(MAPS, config(f"page-{number}"), "kube-public")
        first = await client.list(MAPS, "kube-public", labels="of=local", limit=2)
        await client.delete(MAPS, "page-4", "kube-public")
        second = await client.list(MAPS, "kube-public", labels="of=local", limit=9, continue_=first.continue_)
        assert [each["metadata"]["name"] for each in (*first.items, *second.items)] == [f"page-{n}" for n in range(5)]

    told(api, story)


def test_a_watch_begins_where_it_is_told_and_sees_each_change_once(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        since = (await client.list(MAPS, "default")).resource_version
        await client.create(MAPS, config("seen", a="1"), "default")
        events = client.watch(MAPS, "default", resource_version=since, fields="metadata.name=seen")
        assert (await anext(events)).type == "ADDED"
        await client.patch(MAPS, "seen", {"data": {"a": "2"}}, "default")
        await client.create(MAPS, config("unseen"), "default")
        await client.delete(MAPS, "seen", "default")
        assert [(await anext(events)).type for _ in range(2)] == ["MODIFIED", "DELETED"]
        await events.aclose()

    told(api, story)


def test_a_watch_without_a_revision_begins_with_what_is_there(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        await client.create(MAPS, config("there"), "kube-node-lease")
        events = client.watch(MAPS, "kube-node-lease")
        first = await anext(events)
        assert (first.type, first.object["metadata"]["name"]) == ("ADDED", "there")
        await events.aclose()

    told(api, story)


def unowned(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key != "managedFields"}


def test_outlines_tell_of_the_same_objects_without_their_content_and_who_owns_it(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        made = await client.create(MAPS, config("outlined", a="1"), "default")
        listed = await client.list(MAPS, "default", fields="metadata.name=outlined", outline=True)
        expected = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": unowned(made["metadata"])}
        assert listed.items == [expected]
        since = listed.resource_version
        events = client.watch(MAPS, "default", resource_version=since, outline=True)
        changed = await client.patch(MAPS, "outlined", {"data": {"a": "2"}}, "default")
        await client.delete(MAPS, "outlined", "default")
        first, second = await anext(events), await anext(events)
        assert first == ("MODIFIED", {**expected, "metadata": unowned(changed["metadata"])})
        gone = {
            "name": "outlined",
            "namespace": "default",
            "resourceVersion": second.object["metadata"]["resourceVersion"],
        }
        assert second == ("DELETED", {**expected, "metadata": gone})
        assert int(gone["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])
        await events.aclose()

    told(api, story)


def test_a_collection_of_any_length_is_deleted_a_few_at_a_time(
    api: Api, client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        for start in range(0, 1_000, 100):
            await asyncio.gather(*(client.create(MAPS, config(f"m{start + n}"), "default") for n in range(100)))
        writing = api.parts.cluster.store._writer
        monkeypatch.setattr(writer, "_IN_FLIGHT", 300)
        monkeypatch.setattr(writing, "_ceiling", writing._handed_out + 300)
        await client.delete_collection(MAPS, "default", labels="of=local")
        assert (await client.list(MAPS, "default", labels="of=local")).items == []

    told(api, story)


def test_a_watch_from_a_past_that_is_forgotten_says_so(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        for number in range(3):
            await client.create(MAPS, config(f"past-{number}"), "default")
        await api.parts.cluster.store.compact(api.parts.cluster.store.revision - 1)
        with pytest.raises(Expired):
            await anext(client.watch(MAPS, "default", resource_version="1"))

    told(api, story)


def test_another_version_is_converted_both_ways(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        group = {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "2"}]}],
        }
        body = {
            "metadata": {"name": "older"},
            "spec": {"cohort": "c", "namespaceSelector": {}, "resourceGroups": [group]},
        }
        made = await client.create(QUEUES, body)
        assert (made["apiVersion"], made["spec"]["cohort"]) == ("kueue.x-k8s.io/v1beta1", "c")
        newer = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", False, "ClusterQueue")
        assert (await client.get(newer, "older"))["spec"]["cohortName"] == "c"

    told(api, story)


def test_a_collection_is_deleted(api: Api, client: LocalClient) -> None:
    async def story() -> None:
        await client.create(
            MAPS, {**config("gone-1"), "metadata": {"name": "gone-1", "labels": {"gone": "yes"}}}, "default"
        )
        await client.delete_collection(MAPS, "default", labels="gone=yes")
        assert not (await client.list(MAPS, "default", labels="gone=yes")).items

    told(api, story)


def test_discovery_tells_when_something_new_is_served(api: Api) -> None:
    told_of: list[str] = []
    discovery = LocalDiscovery(api.parts.cluster)
    discovery.subscribe(lambda: told_of.append("changed"))
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "news", "singular": "new", "kind": "New"}
    spec = {"group": "local.example", "scope": "Cluster", "names": names, "versions": [version]}
    api.send(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": {"name": "news.local.example"}, "spec": spec},
    )
    for _ in range(1_000):
        if told_of:
            break
        api.run(asyncio.sleep(0.001))
    served = {each.resource.plural for each in told(api, discovery.resources)}
    assert "news" in served
    assert "selfsubjectaccessreviews" not in served, "a question is nothing that is there"
