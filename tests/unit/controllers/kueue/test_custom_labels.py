"""Custom labels on /metrics: values of the objects each metric is about, of the time it counted or is told."""

from typing import Any

import pytest

from gpuaas.client.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.kueue.configuration.settings import Configuration, MetricsConfig
from gpuaas.kueue.metric_labels import CustomLabel, CustomLabels
from gpuaas.observe.kueue import MEASURES, widened
from gpuaas.testing.time import scenario

from .test_metrics import World, house, mark, queue, workload

CUSTOM = CustomLabels(
    (
        CustomLabel("team", "ClusterQueue", "team"),
        CustomLabel("owner", "LocalQueue", "owner", annotation=True),
        CustomLabel("site", "Cohort", "site"),
        CustomLabel("kind", "Workload", "kind", tracked=("train", "serve")),
    )
)
CONFIGURED = Configuration(
    engine=Config(fair_sharing=BOTH_STRATEGIES), metrics=MetricsConfig(cluster_queue_resources=True, custom=CUSTOM)
)


def label(world: World, resource: Any, name: str, *, namespace: str = "", **said: str) -> None:
    obj = world.on.cluster.read(resource, name, namespace)
    what = "annotations" if resource is LOCAL_QUEUES else "labels"
    metadata = {**obj["metadata"], what: {**(obj["metadata"].get(what) or {}), **said}}
    world.on.cluster.put(resource, {**obj, "metadata": metadata})


async def labelled(world: World) -> None:
    world.on.cluster.put(COHORTS, {"metadata": {"name": "all", "labels": {"site": "here"}}, "spec": {}})
    label(world, CLUSTER_QUEUES, "research", team="vision")
    label(world, LOCAL_QUEUES, "main", namespace="team", owner="ann")
    await world.on.settle()


TOLD = [
    'kueue_pending_workloads{cluster_queue="research",status="active",custom_team="vision"}',
    'kueue_local_queue_pending_workloads{name="main",namespace="team",status="active",custom_owner="ann"}',
    'kueue_cluster_queue_status{cluster_queue="research",status="active",custom_team="vision"}',
    'kueue_cluster_queue_nominal_quota{cohort="all",cluster_queue="research",flavor="l4",resource="nvidia.com/gpu"'
    ',custom_team="vision"}',
    'kueue_cohort_info{cohort="all",parent_cohort="",root_cohort="all",custom_site="here"}',
    'kueue_cohort_weighted_share{cohort="all",custom_site="here"}',
    'kueue_cluster_queue_weighted_share{cluster_queue="research",cohort="all",custom_team="vision"}',
    'kueue_admitted_workloads_total{cluster_queue="research",priority_class="",custom_team="vision"}',
    'kueue_local_queue_admitted_workloads_total{name="main",namespace="team",priority_class="",custom_owner="ann"}',
    'kueue_cohort_subtree_admitted_workloads_total{cohort="all",priority_class="",custom_site="here"}',
    'kueue_admission_wait_time_seconds_count{cluster_queue="research",priority_class="",custom_team="vision"}',
    'kueue_admission_attempts_total{result="success"}',
]


@scenario
async def test_every_metric_has_the_labels_of_the_object_it_is_about() -> None:
    async with house(CONFIGURED) as world:
        await labelled(world)
        workload(world.on, "one", 1)
        await world.on.settle()
        assert [each for each in TOLD if world.value(each) is None] == []


@scenario
async def test_what_stands_changes_its_labels_with_the_object_and_what_was_counted_keeps_them() -> None:
    async with house(CONFIGURED) as world:
        await labelled(world)
        workload(world.on, "one", 1)
        await world.on.settle()
        label(world, CLUSTER_QUEUES, "research", team="speech")
        await world.on.settle()
        status = 'kueue_cluster_queue_status{{cluster_queue="research",status="active",custom_team="{}"}}'
        count = 'kueue_admitted_workloads_total{{cluster_queue="research",priority_class="",custom_team="{}"}}'
        assert world.value(status.format("speech")) == 1
        assert world.value(status.format("vision")) is None
        assert world.value(count.format("vision")) == 1


@scenario
async def test_a_preemption_counts_for_the_team_that_took_the_room() -> None:
    async with house(CONFIGURED) as world:
        await labelled(world)
        workload(world.on, "small", 4)
        await world.on.settle()
        workload(world.on, "big", 4, priority=5)
        await world.on.settle()
        labels = 'preempting_cluster_queue="research",reason="InClusterQueue",custom_team="vision"'
        assert world.value(f"kueue_preempted_workloads_total{{{labels}}}") == 1


@scenario
async def test_admitted_workloads_are_told_by_their_own_labels_while_they_run() -> None:
    async with house(CONFIGURED) as world:
        await labelled(world)
        for name, kind in (("one", "train"), ("two", "train"), ("three", "serve"), ("four", "other")):
            workload(world.on, name, 1)
            label(world, WORKLOADS, name, namespace="team", kind=kind)
        await world.on.settle()
        admitted = 'kueue_admitted_active_workloads{{cluster_queue="research",custom_kind="{}",custom_team="vision"}}'
        assert world.value(admitted.format("train")) == 2
        assert world.value(admitted.format("serve")) == 1
        assert world.value(admitted.format("kueue.x-k8s.io/_UNTRACKED_VALUE_")) == 1
        mark(world.on, "one", "Finished", "JobFinished")
        label(world, WORKLOADS, "two", namespace="team", kind="serve")
        await world.on.settle()
        assert not world.value(admitted.format("train"))
        assert world.value(admitted.format("serve")) == 2


@scenario
async def test_without_custom_labels_nothing_is_added() -> None:
    async with house() as world:
        queue(world.on, "other", 1)
        await world.on.settle()
        assert "custom_" not in world.text()


@pytest.mark.parametrize("name", MEASURES)
def test_custom_labels_come_behind_the_metrics_own(name: str) -> None:
    own, wide = MEASURES[name].labels, widened(CUSTOM.names())[name].labels
    assert wide[: len(own)] == own
    assert all(each.startswith("custom_") for each in wide[len(own) :])
