"""What garbage collection promises, case by case: who goes, who stays, who waits."""

from typing import Any

from gpuaas.client.protocol import Propagation, Resource
from gpuaas.client.resources import CONFIG_MAPS, NODES, PODS, REPLICA_SETS, SECRETS
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.runtime.metadata import controller_reference, owners_of
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map, node, pod, replica_set, secret
from gpuaas.testing.time import scenario, stage

Object = dict[str, Any]


def _owned(obj: Object, *owners: Object, block: bool = True) -> Object:
    references = [
        {**controller_reference(owner, CONFIG_MAPS), "controller": False, "blockOwnerDeletion": block}
        for owner in owners
    ]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": references}}


def _chain(cluster: FakeCluster) -> None:
    """a owns b owns c."""
    a = cluster.put(CONFIG_MAPS, config_map("a"))
    b = cluster.put(CONFIG_MAPS, _owned(config_map("b"), a))
    cluster.put(CONFIG_MAPS, _owned(config_map("c"), b))


def _names(cluster: FakeCluster) -> list[str]:
    return [obj["metadata"]["name"] for obj in cluster.all(CONFIG_MAPS)]


@scenario
async def test_background_the_owner_goes_at_once_and_all_below_follows() -> None:
    async with stage(GarbageCollector) as on:
        _chain(on.cluster)
        await on.settle()
        assert _names(on.cluster) == ["a", "b", "c"]
        await on.cluster.delete(CONFIG_MAPS, "a", "default", propagation=Propagation.BACKGROUND)
        await on.settle()
        assert _names(on.cluster) == []


@scenario
async def test_foreground_the_owner_goes_last() -> None:
    async with stage(GarbageCollector) as on:
        _chain(on.cluster)
        held = on.cluster.read(CONFIG_MAPS, "c", "default")
        on.cluster.put(CONFIG_MAPS, {**held, "metadata": {**held["metadata"], "finalizers": ["x/y"]}})
        await on.settle()
        await on.cluster.delete(CONFIG_MAPS, "a", "default", propagation=Propagation.FOREGROUND)
        await on.settle()
        assert _names(on.cluster) == ["a", "b", "c"], "each waits for the one below"
        await on.cluster.patch(CONFIG_MAPS, "c", {"metadata": {"finalizers": None}}, "default")
        await on.settle()
        assert _names(on.cluster) == []
        deleted = [write.key for write in on.cluster.writes if write.verb == "patch"]
        assert deleted[-2:] == ["default/b", "default/a"]


@scenario
async def test_foreground_does_not_wait_for_who_does_not_block() -> None:
    async with stage(GarbageCollector) as on:
        a = on.cluster.put(CONFIG_MAPS, config_map("a"))
        on.cluster.put(CONFIG_MAPS, _owned(config_map("b", finalizers=["x/y"]), a, block=False))
        await on.settle()
        await on.cluster.delete(CONFIG_MAPS, "a", "default", propagation=Propagation.FOREGROUND)
        await on.settle()
        assert _names(on.cluster) == ["b"]
        assert on.cluster.read(CONFIG_MAPS, "b", "default")["metadata"]["deletionTimestamp"]


@scenario
async def test_orphan_the_dependents_stay_and_lose_the_reference() -> None:
    async with stage(GarbageCollector) as on:
        _chain(on.cluster)
        await on.settle()
        await on.cluster.delete(CONFIG_MAPS, "a", "default", propagation=Propagation.ORPHAN)
        await on.settle()
        assert _names(on.cluster) == ["b", "c"]
        assert not owners_of(on.cluster.read(CONFIG_MAPS, "b", "default"))


@scenario
async def test_two_owners_one_gone_only_the_reference_to_it_goes() -> None:
    async with stage(GarbageCollector) as on:
        a = on.cluster.put(CONFIG_MAPS, config_map("a"))
        b = on.cluster.put(CONFIG_MAPS, config_map("b"))
        on.cluster.put(CONFIG_MAPS, _owned(config_map("child"), a, b))
        await on.settle()
        on.cluster.remove(CONFIG_MAPS, "a", "default")
        await on.settle()
        assert [ref["name"] for ref in owners_of(on.cluster.read(CONFIG_MAPS, "child", "default"))] == ["b"]
        on.cluster.remove(CONFIG_MAPS, "b", "default")
        await on.settle()
        assert _names(on.cluster) == []


@scenario
async def test_two_owners_one_waiting_in_the_foreground_the_other_keeps_the_child() -> None:
    async with stage(GarbageCollector) as on:
        a = on.cluster.put(CONFIG_MAPS, config_map("a"))
        b = on.cluster.put(CONFIG_MAPS, config_map("b"))
        on.cluster.put(CONFIG_MAPS, _owned(config_map("child"), a, b))
        await on.settle()
        await on.cluster.delete(CONFIG_MAPS, "a", "default", propagation=Propagation.FOREGROUND)
        await on.settle()
        assert _names(on.cluster) == ["b", "child"]


