"""Who may run processes on this machine, and where pods of a runtime class go."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gpuaas.apiserver import write
from gpuaas.apiserver.local import LocalClient
from gpuaas.apiserver.security.identity import User
from gpuaas.assembly.clusters import ClusterParts, open_cluster
from gpuaas.assembly.runtime_classes import ROLE, furnish_process_class
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import Forbidden
from gpuaas.base.ids import SeededIds
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CRON_JOBS, DEPLOYMENTS, JOBS, PODS

ALICE, BINDINGS = User("alice"), Resource("rbac.authorization.k8s.io", "v1", "rolebindings", True, "RoleBinding")
RAY = Resource("ray.io", "v1", "rayclusters", True, "RayCluster")
SERVING = Resource("serving.kserve.io", "v1beta1", "inferenceservices", True, "InferenceService")
POD = {
    "runtimeClassName": "gpuaas-process",
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "i", "command": ["id"]}],
}
LABELS = {"app": "x"}
SERVED = {"metadata": {"labels": LABELS}, "spec": {**POD, "restartPolicy": "Always"}}
WAYS: dict[str, tuple[Resource, Any]] = {
    "a pod": (PODS, POD),
    "a job": (JOBS, {"template": {"spec": POD}}),
    "a cron job": (CRON_JOBS, {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}}),
    "a deployment": (DEPLOYMENTS, {"selector": {"matchLabels": LABELS}, "template": SERVED}),
    "an inference service": (SERVING, {"predictor": {**POD, "restartPolicy": "Always"}}),
    "a Ray cluster": (RAY, {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD}}}),
}


def in_cluster(home: Path, test: Callable[[ClusterParts, LocalClient], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = VirtualClock()
        trust = Trust(home / "certificates", home / "users.json", clock)
        parts = await open_cluster("local", home / "store.db", trust, clock, SeededIds(), fsync=False)
        try:
            client = LocalClient(parts.cluster, parts.access.system_user("test"), "test")
            await furnish_process_class(client)
            await test(parts, client)
        finally:
            await parts.close()

    asyncio.run(run())


async def create(
    parts: ClusterParts, resource: Resource, spec: Any, name: str = "x", warnings: list[str] | None = None
) -> Any:
    """As somebody from outside does it."""
    op = LocalClient(parts.cluster, ALICE, "kubectl")._op("create", resource, "default")
    op.in_process = False
    op.warnings = [] if warnings is None else warnings
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
    return (await write.create(op, obj)).obj


def allowed(role: str) -> Any:
    return {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
    }


@pytest.mark.parametrize(("resource", "spec"), WAYS.values(), ids=WAYS)
def test_processes_are_for_those_who_may_use_the_class(tmp_path: Path, resource: Resource, spec: Any) -> None:
    async def test(parts: ClusterParts, client: LocalClient) -> None:
        await client.create(BINDINGS, allowed("edit"), "default")
        with pytest.raises(Forbidden, match='user "alice" may not use runtime class "gpuaas-process"'):
            await create(parts, resource, spec)
        await client.delete(BINDINGS, "alice", "default")
        await client.create(BINDINGS, allowed(ROLE), "default")
        await create(parts, resource, spec)

    in_cluster(tmp_path, test)


def test_the_class_says_where_its_pods_go(tmp_path: Path) -> None:
    async def test(_parts: ClusterParts, client: LocalClient) -> None:
        made = await client.create(PODS, {"metadata": {"name": "p"}, "spec": POD}, "default")
        assert made["spec"]["nodeSelector"] == {"gpuaas.dev/executor": "process"}
        keys = [one["key"] for one in made["spec"]["tolerations"]]
        assert "gpuaas.dev/process-only" in keys
        elsewhere = {**POD, "nodeSelector": {"gpuaas.dev/executor": "simulated"}}
        with pytest.raises(Forbidden, match=r"conflict: runtimeClass\.scheduling\.nodeSelector"):
            await client.create(PODS, {"metadata": {"name": "q"}, "spec": elsewhere}, "default")

    in_cluster(tmp_path, test)


def test_limits_that_nothing_enforces_are_warned_of_when_they_are_submitted(tmp_path: Path) -> None:
    limited = {"name": "c", "image": "i", "command": ["id"], "resources": {"limits": {"memory": "1Gi", "cpu": 1}}}
    many = [{**limited, "name": f"c{number}"} for number in range(50)]

    async def test(parts: ClusterParts, client: LocalClient) -> None:
        await client.create(BINDINGS, allowed(ROLE), "default")
        said: list[str] = []
        await create(parts, JOBS, {"template": {"spec": {**POD, "containers": [limited]}}}, "limited", said)
        assert [each.partition(" is not enforced: ")[0] for each in said] == [
            "container c: resources.limits.cpu",
            "container c: resources.limits.memory",
        ]
        await create(parts, PODS, {**POD, "containers": many}, "many", said)
        assert len(said) == 6, "a header has no room for a hundred"
        await create(parts, PODS, POD, "none", said)
        assert len(said) == 6

    in_cluster(tmp_path, test)
