"""Checks that ask an autoscaler for nodes, end to end: a request for each workload, its answers, and its end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gpuaas.base.clock import VirtualClock, rfc3339
from gpuaas.base.errors import BadRequest
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    KUEUE,
    LOCAL_QUEUES,
    PROVISIONING_CONFIGS,
    PROVISIONING_REQUESTS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from gpuaas.client.resources import NAMESPACES, POD_TEMPLATES
from gpuaas.controllers.kueue import KueueCore, Provisioning, ProvisioningChecks, QueueStatuses
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"


@asynccontextmanager
async def cluster(*, config: bool = True) -> AsyncIterator[Stage]:
    """A queue of 4 GPUs whose workloads wait for check `nodes`, which tries twice."""
    resources = (*BUILT_IN, *KUEUE, *(() if POD_TEMPLATES in BUILT_IN else (POD_TEMPLATES,)))
    kinds = (KueueCore, QueueStatuses, Provisioning, ProvisioningChecks)
    async with stage(*kinds, cluster=FakeCluster(VirtualClock(), resources=resources)) as on:
        put = on.cluster.put
        put(NAMESPACES, namespace("team"))
        put(RESOURCE_FLAVORS, {"metadata": {"name": "l4"}, "spec": {"nodeLabels": {"gpu": "l4"}}})
        if config:
            put_config(on)
        ref = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"}
        spec = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": ref}
        put(ADMISSION_CHECKS, {"metadata": {"name": "nodes"}, "spec": spec})
        quota = {"name": GPU, "nominalQuota": "4"}
        group = {"coveredResources": [GPU], "flavors": [{"name": "l4", "resources": [quota]}]}
        strategy = {"admissionChecks": [{"name": "nodes"}]}
        spec = {"resourceGroups": [group], "namespaceSelector": {}, "admissionChecksStrategy": strategy}
        put(CLUSTER_QUEUES, {"metadata": {"name": "q"}, "spec": spec})
        put(LOCAL_QUEUES, {"metadata": {"name": "main", "namespace": "team"}, "spec": {"clusterQueue": "q"}})
        await on.settle()
        yield on


def put_config(on: Stage, **spec: Any) -> None:
    retry = {"backoffLimitCount": 1, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    whole = {"provisioningClassName": "queued", "retryStrategy": retry, **spec}
    on.cluster.put(PROVISIONING_CONFIGS, {"metadata": {"name": "c"}, "spec": whole})


async def submitted(on: Stage, name: str = "wl") -> None:
    container = {"name": "c", "resources": {"requests": {GPU: "1"}}}
    pod_set = {"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": "main", "podSets": [pod_set], "active": True}
    on.cluster.put(WORKLOADS, {"metadata": {"name": name, "namespace": "team"}, "spec": spec})
    await on.settle()


async def answer(on: Stage, name: str, kind: str, words: str = "") -> None:
    now = rfc3339(on.clock.now())
    condition = {"type": kind, "status": "True", "reason": kind, "message": words, "lastTransitionTime": now}
    on.cluster.set_status(PROVISIONING_REQUESTS, name, "team", conditions=[condition])
    await on.settle()


def requests(on: Stage) -> list[str]:
    return sorted(each["metadata"]["name"] for each in on.cluster.all(PROVISIONING_REQUESTS))


def state(on: Stage) -> tuple[str, str]:
    [check] = on.cluster.read(WORKLOADS, "wl", "team")["status"]["admissionChecks"]
    return check["state"], check["message"]


def is_set(on: Stage, kind: str) -> bool:
    found = on.cluster.read(WORKLOADS, "wl", "team")["status"]["conditions"]
    return any(each["type"] == kind and each["status"] == "True" for each in found)


def leave(on: Stage) -> None:
    """Its job has stopped: nobody else gives the quota of an evicted workload back."""
    status = on.cluster.read(WORKLOADS, "wl", "team")["status"]
    conditions = [
        {**each, "status": "False", "reason": "Pending"} if each["type"] == "QuotaReserved" else each
        for each in status["conditions"]
    ]
    on.cluster.set_status(WORKLOADS, "wl", "team", conditions=conditions, admission=None)


def active(on: Stage) -> tuple[str, str]:
    [found] = on.cluster.read(ADMISSION_CHECKS, "nodes")["status"]["conditions"]
    return found["status"], found["message"]


@scenario
async def test_a_check_is_active_once_its_configuration_is_there() -> None:
    async with cluster(config=False) as on:
        assert active(on) == ("False", 'provisioningrequestconfigs.kueue.x-k8s.io "c" not found')
        put_config(on)
        await on.settle()
        assert active(on) == ("True", "The admission check is active")
        on.cluster.remove(PROVISIONING_CONFIGS, "c")
        await on.settle()
        assert active(on)[0] == "False"


@scenario
async def test_a_workload_with_quota_gets_a_request_whose_templates_live_as_long_as_it() -> None:
    async with cluster() as on:
        await submitted(on)
        assert requests(on) == ["wl-nodes-1"]
        request = on.cluster.read(PROVISIONING_REQUESTS, "wl-nodes-1", "team")
        assert [each["name"] for each in request["metadata"]["ownerReferences"]] == ["wl"]
        template = on.cluster.read(POD_TEMPLATES, "ppt-wl-nodes-1-main", "team")
        assert [each["name"] for each in template["metadata"]["ownerReferences"]] == ["wl-nodes-1"]
        assert template["template"]["spec"]["nodeSelector"] == {"gpu": "l4"}
        assert state(on) == ("Pending", "")


@scenario
async def test_when_the_nodes_are_there_the_workload_is_admitted_and_its_pods_say_whose_they_are() -> None:
    async with cluster() as on:
        await submitted(on)
        await answer(on, "wl-nodes-1", "Provisioned", "here")
        assert state(on) == ("Ready", "here")
        assert is_set(on, "Admitted")
        [check] = on.cluster.read(WORKLOADS, "wl", "team")["status"]["admissionChecks"]
        assert check["podSetUpdates"][0]["annotations"][CONSUMES] == "wl-nodes-1"


@scenario
async def test_a_failure_sends_the_workload_back_and_asks_again_later_until_it_was_often_enough() -> None:
    async with cluster() as on:
        await submitted(on)
        await answer(on, "wl-nodes-1", "Failed", "no nodes")
        assert requests(on) == []
        assert is_set(on, "Evicted")
        leave(on)
        await on.advance(61)
        await on.settle()
        assert requests(on) == ["wl-nodes-2"]
        await answer(on, "wl-nodes-2", "Failed", "no nodes")
        await on.settle()
        assert on.cluster.read(WORKLOADS, "wl", "team")["spec"]["active"] is False
        assert requests(on) == []


@scenario
async def test_how_often_was_asked_is_known_after_nodes_came_and_the_workload_had_to_leave_them() -> None:
    async with cluster() as on:
        put_config(on, retryStrategy={"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800})
        await submitted(on)
        await answer(on, "wl-nodes-1", "Failed", "no nodes")
        leave(on)
        await on.advance(61)
        await answer(on, "wl-nodes-2", "Provisioned", "here")
        queue = on.cluster.read(LOCAL_QUEUES, "main", "team")
        on.cluster.put(LOCAL_QUEUES, {**queue, "spec": {**queue["spec"], "stopPolicy": "HoldAndDrain"}})
        await on.settle()
        [check] = on.cluster.read(WORKLOADS, "wl", "team")["status"]["admissionChecks"]
        assert (check["state"], check["retryCount"]) == ("Pending", 1)
        assert check["podSetUpdates"][0]["annotations"][CONSUMES] == "wl-nodes-2"
        leave(on)
        on.cluster.put(LOCAL_QUEUES, queue)
        await on.settle()
        assert requests(on) == ["wl-nodes-2"]


@scenario
async def test_how_often_was_asked_is_known_after_a_preemption_too() -> None:
    async with cluster() as on:
        queue = on.cluster.read(CLUSTER_QUEUES, "q")
        preempts = {"preemption": {"withinClusterQueue": "LowerPriority"}}
        on.cluster.put(CLUSTER_QUEUES, {**queue, "spec": {**queue["spec"], **preempts}})
        await submitted(on)
        await answer(on, "wl-nodes-1", "Failed", "no nodes")
        leave(on)
        await on.advance(61)
        await answer(on, "wl-nodes-2", "Provisioned", "here")
        container = {"name": "c", "resources": {"requests": {GPU: "1"}}}
        pod_set = {"name": "main", "count": 4, "template": {"spec": {"containers": [container]}}}
        spec = {"queueName": "main", "podSets": [pod_set], "active": True, "priority": 9}
        on.cluster.put(WORKLOADS, {"metadata": {"name": "first", "namespace": "team"}, "spec": spec})
        await on.settle()
        assert is_set(on, "Preempted")
        [check] = on.cluster.read(WORKLOADS, "wl", "team")["status"]["admissionChecks"]
        assert (check["state"], check["retryCount"]) == ("Pending", 1)


@scenario
async def test_another_configuration_makes_another_request() -> None:
    async with cluster() as on:
        await submitted(on)
        before = on.cluster.read(PROVISIONING_REQUESTS, "wl-nodes-1", "team")["metadata"]["uid"]
        put_config(on, provisioningClassName="other")
        await on.settle()
        after = on.cluster.read(PROVISIONING_REQUESTS, "wl-nodes-1", "team")
        assert after["metadata"]["uid"] != before
        assert after["spec"]["provisioningClassName"] == "other"


@scenario
async def test_what_the_server_refuses_is_told_in_the_check_and_tried_again() -> None:
    async with cluster() as on:
        for _ in range(2):
            on.cluster.fail_next("create", PROVISIONING_REQUESTS, BadRequest("no such class"))
        await submitted(on)
        assert state(on) == ("Pending", 'Error creating ProvisioningRequest "wl-nodes-1": no such class')
        assert any("FailedCreate" in each for each in on.cluster.events("team"))
        await on.advance(5)
        assert requests(on) == ["wl-nodes-1"]
        assert state(on) == ("Pending", "")


@scenario
async def test_a_finished_workload_needs_its_nodes_no_more() -> None:
    async with cluster() as on:
        await submitted(on)
        await answer(on, "wl-nodes-1", "Provisioned")
        now = rfc3339(on.clock.now())
        done = {"type": "Finished", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": now}
        status = on.cluster.read(WORKLOADS, "wl", "team")["status"]
        on.cluster.set_status(WORKLOADS, "wl", "team", conditions=[*status["conditions"], done])
        await on.settle()
        assert requests(on) == []
