"""What people may wrap: what they could make themselves, in their own namespace, and it stays as it was checked."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gpuaas.apiserver import write
from gpuaas.apiserver.local import LocalClient
from gpuaas.apiserver.security.identity import User
from gpuaas.assembly.clusters import ClusterParts, open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import Denied
from gpuaas.base.ids import SeededIds
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations.app_wrapper import APP_WRAPPERS

RIGHTS = "rbac.authorization.k8s.io"
ALICE, ROLES, BINDINGS = (
    User("alice"),
    Resource(RIGHTS, "v1", "roles", True, "Role"),
    Resource(RIGHTS, "v1", "rolebindings", True, "RoleBinding"),
)
MAY = {
    "metadata": {"name": "alice"},
    "rules": [
        {"apiGroups": [APP_WRAPPERS.group], "resources": ["appwrappers"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
        {"apiGroups": [RIGHTS], "resources": ["rolebindings"], "verbs": ["create"]},
    ],
}
BOUND = {
    "metadata": {"name": "alice"},
    "roleRef": {"apiGroup": RIGHTS, "kind": "Role", "name": "alice"},
    "subjects": [{"kind": "User", "name": "alice", "apiGroup": RIGHTS}],
}
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
POD: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": CONTAINERS}
JOB: Any = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {**CONTAINERS, "restartPolicy": "Never"}}},
}


def in_cluster(home: Path, test: Callable[[ClusterParts], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = VirtualClock()
        trust = Trust(home / "certificates", home / "users.json", clock)
        parts = await open_cluster("local", home / "store.db", trust, clock, SeededIds(), fsync=False)
        try:
            client = LocalClient(parts.cluster, parts.access.system_user("test"), "test")
            await client.create(ROLES, MAY, "default")
            await client.create(BINDINGS, BOUND, "default")
            await test(parts)
        finally:
            await parts.close()

    asyncio.run(run())


async def put(parts: ClusterParts, verb: str, spec: Any, revision: str = "") -> Any:
    """As somebody from outside does it."""
    op = LocalClient(parts.cluster, ALICE, "kubectl")._op(
        verb, APP_WRAPPERS, "default", "w" if verb == "update" else ""
    )
    op.in_process = False
    obj: Any = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "metadata": {"name": "w"}, "spec": spec}
    if revision:
        obj["metadata"]["resourceVersion"] = revision
    written = await (write.create(op, obj) if verb == "create" else write.update(op, obj))
    return written.obj


def of(*templates: Any, **parts: Any) -> Any:
    return {"components": [{"template": each, **parts} for each in templates]}


BINDING = {**BOUND, "apiVersion": f"{RIGHTS}/v1", "kind": "RoleBinding"}
REFUSED = {
    "what one may not create": (of(JOB), "User alice is not authorized to create jobs in default"),
    "in another namespace": (
        of({**POD, "metadata": {"name": "p", "namespace": "kube-system"}}),
        "AppWrappers cannot create objects in other namespaces",
    ),
    "another wrapper": (
        of({"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "metadata": {"name": "i"}, "spec": of(POD)}),
        "Nested AppWrappers are forbidden",
    ),
    "rights": (of(BINDING), "User alice is not authorized to create rolebindings in default"),
    "what belongs to no namespace": (
        of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}),
        "cannot be wrapped: it is not served in namespaces",
    ),
    "what nobody knows": (of({"apiVersion": "x/v1", "kind": "Y", "metadata": {"name": "n"}}), "cannot be wrapped"),
    "a path to nowhere": (
        of(POD, podSets=[{"path": "template.spec.x"}]),
        "path does not refer to a v1.PodSpecTemplate",
    ),
    "other numbers than its own": (
        of(POD, podSets=[{"path": "template", "replicas": 2}]),
        "replica count 2 differs from inferred count 1",
    ),
    "nine pods": (of(*[POD] * 9), "components contains 9 podspecs; at most 8 are allowed"),
}


@pytest.mark.parametrize(("spec", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(tmp_path: Path, spec: Any, words: str) -> None:
    async def test(parts: ClusterParts) -> None:
        with pytest.raises(Denied, match=words):
            await put(parts, "create", spec)

    in_cluster(tmp_path, test)


def test_what_was_checked_stays(tmp_path: Path) -> None:
    async def test(parts: ClusterParts) -> None:
        revision = (await put(parts, "create", of(POD)))["metadata"]["resourceVersion"]
        with pytest.raises(
            Denied, match=r"spec.components\[0\].template: Forbidden: attempt to change immutable field"
        ):
            await put(parts, "update", of(JOB), revision)
        with pytest.raises(Denied, match=r"spec.components: Forbidden: attempt to change immutable field"):
            await put(parts, "update", of(POD, JOB), revision)
        assert (await put(parts, "update", {**of(POD), "suspend": True}, revision))["spec"]["suspend"]

    in_cluster(tmp_path, test)
