"""What /metrics tells of Kueue: upstream's names, labels, kinds and buckets, and numbers that are true."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuaas.base.clock import VirtualClock, rfc3339
from gpuaas.base.selectors import from_label_selector
from gpuaas.client.kueue import CLUSTER_QUEUES, COHORTS, KUEUE, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, NAMESPACES, PODS
from gpuaas.controllers.integrations.kinds import controller_for
from gpuaas.controllers.integrations.pods import PodController
from gpuaas.controllers.kueue import KueueCore, QueueStatuses
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.kueue.configuration.settings import Configuration, Configured, MetricsConfig
from gpuaas.kueue.integrations.registry import JOB_KINDS
from gpuaas.observe.kueue import MEASURES, new_series
from gpuaas.observe.requests import RequestCounter, render
from gpuaas.observe.series import Measure, Series
from gpuaas.runtime.controller import Deps
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import Stage, scenario, stage

CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
WITH_RESOURCES = Configuration(metrics=MetricsConfig(cluster_queue_resources=True))


class World:
    def __init__(self, on: Stage, core: KueueCore, statuses: QueueStatuses) -> None:
        self.on = on
        self._collector = core.collector(statuses)

    def text(self) -> str:
        return render(RequestCounter(), {}, [self._collector.lines]).decode()

    def value(self, series: str) -> float | None:
        """The value of `name{labels}`, the label every series has left out."""
        name, _, rest = series.partition("{")
        labels = dict(re.findall(r'(\w+)="([^"]*)"', rest)) | {"replica_role": "standalone"}
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                if (sample.name, sample.labels) == (name, labels):
                    return float(sample.value)
        return None

    def names(self) -> set[str]:
        return {line.split("{")[0] for line in self.text().splitlines() if line.startswith("kueue_")}


@asynccontextmanager
async def house(configuration: Configuration | None = None) -> AsyncIterator[World]:
    """A queue `research` of 4 GPUs in cohort `all` with LocalQueue `main`."""
    configured, made = Configured(configuration), []

    def core(deps: Deps) -> KueueCore:
        made.append(KueueCore(deps, configured))
        return made[0]

    def statuses(deps: Deps) -> QueueStatuses:
        made.append(QueueStatuses(deps, configured))
        return made[1]

    cluster = FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE))
    async with stage(core, statuses, cluster=cluster) as on:
        cluster.put(NAMESPACES, namespace("team"))
        cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "l4"}, "spec": {}})
        queue(on, "research", 4, preemption={"withinClusterQueue": "LowerPriority"})
        cluster.put(LOCAL_QUEUES, _named("main", spec={"clusterQueue": "research"}, labels={"told": "yes"}))
        await on.settle()
        yield World(on, *made)


def queue(on: Stage, name: str, gpus: int, **spec: Any) -> None:
    quota = {"name": "nvidia.com/gpu", "nominalQuota": str(gpus), "borrowingLimit": "2"}
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "l4", "resources": [quota]}]}
    whole = {"resourceGroups": [group], "namespaceSelector": {}, "cohortName": "all", **spec}
    on.cluster.put(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": whole})


def _named(name: str, **rest: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team", "labels": rest.get("labels", {})}, "spec": rest["spec"]}


def workload(on: Stage, name: str, gpus: int, *, priority: int = 0, queue: str = "main") -> None:
    containers = [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
    pod_set = {"name": "main", "count": gpus, "template": {"spec": {"containers": containers}}}
    spec = {"queueName": queue, "podSets": [pod_set], "priority": priority, "active": True}
    on.cluster.put(WORKLOADS, _named(name, spec=spec))


def mark(on: Stage, name: str, kind: str, reason: str) -> None:
    found = on.cluster.read(WORKLOADS, name, "team").get("status") or {}
    others = [each for each in found.get("conditions") or () if each["type"] != kind]
    now = rfc3339(on.clock.now())
    condition = {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}
    on.cluster.set_status(WORKLOADS, name, "team", conditions=[*others, condition])


UPSTREAM = {
    "kueue_admission_attempts_total": ("counter", {"result"}),
    "kueue_admission_attempt_duration_seconds": ("histogram", {"result"}),
    "kueue_pending_workloads": ("gauge", {"cluster_queue", "status"}),
    "kueue_local_queue_pending_workloads": ("gauge", {"name", "namespace", "status"}),
    "kueue_quota_reserved_workloads_total": ("counter", {"cluster_queue", "priority_class"}),
    "kueue_quota_reserved_wait_time_seconds": ("histogram", {"cluster_queue", "priority_class"}),
    "kueue_admitted_workloads_total": ("counter", {"cluster_queue", "priority_class"}),
    "kueue_admission_wait_time_seconds": ("histogram", {"cluster_queue", "priority_class"}),
    "kueue_admission_checks_wait_time_seconds": ("histogram", {"cluster_queue", "priority_class"}),
    "kueue_evicted_workloads_total": ("counter", {"cluster_queue", "reason", "underlying_cause", "priority_class"}),
    "kueue_preempted_workloads_total": ("counter", {"preempting_cluster_queue", "reason"}),
    "kueue_cluster_queue_status": ("gauge", {"cluster_queue", "status"}),
    "kueue_cluster_queue_resource_usage": ("gauge", {"cohort", "cluster_queue", "flavor", "resource"}),
    "kueue_cluster_queue_nominal_quota": ("gauge", {"cohort", "cluster_queue", "flavor", "resource"}),
    "kueue_cluster_queue_weighted_share": ("gauge", {"cluster_queue", "cohort"}),
    "kueue_cohort_weighted_share": ("gauge", {"cohort"}),
}


@pytest.mark.parametrize("name", UPSTREAM)
def test_names_kinds_and_labels_are_upstreams(name: str) -> None:
    kind, labels = UPSTREAM[name]
    assert (MEASURES[name].kind, set(MEASURES[name].labels)) == (kind, labels)


def test_waits_are_sorted_into_upstreams_buckets() -> None:
    doubling = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
    assert MEASURES["kueue_quota_reserved_wait_time_seconds"].buckets == doubling
    assert MEASURES["kueue_admission_wait_time_seconds"].buckets == (*doubling, 20480, 40960)
    assert MEASURES["kueue_local_queue_admission_wait_time_seconds"].buckets == doubling


@scenario
async def test_who_waits_in_line_until_something_changes_and_who_runs() -> None:
    async with house() as world:
        workload(world.on, "running", 3)
        await world.on.settle()
        workload(world.on, "large", 4)
        workload(world.on, "as-large", 4)
        await world.on.settle()
        assert world.value('kueue_pending_workloads{cluster_queue="research",status="active"}') == 0
        assert world.value('kueue_pending_workloads{cluster_queue="research",status="inadmissible"}') == 2
        name = 'kueue_local_queue_pending_workloads{name="main",namespace="team",status="inadmissible"}'
        assert world.value(name) == 2
        assert world.value('kueue_reserving_active_workloads{cluster_queue="research"}') == 1
        assert world.value('kueue_admitted_active_workloads{cluster_queue="research"}') == 1
        assert world.value('kueue_local_queue_admitted_active_workloads{name="main",namespace="team"}') == 1
        assert world.value('kueue_cohort_subtree_admitted_active_workloads{cohort="all"}') == 1


@scenario
async def test_a_cohort_that_moves_takes_those_who_run_below_it_along() -> None:
    """Upstream counts up and down on the way to the root of the day: after a move it is wrong, and may fall below none."""
    async with house() as world:
        world.on.cluster.put(COHORTS, {"metadata": {"name": "all"}, "spec": {"parentName": "old"}})
        workload(world.on, "running", 3)
        await world.on.settle()
        name = 'kueue_cohort_subtree_admitted_active_workloads{{cohort="{}"}}'
        assert (world.value(name.format("old")), world.value(name.format("new"))) == (1, None)
        world.on.cluster.put(COHORTS, {"metadata": {"name": "all"}, "spec": {"parentName": "new"}})
        await world.on.settle()
        assert (world.value(name.format("old")), world.value(name.format("new"))) == (None, 1)


@scenario
async def test_nobody_is_in_line_in_a_stopped_queue() -> None:
    async with house() as world:
        queue(world.on, "research", 4, stopPolicy="Hold")
        workload(world.on, "waiting", 1)
        await world.on.settle()
        assert world.value('kueue_pending_workloads{cluster_queue="research",status="active"}') == 0
        assert world.value('kueue_pending_workloads{cluster_queue="research",status="inadmissible"}') == 1
        assert world.value('kueue_cluster_queue_status{cluster_queue="research",status="pending"}') == 1
        assert world.value('kueue_cluster_queue_status{cluster_queue="research",status="active"}') == 0
        assert world.value('kueue_local_queue_status{name="main",namespace="team",active="False"}') == 1


@scenario
async def test_a_whole_life_is_counted_with_how_long_each_part_took() -> None:
    async with house() as world:
        workload(world.on, "first", 4)
        await world.on.settle()
        workload(world.on, "second", 4)
        await world.on.advance(6)
        mark(world.on, "first", "Finished", "Succeeded")
        await world.on.settle()
        await world.on.advance(3)
        mark(world.on, "second", "PodsReady", "Started")
        await world.on.settle()
        where = 'cluster_queue="research",priority_class=""'
        assert world.value(f"kueue_quota_reserved_workloads_total{{{where}}}") == 2
        assert world.value(f"kueue_admitted_workloads_total{{{where}}}") == 2
        assert world.value(f"kueue_finished_workloads_total{{{where}}}") == 1
        assert world.value('kueue_finished_workloads{cluster_queue="research"}') == 1
        assert world.value(f"kueue_admission_wait_time_seconds_sum{{{where}}}") == 6
        assert world.value(f"kueue_ready_wait_time_seconds_sum{{{where}}}") == 9
        assert world.value(f"kueue_admitted_until_ready_wait_time_seconds_sum{{{where}}}") == 3
        local = 'name="main",namespace="team",priority_class=""'
        assert world.value(f"kueue_local_queue_admitted_workloads_total{{{local}}}") == 2
        assert world.value('kueue_cohort_subtree_admitted_workloads_total{cohort="all",priority_class=""}') == 2
        lines = [line for line in world.text().splitlines() if "admission_wait_time_seconds_bucket" in line]
        counts = {
            line.split(',le="')[1].split('"')[0]: line.rpartition(" ")[2] for line in lines if "cluster_q" in line
        }
        assert (counts["1"], counts["5"], counts["10"], counts["+Inf"]) == ("1", "1", "2", "2")


@scenario
async def test_a_preemption_is_counted_for_both_sides() -> None:
    async with house() as world:
        workload(world.on, "dev", 4)
        await world.on.settle()
        mark(world.on, "dev", "PodsReady", "Started")
        await world.on.advance(30)
        workload(world.on, "prod", 4, priority=100)
        await world.on.settle()
        rule = 'reason="InClusterQueue"'
        assert world.value(f'kueue_preempted_workloads_total{{preempting_cluster_queue="research",{rule}}}') == 1
        where = 'cluster_queue="research",reason="Preempted",underlying_cause=""'
        assert world.value(f'kueue_evicted_workloads_total{{{where},priority_class=""}}') == 1
        assert world.value(f'kueue_evicted_workloads_once_total{{{where},priority_class=""}}') == 1
        assert world.value(f"kueue_pods_ready_to_evicted_time_seconds_sum{{{where}}}") == 30


@scenario
async def test_with_the_object_of_a_cohort_its_numbers_go_until_something_happens_there() -> None:
    admitted = 'kueue_cohort_subtree_admitted_workloads_total{cohort="all",priority_class=""}'
    quota = 'kueue_cohort_subtree_quota{cohort="all",flavor="l4",resource="nvidia.com/gpu"}'
    async with house() as world:
        world.on.cluster.put(COHORTS, {"metadata": {"name": "all"}, "spec": {}})
        workload(world.on, "first", 1)
        await world.on.settle()
        assert (world.value(admitted), world.value(quota)) == (1, 4)
        world.on.cluster.remove(COHORTS, "all")
        await world.on.settle()
        assert (world.value(admitted), world.value(quota)) == (None, None)
        assert world.value('kueue_cohort_info{cohort="all",parent_cohort="",root_cohort="all"}') == 1
        workload(world.on, "second", 1)
        await world.on.settle()
        assert (world.value(admitted), world.value(quota)) == (1, 4)


@scenario
async def test_attempts_are_counted_by_whether_somebody_was_admitted() -> None:
    async with house() as world:
        workload(world.on, "fits", 1)
        await world.on.settle()
        workload(world.on, "does-not", 40)
        await world.on.settle()
        success = world.value('kueue_admission_attempts_total{result="success"}')
        inadmissible = world.value('kueue_admission_attempts_total{result="inadmissible"}')
        assert success == 1
        assert inadmissible is not None
        assert inadmissible >= 1
        assert world.value('kueue_admission_attempt_duration_seconds_count{result="success"}') == 1


@scenario
async def test_quotas_and_use_are_told_where_the_configuration_asks_for_it() -> None:
    async with house(WITH_RESOURCES) as world:
        workload(world.on, "running", 3)
        await world.on.settle()
        workload(world.on, "waiting", 9)
        await world.on.settle()
        where = '{cohort="all",cluster_queue="research",flavor="l4",resource="nvidia.com/gpu"}'
        assert world.value(f"kueue_cluster_queue_nominal_quota{where}") == 4
        assert world.value(f"kueue_cluster_queue_borrowing_limit{where}") == 2
        assert world.value(f"kueue_cluster_queue_lending_limit{where}") == float("inf")
        assert world.value(f"kueue_cluster_queue_resource_usage{where}") == 3
        assert world.value(f"kueue_cluster_queue_resource_reservation{where}") == 3
        pending = '{cluster_queue="research",resource="nvidia.com/gpu"}'
        assert world.value(f"kueue_cluster_queue_resource_pending{pending}") == 9
        local = '{name="main",namespace="team",flavor="l4",resource="nvidia.com/gpu"}'
        assert world.value(f"kueue_local_queue_resource_usage{local}") == 3


@scenario
async def test_quotas_of_queues_are_not_told_unasked() -> None:
    async with house() as world:
        assert not [name for name in world.names() if "quota" in name and "cohort" not in name]


@scenario
async def test_shares_are_told_where_sharing_is_fair() -> None:
    async with house(Configuration(engine=Config(fair_sharing=BOTH_STRATEGIES))) as world:
        queue(world.on, "lender", 4)
        world.on.cluster.put(COHORTS, {"metadata": {"name": "all"}, "spec": {}})
        workload(world.on, "borrower", 6)
        await world.on.settle()
        assert world.value('kueue_cluster_queue_weighted_share{cluster_queue="research",cohort="all"}') == 250
        assert world.value('kueue_cohort_weighted_share{cohort="all"}') == 0
        assert world.value('kueue_cohort_subtree_quota{cohort="all",flavor="l4",resource="nvidia.com/gpu"}') == 8
        where = '{cohort="all",flavor="l4",resource="nvidia.com/gpu"}'
        assert world.value(f"kueue_cohort_subtree_resource_reservations{where}") == 6
        where = '{cluster_queue="research",parent_cohort="all",root_cohort="all"}'
        assert world.value(f"kueue_cluster_queue_info{where}") == 1


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        (MetricsConfig(), True),
        (MetricsConfig(local_queues=False), False),
        (MetricsConfig(local_queue_selector=from_label_selector({"matchLabels": {"told": "yes"}})), True),
        (MetricsConfig(local_queue_selector=from_label_selector({"matchLabels": {"told": "no"}})), False),
    ],
    ids=["unasked", "off", "selected", "not selected"],
)
def test_local_queues_are_told_as_far_as_the_configuration_wants(metrics: MetricsConfig, told: bool) -> None:
    @scenario
    async def run() -> None:
        async with house(replace(Configuration(), metrics=metrics)) as world:
            workload(world.on, "running", 1)
            await world.on.settle()
            found = {name for name in world.names() if "local_queue" in name}
            assert ("kueue_local_queue_pending_workloads" in found) is told
            assert ("kueue_local_queue_admitted_workloads_total" in found) is told

    run()


@scenario
async def test_a_queue_that_is_gone_is_told_of_no_more() -> None:
    async with house() as world:
        workload(world.on, "done", 1)
        await world.on.settle()
        world.on.cluster.remove(WORKLOADS, "done", "team")
        world.on.cluster.remove(LOCAL_QUEUES, "main", "team")
        world.on.cluster.remove(CLUSTER_QUEUES, "research")
        await world.on.settle()
        assert 'cluster_queue="research"' not in world.text()
        assert 'name="main"' not in world.text()


def test_a_series_forgets_only_what_has_all_the_labels() -> None:
    measures = {"a": Measure("a", "counter", "", ("x", "y")), "b": Measure("b", "counter", "", ("x",))}
    series = Series(measures, {})
    for labels in (("1", "2"), ("1", "3")):
        series.count("a", *labels)
    series.count("b", "1")
    series.forget(x="1", y="2")
    assert [line for line in series.lines() if line[0] != "#"] == ['a{x="1",y="3"} 1', 'b{x="1"} 1']


@scenario
async def test_jobs_and_pods_are_counted_from_their_making_to_their_start() -> None:
    configured, series, made = Configured(), new_series(), []

    def core(deps: Deps) -> KueueCore:
        made.append(KueueCore(deps, configured, series))
        return made[0]

    def statuses(deps: Deps) -> QueueStatuses:
        made.append(QueueStatuses(deps, configured))
        return made[1]

    jobs, cluster = controller_for(JOB_KINDS[0]), FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE, CLASSES))
    loops = (lambda deps: jobs(deps, configured, series), lambda deps: PodController(deps, configured, series))
    async with stage(core, statuses, *loops, cluster=cluster) as on:
        cluster.put(NAMESPACES, namespace("team"))
        cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "l4"}, "spec": {}})
        queue(on, "research", 4)
        cluster.put(LOCAL_QUEUES, _named("main", spec={"clusterQueue": "research"}))
        labels = {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/managed": "true"}
        containers = [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
        template = {"spec": {"containers": containers}}
        cluster.put(JOBS, _named("job", labels=labels, spec={"suspend": True, "parallelism": 1, "template": template}))
        gates = [{"name": "kueue.x-k8s.io/admission"}]
        cluster.put(PODS, _named("pod", labels=labels, spec={**template["spec"], "schedulingGates": gates}))
        await on.settle()
        world = World(on, *made)
        for kind in ("Job", "Pod"):
            assert world.value(f'kueue_workload_creation_latency_seconds_count{{job_kind="{kind}"}}') == 1
        where = 'name="kueue.x-k8s.io/admission",cluster_queue="research",is_group="false"'
        assert world.value(f"kueue_pod_scheduling_gate_removal_seconds_count{{{where}}}") == 1


@scenario
async def test_a_cohorts_counts_go_with_the_last_that_names_it() -> None:
    admitted = 'kueue_cohort_subtree_admitted_workloads_total{cohort="all",priority_class=""}'
    async with house() as world:
        world.on.cluster.put(COHORTS, {"metadata": {"name": "all"}, "spec": {}})
        workload(world.on, "first", 1)
        await world.on.settle()
        queue(world.on, "research", 4, cohortName="other")
        await world.on.settle()
        assert world.value(admitted) == 1, "its object is still there"
        world.on.cluster.remove(COHORTS, "all")
        await world.on.settle()
        assert world.value(admitted) is None
