"""Acting as somebody else: what the headers mean and what it takes."""

import pytest
from tests.unit.apiserver.security.conftest import asked, binding, policy, role, rule, user

from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.security.impersonation import Impersonation, wanted_user
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.base.errors import ApiError, BadRequest

ROOT = user("root", "system:masters")
ALICE = user("alice")
REQUEST = asked("create pods", "dev")

Headers = dict[bytes, bytes]


def headers(**values: str) -> Headers:
    return {name.replace("_", "-").encode(): value.encode() for name, value in values.items()}


def become(asker: User, rbac: Rbac, **values: str) -> User:
    wanted = wanted_user(headers(**values))
    assert wanted is not None
    return Impersonation(rbac).become(asker, wanted, REQUEST)


def test_without_the_headers_nobody_is_impersonated() -> None:
    assert wanted_user({b"authorization": b"Bearer x", b"accept": b"*/*"}) is None


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (
            {"impersonate_group": "devs"},
            'Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)',
        ),
        ({"impersonate_uid": "u1"}, 'Name:"", UID:"u1", Groups:[]string(nil), Extra:map[string][]string(nil)'),
        (
            {"impersonate_extra_foo": "bar"},
            'Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"foo":[]string{"bar"}}',
        ),
    ],
)
def test_a_group_uid_or_extra_needs_a_user(values: dict[str, str], shown: str) -> None:
    with pytest.raises(BadRequest) as error:
        wanted_user(headers(**values))
    assert error.value.message == f"requested &user.DefaultInfo{{{shown}}} without impersonating a user name"


@pytest.mark.parametrize(
    ("values", "became"),
    [
        ({"impersonate_user": "bob"}, User("bob", groups=("system:authenticated",))),
        (
            {
                "impersonate_user": "bob",
                "impersonate_group": "a\nb",
                "impersonate_uid": "7",
                "impersonate_extra_x.io%2fscopes": "one\ntwo",
            },
            User("bob", "7", ("a", "b", "system:authenticated"), {"x.io/scopes": ("one", "two")}),
        ),
        (
            {"impersonate_user": "system:serviceaccount:ns:sa"},
            User(
                "system:serviceaccount:ns:sa",
                groups=("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            ),
        ),
        (
            {"impersonate_user": "system:node:n1"},
            User("system:node:n1", groups=("system:nodes", "system:authenticated")),
        ),
        ({"impersonate_user": "system:anonymous"}, User("system:anonymous", groups=("system:unauthenticated",))),
        (
            {"impersonate_user": "bob", "impersonate_group": "system:unauthenticated"},
            User("bob", groups=("system:unauthenticated",)),
        ),
        (
            {"impersonate_user": "bob", "impersonate_group": "system:masters"},
            User("bob", groups=("system:masters", "system:authenticated")),
        ),
    ],
)
def test_who_one_becomes(values: dict[str, str], became: User) -> None:
    assert become(ROOT, Rbac(), **values) == became


OLD = (
    role("imp", rule("impersonate", "users", names="bob")),
    binding("imp", "ClusterRole", "imp", ["User:alice"]),
)


def test_the_old_way_needs_the_verb_on_the_user_and_on_everything_else_asked_for() -> None:
    rbac = policy(*OLD)
    assert become(ALICE, rbac, impersonate_user="bob").name == "bob"
    impersonation = Impersonation(rbac)
    first = wanted_user(headers(impersonate_user="bob"))
    assert first is not None
    impersonation.become(ALICE, first, REQUEST)  # from now on the old way is tried first, and its refusal is told
    for more, message in (
        ({"impersonate_group": "a"}, 'groups "a" is forbidden: User "alice" cannot impersonate resource "groups"'),
        ({"impersonate_uid": "a"}, 'uids.authentication.k8s.io "a" is forbidden'),
        ({"impersonate_extra_scopes": "a"}, 'cannot impersonate resource "userextras/scopes" in API group'),
        ({"impersonate_user": "eve"}, 'users "eve" is forbidden'),
    ):
        wanted = wanted_user(headers(**{"impersonate_user": "bob", **more}))
        assert wanted is not None
        with pytest.raises(ApiError) as error:
            impersonation.become(ALICE, wanted, REQUEST)
        assert message in error.value.message


def test_who_may_not_is_told_what_constrained_impersonation_needs_first() -> None:
    for name, mode in (("bob", "user-info"), ("system:serviceaccount:a:b", "serviceaccount")):
        with pytest.raises(ApiError) as error:
            become(ALICE, Rbac(), impersonate_user=name)
        assert error.value.message == (
            f'pods is forbidden: User "alice" cannot impersonate-on:{mode}:create resource "pods" in API group ""'
            ' in the namespace "dev"'
        )


def test_the_constrained_way_needs_the_request_and_the_user_allowed() -> None:
    rbac = policy(
        role("on", rule("impersonate-on:user-info:create", "pods")),
        role("who", rule("impersonate:user-info", "users groups", "authentication.k8s.io", names="bob devs")),
        binding("on", "ClusterRole", "on", ["User:alice"], namespace="dev"),
        binding("who", "ClusterRole", "who", ["User:alice"]),
    )
    assert become(ALICE, rbac, impersonate_user="bob", impersonate_group="devs").groups[0] == "devs"
    with pytest.raises(ApiError, match=r'users\.authentication\.k8s\.io "eve" is forbidden'):
        become(ALICE, rbac, impersonate_user="eve")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"impersonate_group": "system:masters"}, "impersonating the system:masters group is not allowed"),
        ({"impersonate_extra_plain": "x"}, 'impersonating an invalid key in extra is not allowed: "plain"'),
        ({"impersonate_extra_a.io%2fb": ""}, "impersonating the empty string value in extra is not allowed"),
    ],
)
def test_some_things_constrained_impersonation_never_allows(more: dict[str, str], why: str) -> None:
    everything = rule("impersonate:user-info impersonate-on:user-info:create", "*", "*")
    rbac = policy(role("all", everything), binding("all", "ClusterRole", "all", ["User:alice"]))
    with pytest.raises(ApiError) as error:
        become(ALICE, rbac, impersonate_user="bob", **more)
    assert error.value.message.endswith(f": {why}")