@scenario
async def test_a_circle_in_foreground_deletion_comes_to_an_end() -> None:
    async with stage(GarbageCollector) as on:
        a = on.cluster.put(CONFIG_MAPS, config_map("a"))
        b = on.cluster.put(CONFIG_MAPS, _owned(config_map("b"), a))
        on.cluster.put(CONFIG_MAPS, _owned(config_map("a"), b))
        await on.settle()
        await on.cluster.delete(CONFIG_MAPS, "a", "default", propagation=Propagation.FOREGROUND)
        await on.advance(60)
        assert _names(on.cluster) == []


@scenario
async def test_an_object_whose_owner_never_existed_goes() -> None:
    async with stage(GarbageCollector) as on:
        ghost = {"metadata": {"name": "ghost", "uid": "no-such-uid"}}
        on.cluster.put(CONFIG_MAPS, _owned(config_map("child"), ghost))
        await on.settle()
        assert _names(on.cluster) == []


@scenario
async def test_an_owner_of_the_right_name_but_another_uid_does_not_count() -> None:
    async with stage(GarbageCollector) as on:
        a = on.cluster.put(CONFIG_MAPS, config_map("a"))
        other = {"metadata": {**a["metadata"], "uid": "of-an-earlier-a"}}
        on.cluster.put(CONFIG_MAPS, _owned(config_map("child"), other))
        await on.settle()
        assert _names(on.cluster) == ["a"]


@scenario
async def test_an_owner_in_another_namespace_does_not_count_and_that_is_said() -> None:
    async with stage(GarbageCollector) as on:
        a = on.cluster.put(CONFIG_MAPS, config_map("a", "far"))
        uid = a["metadata"]["uid"]
        on.cluster.put(CONFIG_MAPS, _owned(config_map("child"), a))
        await on.settle()
        assert _names(on.cluster) == ["a"]
        assert on.cluster.events() == [
            "Warning OwnerRefInvalidNamespace configmap/child "
            f'ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {uid}] does not exist in namespace "default"'
        ]


@scenario
async def test_a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone() -> None:
    async with stage(GarbageCollector) as on:
        ghost = {"metadata": {"name": "ghost", "uid": "no-such-uid"}}
        on.cluster.put(NODES, _owned(node("n"), ghost))
        await on.advance(60)
        assert on.cluster.exists(NODES, "n")


@scenario
async def test_a_cluster_scoped_owner_counts_in_every_namespace() -> None:
    async with stage(GarbageCollector) as on:
        owner = on.cluster.put(NODES, node("n"))
        child = secret("s", "far")
        child["metadata"]["ownerReferences"] = [controller_reference(owner, NODES)]
        on.cluster.put(SECRETS, child)
        await on.settle()
        assert on.cluster.exists(SECRETS, "s", "far")
        on.cluster.remove(NODES, "n")
        await on.settle()
        assert not on.cluster.exists(SECRETS, "s", "far")


@scenario
async def test_custom_resources_are_collected_from_the_moment_they_are_served() -> None:
    widgets = Resource("example.com", "v1", "widgets", True, "Widget")
    async with stage(GarbageCollector) as on:
        on.cluster.serve(widgets)
        await on.settle()
        owner = on.cluster.put(widgets, {"metadata": {"name": "w", "namespace": "default"}})
        on.cluster.put(PODS, pod("p", owner=(widgets, owner)))
        await on.settle()
        assert on.cluster.exists(PODS, "p", "default")
        on.cluster.remove(widgets, "w", "default")
        await on.settle()
        assert not on.cluster.exists(PODS, "p", "default")
        on.cluster.unserve(widgets)
        await on.settle()
        on.cluster.serve(widgets)
        await on.settle()
        owner = on.cluster.put(widgets, {"metadata": {"name": "w2", "namespace": "default"}})
        on.cluster.put(PODS, pod("p2", owner=(widgets, owner)))
        await on.settle()
        on.cluster.remove(widgets, "w2", "default")
        await on.settle()
        assert not on.cluster.exists(PODS, "p2", "default")


@scenario
async def test_an_owner_of_a_kind_nobody_knows_yet_is_waited_for() -> None:
    widgets = Resource("example.com", "v1", "widgets", True, "Widget")
    async with stage(GarbageCollector) as on:
        unknown = {"metadata": {"name": "w", "uid": "u"}}
        on.cluster.put(PODS, pod("p", owner=(widgets, unknown)))
        await on.advance(30)
        assert on.cluster.exists(PODS, "p", "default")
        on.cluster.serve(widgets)
        await on.advance(2000)
        assert not on.cluster.exists(PODS, "p", "default"), (
            "now that the kind is known, the owner is known to be absent"
        )


@scenario
async def test_a_busy_object_does_not_escape() -> None:
    cluster = FakeCluster()
    async with stage(GarbageCollector, cluster=cluster) as on:
        owner = cluster.put(REPLICA_SETS, replica_set("r", 1))
        cluster.put(PODS, pod("p", owner=(REPLICA_SETS, owner)))
        await on.settle()
        cluster.remove(REPLICA_SETS, "r", "default")
        cluster.put(PODS, pod("p", owner=(REPLICA_SETS, owner), phase="Running"))
        await on.settle()
        assert not cluster.exists(PODS, "p", "default")
