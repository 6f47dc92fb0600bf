"""What OpenShift's Kueue object means: its part of the configuration, and what of the file it leaves as it is."""

from typing import Any

import pytest

from gpuaas.engine.config import BOTH_STRATEGIES
from gpuaas.engine.supervise import ReadyRules
from gpuaas.engine.usage_share import UsageConfig
from gpuaas.kueue.configuration.operator import follow, from_kueue_object
from gpuaas.kueue.configuration.settings import Configuration, Configured

from .test_configuration import read


def kueue(**config: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "cluster", "generation": 1},
        "spec": {"config": {"integrations": {"frameworks": ["BatchJob", "RayCluster"]}, **config}},
    }


def told(**config: Any) -> Configuration:
    return from_kueue_object(kueue(**config), Configuration()).configuration


def test_the_object_holds_jobs_of_its_frameworks_in_labelled_namespaces() -> None:
    jobs = told().jobs
    assert jobs.frameworks == {"batch/job", "ray.io/raycluster"}
    assert jobs.selects({"kueue.openshift.io/managed": "true"})
    assert not jobs.selects({})


@pytest.mark.parametrize(("policy", "held"), [(None, True), ("", True), ("None", True), ("QueueName", False)], ids=str)
def test_what_the_label_policy_says_of_jobs_without_a_queue(policy: str | None, held: bool) -> None:
    said = {} if policy is None else {"workloadManagement": {"labelPolicy": policy}}
    assert told(**said).jobs.holds_without_queue({"kueue.openshift.io/managed": "true"}) is held


def test_the_preemption_policy_chooses_fair_sharing() -> None:
    assert told(preemption={"preemptionPolicy": "Classical"}).engine.fair_sharing is None
    assert told(preemption={"preemptionPolicy": "FairSharing"}).engine.fair_sharing == BOTH_STRATEGIES


@pytest.mark.parametrize(
    ("gang", "ready", "block"),
    [
        ({"policy": "ByWorkloadDefaults"}, ReadyRules(), False),
        (
            {"policy": "None"},
            ReadyRules(timeout=365 * 86_400_000, recovery_timeout=365 * 86_400_000),
            False,
        ),
        (
            {
                "policy": "ByWorkload",
                "byWorkload": {
                    "admission": "Sequential",
                    "timeoutSeconds": 60,
                    "recoveryTimeoutSeconds": 0,
                    "requeuingStrategy": {"retryLimit": 2, "backoffBaseSeconds": 30},
                },
            },
            ReadyRules(60_000, None, 30_000, 3_600_000, 2),
            True,
        ),
    ],
    ids=["defaults", "none", "by workload"],
)
def test_gang_scheduling_is_waiting_for_pods(gang: dict[str, Any], ready: ReadyRules, block: bool) -> None:
    found = told(gangScheduling=gang)
    assert (found.ready, found.engine.block_admission) == (ready, block)


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"configuration": "Default"}, UsageConfig(1_800_000, 300_000)),
        (
            {
                "configuration": "Custom",
                "custom": {"usageHalfLifeTimeSeconds": 60, "resourceWeights": [{"name": "cpu", "weight": ".5"}]},
            },
            UsageConfig(60_000, 300_000, (("cpu", 0.5),)),
        ),
    ],
    ids=["default", "custom"],
)
def test_admission_fair_sharing_of_the_object(said: dict[str, Any], usage: UsageConfig) -> None:
    assert told(admissionFairSharing=said).engine.usage_sharing == usage


def test_what_the_object_cannot_say_stays_as_the_file_has_it() -> None:
    file = read(
        resources={"excludeResourcePrefixes": ["example.com/"]},
        objectRetentionPolicies={"workloads": {"afterFinished": "1h", "afterDeactivatedByKueue": "2h"}},
        waitForPodsReady={"timeout": "1m"},
    )
    found = from_kueue_object(kueue(), file).configuration
    assert found.resources.exclude_prefixes == ("example.com/",)
    assert (found.finished_kept, found.jobs.delete_deactivated_after) == (3600, 7200)
    assert found.ready == ReadyRules()


def test_who_depends_on_the_configuration_is_told_once_of_each_change() -> None:
    configured, heard = Configured(), []
    configured.subscribe(lambda before, now: heard.append((before.engine.fair_sharing, now.engine.fair_sharing)))
    follow(kueue(preemption={"preemptionPolicy": "FairSharing"}), configured)
    follow(kueue(preemption={"preemptionPolicy": "FairSharing"}), configured)
    configured.become(configured.started_with)
    assert heard == [(None, BOTH_STRATEGIES), (BOTH_STRATEGIES, None)]


def test_gates_of_the_file_hold_with_the_object_too() -> None:
    off = {"ElasticJobsViaWorkloadSlices": False, "ValidateRayAndSparkJobUpdates": False, "ReclaimablePods": False}
    on = {"WorkloadPriorityClassDefaulting": True, "PrioritizePreemptorWorkloads": True, "TASBalancedPlacement": True}
    found = from_kueue_object(kueue(), read(featureGates={**off, **on})).configuration
    assert [found.jobs.elastic, found.jobs.checks_whoever_was_held, found.counts.reclaims] == [False] * 3
    assert found.jobs.default_class
    assert (found.engine.preemptors_first, found.engine.balanced) == (True, True)


def test_an_object_that_is_not_managed_changes_nothing() -> None:
    configured = Configured()
    follow({**kueue(), "spec": {**kueue()["spec"], "managementState": "Unmanaged"}}, configured)
    assert configured.now == Configuration()
