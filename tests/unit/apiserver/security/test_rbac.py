"""Who may do what, and the words of yes and no."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.unit.apiserver.security.conftest import GROUP, asked, binding, policy, role, rule, user

from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import ApiError
from gpuaas.store import Store

ALICE = user("alice", "team-a")

POLICY = (
    role("reader", rule("get list", "pods services"), rule("get", "pods/log")),
    role("named", rule("get update", "secrets", names="one two")),
    role("scaler", rule("*", "*/scale", "*")),
    role("paths", rule("get", urls="/metrics /debug/*")),
    role("all", rule("*", "*", "*")),
    role("local", rule("delete", "jobs", "batch"), namespace="dev"),
    binding("reads", "ClusterRole", "reader", ["User:bob", "User:alice"], namespace="dev"),
    binding("names", "ClusterRole", "named", ["Group:team-a"], namespace="dev"),
    binding("locals", "Role", "local", ["ServiceAccount:runner", "ServiceAccount:other/runner"], namespace="dev"),
    binding("scales", "ClusterRole", "scaler", ["Group:team-a"]),
    binding("paths", "ClusterRole", "paths", ["User:alice"]),
    binding("root", "ClusterRole", "all", ["User:root"]),
)


@pytest.mark.parametrize(
    ("who", "what", "namespace", "name", "allowed"),
    [
        ("alice", "get pods", "dev", "x", True),
        ("alice", "list pods", "dev", "", True),
        ("alice", "get pods", "prod", "x", False),
        ("alice", "get pods", "", "", False),
        ("alice", "delete pods", "dev", "x", False),
        ("alice", "get pods/log", "dev", "x", True),
        ("alice", "get services/log", "dev", "x", False),
        ("alice", "get pods/exec", "dev", "x", False),
        ("alice", "get pods.metrics", "dev", "x", False),
        ("alice", "get secrets", "dev", "one", True),
        ("alice", "update secrets", "dev", "two", True),
        ("alice", "get secrets", "dev", "three", False),
        ("alice", "list secrets", "dev", "", False),
        ("alice", "patch deployments/scale.apps", "any", "x", True),
        ("alice", "patch deployments.apps", "any", "x", False),
        ("alice", "get /metrics", "", "", True),
        ("alice", "get /debug/pprof", "", "", True),
        ("alice", "get /debugger", "", "", False),
        ("alice", "post /metrics", "", "", False),
        ("carol", "get pods", "dev", "x", False),
        ("root", "anything whatever.example.com", "any", "x", True),
        ("root", "get /metrics", "", "", False),
        ("system:serviceaccount:dev:runner", "delete jobs.batch", "dev", "x", True),
        ("system:serviceaccount:other:runner", "delete jobs.batch", "dev", "x", True),
        ("system:serviceaccount:third:runner", "delete jobs.batch", "dev", "x", False),
    ],
)
def test_a_request_is_allowed_by_a_rule_of_a_role_bound_there(
    who: str, what: str, namespace: str, name: str, allowed: bool
) -> None:
    rbac = policy(*POLICY)
    asker = ALICE if who == "alice" else user(who)
    for _ in range(2):  # worked out, and remembered
        assert rbac.authorize(asker, asked(what, namespace, name)).allowed is allowed


def test_system_masters_may_do_everything_whatever_the_roles_say() -> None:
    assert Rbac().authorize(user("x", "system:masters"), asked("delete nodes", "", "n")) == (True, "")


@pytest.mark.parametrize(
    ("who", "what", "namespace", "name", "reason"),
    [
        (ALICE, "get pods", "dev", "x", 'RoleBinding "reads/dev" of ClusterRole "reader" to User "alice"'),
        (ALICE, "get secrets", "dev", "one", 'RoleBinding "names/dev" of ClusterRole "named" to Group "team-a"'),
        (user("root"), "get nodes", "", "n", 'ClusterRoleBinding "root" of ClusterRole "all" to User "root"'),
        (
            user("system:serviceaccount:dev:runner"),
            "delete jobs.batch",
            "dev",
            "x",
            'RoleBinding "locals/dev" of Role "local" to ServiceAccount "runner/dev"',
        ),
    ],
)
def test_the_reason_names_binding_role_and_subject(
    who: User, what: str, namespace: str, name: str, reason: str
) -> None:
    assert policy(*POLICY).authorize(who, asked(what, namespace, name)) == (True, f"RBAC: allowed by {reason}")


@pytest.mark.parametrize(
    ("what", "namespace", "name", "message", "details"),
    [
        (
            "list pods", "", "",
            'pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope',
            {"kind": "pods"},
        ),
        (
            "get pods/exec", "default", "x",
            'pods "x" is forbidden: User "alice" cannot get resource "pods/exec" in API group "" in the namespace'
            ' "default"',
            {"name": "x", "kind": "pods"},
        ),
        (
            "delete jobs.batch", "x", "y",
            'jobs.batch "y" is forbidden: User "alice" cannot delete resource "jobs" in API group "batch" in the'
            ' namespace "x"',
            {"name": "y", "group": "batch", "kind": "jobs"},
        ),
        ("get /version", "", "", 'forbidden: User "alice" cannot get path "/version"', {}),
        ("get /<b>&", "", "", 'forbidden: User "alice" cannot get path "/&lt;b&gt;&amp;"', {}),
    ],
)  # fmt: skip
def test_a_refusal_says_who_cannot_do_what_where(
    what: str, namespace: str, name: str, message: str, details: dict[str, str]
) -> None:
    with pytest.raises(ApiError) as error:
        policy(*POLICY).require(ALICE, asked(what, namespace, name))
    status = error.value.status()
    assert (status["message"], status["reason"], status["code"]) == (message, "Forbidden", 403)
    assert status["details"] == details


def test_a_missing_role_is_named_in_the_refusal_and_hides_nothing_else() -> None:
    rbac = policy(
        role("reader", rule("get", "pods")),
        binding("a", "ClusterRole", "gone", ["User:alice"]),
        binding("b", "ClusterRole", "reader", ["User:alice"]),
        binding("c", "Role", "lost", ["User:alice"], namespace="dev"),
    )
    assert rbac.authorize(ALICE, asked("get pods", "dev")).allowed
    assert rbac.authorize(ALICE, asked("get nodes")).reason == f'RBAC: clusterrole.{GROUP} "gone" not found'
    assert rbac.authorize(ALICE, asked("get nodes", "dev")).reason == (
        f'RBAC: [clusterrole.{GROUP} "gone" not found, role.{GROUP} "lost" not found]'
    )


def test_changes_count_at_once() -> None:
    rbac = policy(*POLICY)
    question = asked("get pods", "dev", "x")
    assert rbac.authorize(ALICE, question).allowed
    rbac.put("clusterroles", role("reader", rule("list", "pods")))
    assert not rbac.authorize(ALICE, question).allowed
    rbac.put("clusterroles", role("reader", rule("get", "pods")))
    assert rbac.authorize(ALICE, question).allowed
    rbac.remove("rolebindings", "dev", "reads")
    assert not rbac.authorize(ALICE, question).allowed
    rbac.put("rolebindings", binding("again", "ClusterRole", "reader", ["Group:system:authenticated"], namespace="dev"))
    assert rbac.authorize(ALICE, question).allowed
    rbac.remove("clusterroles", "", "reader")
    assert not rbac.authorize(ALICE, question).allowed


def test_subjects_of_unknown_kinds_and_nobody_match_nobody() -> None:
    odd = binding("odd", "ClusterRole", "all", ["Robot:", "ServiceAccount:x"])
    rbac = policy(role("all", rule("*", "*", "*")), odd)
    for nobody in (User("", groups=()), User("", groups=("",)), User("x")):
        assert not rbac.authorize(nobody, asked("get pods")).allowed


def aggregated(name: str, label: str, **labels: str) -> dict[str, object]:
    selector = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
    return role(name, labels=labels, aggregationRule=selector)


def test_an_aggregated_role_is_the_union_of_the_roles_it_selects_through_all_levels() -> None:
    rbac = policy(
        aggregated("edit", "to-edit", **{"to-admin": "true"}),
        aggregated("admin", "to-admin"),
        role("b", rule("get", "pods"), labels={"to-edit": "true"}),
        role("a", rule("list", "pods"), rule("get", "pods"), labels={"to-edit": "true"}),
        binding("x", "ClusterRole", "admin", ["User:alice"]),
    )
    assert rbac.authorize(ALICE, asked("get pods")).allowed
    rules = [str(part) for part in rbac.role_rules("ClusterRole", "edit", "") or ()]
    assert rules == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
        '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
    ]
    rbac.put("clusterroles", role("c", rule("watch", "pods"), labels={"to-admin": "true"}))
    assert rbac.authorize(ALICE, asked("watch pods")).allowed
    rbac.remove("clusterroles", "", "a")
    assert not rbac.authorize(ALICE, asked("list pods")).allowed


def test_roles_that_aggregate_each_other_end() -> None:
    rbac = policy(
        aggregated("one", "to-one", **{"to-two": "true"}),
        aggregated("two", "to-two", **{"to-one": "true"}),
        role("piece", rule("get", "pods"), labels={"to-one": "true"}),
    )
    assert len(rbac.role_rules("ClusterRole", "two", "") or ()) == 1


def test_it_follows_a_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await Store.open(tmp_path / "s.db", clock=VirtualClock(), fsync=False)

        async def put(plural: str, obj: dict[str, object]) -> None:
            metadata = obj["metadata"]
            assert isinstance(metadata, dict)
            key = f"{GROUP}/{plural}/{metadata.get('namespace', '')}/{metadata['name']}"
            await store.put(key, lambda revision: (msgspec.json.encode(obj), obj))

        await put("clusterroles", role("reader", rule("get", "pods")))
        rbac = Rbac()
        rbac.follow(store)
        question = asked("get pods", "dev", "x")
        assert not rbac.authorize(ALICE, question).allowed
        await put("rolebindings", binding("b", "ClusterRole", "reader", ["User:alice"], namespace="dev"))
        assert rbac.authorize(ALICE, question).allowed
        await store.delete(f"{GROUP}/clusterroles//reader", lambda revision: (b"{}", {}))
        assert not rbac.authorize(ALICE, question).allowed
        await store.close()

    asyncio.run(scenario())


def test_what_clients_make_up_does_not_grow_without_bound() -> None:
    rbac = policy(*POLICY)
    for n in range(10_000):
        rbac.authorize(ALICE, asked("get pods", f"made-up-{n}"))
        rbac.authorize(user(f"made-up-{n}"), asked("get pods"))
    assert sum(len(known) for known in rbac._answers.values()) < 10_000
