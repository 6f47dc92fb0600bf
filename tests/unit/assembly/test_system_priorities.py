"""Where the system priority classes may be named: in system namespaces, and where a ResourceQuota allows them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gpuaas.apiserver.local import LocalClient
from gpuaas.assembly.clusters import open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import AlreadyExists, Forbidden
from gpuaas.base.ids import SeededIds
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CRON_JOBS, DEPLOYMENTS, JOBS, NAMESPACES, PODS, RESOURCE_QUOTAS, SERVICE_ACCOUNTS

NODE, CLUSTER = "system-node-critical", "system-cluster-critical"
RAY = Resource("ray.io", "v1", "rayclusters", True, "RayCluster")
TRAINING = Resource("kubeflow.org", "v1", "pytorchjobs", True, "PyTorchJob")
POD = {"priorityClassName": NODE, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
PLAIN = {key: value for key, value in POD.items() if key != "priorityClassName"}
SET = {"metadata": {"labels": {"app": "x"}}, "spec": {**POD, "restartPolicy": "Always"}}
WAYS: list[tuple[Resource, Any, str]] = [
    (PODS, POD, "spec.priorityClassName"),
    (JOBS, {"template": {"spec": POD}}, "spec.template.spec.priorityClassName"),
    (
        CRON_JOBS,
        {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}},
        "spec.jobTemplate.spec.template.spec.priorityClassName",
    ),
    (
        DEPLOYMENTS,
        {"selector": {"matchLabels": {"app": "x"}}, "template": SET},
        "spec.template.spec.priorityClassName",
    ),
    (
        RAY,
        {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD}}},
        "spec.headGroupSpec.template.spec.priorityClassName",
    ),
    (
        TRAINING,
        {
            "pytorchReplicaSpecs": {"Master": {"template": {"spec": PLAIN}}},
            "runPolicy": {"schedulingPolicy": {"priorityClass": NODE}},
        },
        "spec.runPolicy.schedulingPolicy.priorityClass",
    ),
]


def in_cluster(home: Path, test: Callable[[LocalClient], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = VirtualClock()
        trust = Trust(home / "certificates", home / "users.json", clock)
        parts = await open_cluster("local", home / "store.db", trust, clock, SeededIds(), fsync=False)
        try:
            client = LocalClient(parts.cluster, parts.access.system_user("test"), "test")
            await make(client, NAMESPACES, {"metadata": {"name": "team"}})
            for namespace in ("team", "kube-system"):
                with contextlib.suppress(AlreadyExists):
                    await make(client, SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}})
            await test(client)
        finally:
            await parts.close()

    asyncio.run(run())


async def make(client: LocalClient, resource: Resource, obj: Any) -> Any:
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    return await client.create(resource, whole, obj["metadata"].get("namespace", ""))


def at(namespace: str, spec: Any, name: str = "x") -> Any:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def test_in_a_tenants_namespace_each_way_is_refused_with_its_field(tmp_path: Path) -> None:
    async def body(client: LocalClient) -> None:
        for resource, spec, path in WAYS:
            with pytest.raises(Forbidden) as refused:
                await make(client, resource, at("team", spec))
            words = f"{path}: pods with {NODE} priorityClass is not permitted in team namespace"
            assert words in refused.value.message, resource.kind

    in_cluster(tmp_path, body)


def test_system_namespaces_and_a_scoped_quota_allow_them(tmp_path: Path) -> None:
    async def body(client: LocalClient) -> None:
        await make(client, PODS, at("kube-system", POD))
        scope = {"scopeName": "PriorityClass", "operator": "In", "values": [NODE]}
        quota = {"hard": {"pods": "10"}, "scopeSelector": {"matchExpressions": [scope]}}
        await make(client, RESOURCE_QUOTAS, at("team", quota))
        await make(client, JOBS, at("team", {"template": {"spec": POD}}))
        with pytest.raises(Forbidden):
            await make(client, PODS, at("team", {**POD, "priorityClassName": CLUSTER}))

    in_cluster(tmp_path, body)
