"""Nobody grants what they do not have, and the refusal lists what is missing."""

import pytest
from tests.unit.apiserver.security.conftest import GROUP, Object, binding, policy, role, rule, user

from gpuaas.apiserver.security.escalation import check_grant
from gpuaas.apiserver.security.identity import User
from gpuaas.base.errors import ApiError, Forbidden, NotFound

ALICE = user("alice", "team-a")
HELD = (
    role("held", rule("get list", "pods pods/log"), rule("*", "*/scale", "apps"), rule("get", "secrets", names="a")),
    role("paths", rule("get", urls="/metrics/*")),
    binding("h", "ClusterRole", "held", ["User:alice"], namespace="dev"),
    binding("p", "ClusterRole", "paths", ["User:alice"]),
    role("pods", rule("get", "pods")),
    role("nodes", rule("get list", "nodes")),
)


def grant(
    plural: str, obj: Object, old: Object | None = None, *more: Object, by: User = ALICE, namespace: str = "dev"
) -> None:
    check_grant(policy(*HELD, *more), by, plural, namespace, "" if old is None else "x", obj, old)


@pytest.mark.parametrize(
    "rules",
    [
        [],
        [rule("get", "pods")],
        [rule("list get", "pods/log pods")],
        [rule("update", "deployments/scale", "apps")],
        [rule("get", "secrets", names="a")],
        [rule("get", urls="/metrics/a /metrics/*")],
    ],
)
def test_what_the_writer_holds_there_may_be_granted(rules: list[Object]) -> None:
    grant("roles", role("x", *rules, namespace="dev"))


@pytest.mark.parametrize(
    ("rules", "lines"),
    [
        (
            [rule("get list", "pods nodes"), rule("get update", "secrets", names="a b")],
            [
                '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}',
                '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["update"]}',
                '{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get" "update"]}',
            ],
        ),
        ([rule("get", "secrets")], ['{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}']),
        ([rule("*", "*", "*")], ['{APIGroups:["*"], Resources:["*"], Verbs:["*"]}']),
        ([rule("get", "deployments", "apps")], ['{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}']),
        (
            [rule("get post", urls="/metrics/a /version")],
            [
                '{NonResourceURLs:["/metrics/a"], Verbs:["post"]}',
                '{NonResourceURLs:["/version"], Verbs:["get"]}',
                '{NonResourceURLs:["/version"], Verbs:["post"]}',
            ],
        ),
    ],
)
def test_what_is_missing_is_listed(rules: list[Object], lines: list[str]) -> None:
    with pytest.raises(Forbidden) as error:
        grant("roles", role("x", *rules, namespace="dev"))
    assert error.value.message == (
        f'roles.{GROUP} "x" is forbidden: user "alice" (groups=["team-a" "system:authenticated"]) is attempting to grant'
        " RBAC permissions not currently held:\n" + "\n".join(lines)
    )


def test_what_is_held_in_one_namespace_is_not_held_in_another_or_everywhere() -> None:
    for plural, namespace in (("roles", "prod"), ("clusterroles", "")):
        with pytest.raises(Forbidden):
            grant(plural, role("x", rule("get", "pods")), namespace=namespace)


def test_masters_and_who_may_escalate_or_bind_are_trusted() -> None:
    anything = role("x", rule("*", "*", "*"), namespace="dev")
    grant("roles", anything, by=user("root", "system:masters"))
    may = role("may", rule("escalate", "roles", GROUP), rule("bind", "clusterroles", GROUP, names="nodes"))
    bound = binding("may", "ClusterRole", "may", ["User:alice"], namespace="dev")
    grant("roles", anything, None, may, bound)
    grant("rolebindings", binding("x", "ClusterRole", "nodes", [], namespace="dev"), None, may, bound)
    with pytest.raises(Forbidden):
        grant("clusterrolebindings", binding("x", "ClusterRole", "nodes", []), None, may, bound, namespace="")


def test_binding_a_role_needs_what_the_role_grants() -> None:
    grant("rolebindings", binding("x", "ClusterRole", "pods", ["User:bob"], namespace="dev"))
    with pytest.raises(Forbidden, match=r'rolebindings.*"x" is forbidden: user "alice".*\n.*Resources:\["nodes"\]'):
        grant("rolebindings", binding("x", "ClusterRole", "nodes", ["User:bob"], namespace="dev"))


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_a_role_that_is_not_there_cannot_be_bound_by_who_needs_to_look_at_it(kind: str) -> None:
    with pytest.raises(NotFound, match=f'rolebindings.{GROUP} "nope" not found'):
        grant("rolebindings", binding("x", kind, "nope", [], namespace="dev"))


def test_aggregation_can_gather_anything_so_it_needs_everything() -> None:
    gathering = role("x", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    plain = role("x")
    for obj, old in ((gathering, None), (plain, gathering)):
        with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
            grant("clusterroles", obj, old, namespace="")
    full = role("full", rule("*", "*", "*"), rule("*", urls="*"))
    grant("clusterroles", gathering, None, full, binding("f", "ClusterRole", "full", ["User:alice"]), namespace="")


def test_an_update_for_the_garbage_collector_is_no_grant() -> None:
    old = role("x", rule("*", "*", "*"), namespace="dev")
    freed = {**old, "metadata": {**old["metadata"], "finalizers": ["x/y"], "ownerReferences": [], "managedFields": []}}
    grant("roles", freed, old)
    with pytest.raises(Forbidden):
        grant("roles", {**freed, "metadata": {**freed["metadata"], "labels": {"a": "b"}}}, old)


def test_roles_that_could_not_be_resolved_are_told_with_the_refusal() -> None:
    broken = [binding(name, "ClusterRole", name, ["User:alice"]) for name in ("gone", "lost")]
    with pytest.raises(ApiError) as error:
        grant("roles", role("x", rule("get", "nodes"), namespace="dev"), None, *broken)
    assert error.value.message.endswith(
        f'; resolution errors: [[roles.{GROUP} "gone" not found, roles.{GROUP} "lost" not found]]'
    )
