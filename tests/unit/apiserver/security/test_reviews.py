"""Reviews: the question comes back with its answer, in the real server's shape and words."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.apiserver.security.conftest import binding, policy, role, rule, user
from tests.unit.apiserver.security.test_authn import Door

from gpuaas.apiserver.security.reviews import Reviews
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError

Object = dict[str, Any]
ALICE = user("alice", "team-a")
RBAC = policy(
    role("reader", rule("get list", "pods"), rule("get", "secrets", names="x"), rule("get", urls="/metrics")),
    binding("reads", "ClusterRole", "reader", ["Group:team-a"], namespace="dev"),
    binding("paths", "ClusterRole", "reader", ["User:watcher"]),
    binding("lost", "ClusterRole", "gone", ["User:bob"]),
)


class Desk:
    def __init__(self, folder: Path) -> None:
        self.door = Door(folder)
        self.reviews = Reviews(RBAC, self.door.authenticator, self.door.world.clock)

    def answer(self, plural: str, spec: Any, namespace: str = "", **more: Any) -> Object:
        return self.reviews.answer(plural, {"spec": spec, **more}, ALICE, namespace)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


PODS = {"verb": "get", "resource": "pods", "namespace": "dev"}


def test_may_i(desk: Desk) -> None:
    assert desk.answer("selfsubjectaccessreviews", {"resourceAttributes": PODS}) == {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {"resourceAttributes": PODS},
        "status": {
            "allowed": True,
            "reason": 'RBAC: allowed by RoleBinding "reads/dev" of ClusterRole "reader" to Group "team-a"',
        },
    }
    refused = desk.answer("selfsubjectaccessreviews", {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}})
    assert refused["status"] == {"allowed": False}


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"user": "x", "groups": ["team-a"], "resourceAttributes": PODS}, True),
        ({"user": "x", "resourceAttributes": PODS}, False),
        ({"groups": ["team-a"], "resourceAttributes": {**PODS, "resource": "secrets", "name": "x"}}, True),
        ({"user": "watcher", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}, True),
        (
            {"user": "x", "groups": ["system:masters"], "resourceAttributes": {"verb": "anything", "resource": "x"}},
            True,
        ),
    ],
)
def test_may_they(desk: Desk, spec: Object, status: bool) -> None:
    assert desk.answer("subjectaccessreviews", spec)["status"]["allowed"] is status


def test_what_could_not_be_resolved_is_told(desk: Desk) -> None:
    spec = {"user": "bob", "resourceAttributes": PODS}
    reason = 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    assert desk.answer("subjectaccessreviews", spec)["status"] == {"allowed": False, "reason": reason}


def test_may_they_in_this_namespace(desk: Desk) -> None:
    spec = {"user": "x", "groups": ["team-a"], "resourceAttributes": PODS}
    answer = desk.answer("localsubjectaccessreviews", spec, "dev")
    assert answer["metadata"] == {"namespace": "dev"}
    assert answer["status"]["allowed"]


@pytest.mark.parametrize(
    ("plural", "spec", "metadata", "namespace", "message"),
    [
        (
            "selfsubjectaccessreviews", {}, {}, "",
            '.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of'
            " nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/", "verb": "get"}},
            {"name": "x", "labels": {"a": "b"}}, "",
            '.authorization.k8s.io "" is invalid: [spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}:'
            " cannot be specified in combination with resourceAttributes, metadata: Invalid value:"
            ' {"name":"x","labels":{"a":"b"}}: must be empty]',
        ),
        (
            "subjectaccessreviews", {"nonResourceAttributes": {"path": "/version", "verb": "get"}}, {}, "",
            '.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be'
            " specified",
        ),
        (
            "localsubjectaccessreviews", {"user": "bob", "resourceAttributes": {**PODS, "namespace": "other"}}, {}, "dev",
            '.authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "other": must match'
            " metadata.namespace",
        ),
        (
            "localsubjectaccessreviews", {"user": "bob", "nonResourceAttributes": {"verb": "list", "path": "/p"}}, {}, "dev",
            '.authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: {"Path":"/p","Verb":"list"}:'
            " disallowed on this kind of request",
        ),
        (
            "localsubjectaccessreviews", {"user": "bob", "resourceAttributes": PODS}, {"namespace": "other"}, "dev",
            "spec.resourceAttributes.namespace must match namespace: dev",
        ),
        (
            "selfsubjectaccessreviews", {"resourceAttributes": {**PODS, "labelSelector": {}}}, {}, "",
            '.authorization.k8s.io "" is invalid: spec.resourceAttributes.labelSelector.requirements: Required value: when'
            " spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required",
        ),
        ("selfsubjectrulesreviews", {}, {}, "", "no namespace on request"),
        ("tokenreviews", {}, {}, "", "token is required for TokenReview in authentication"),
    ],
)  # fmt: skip
def test_questions_that_are_none_are_refused_in_the_real_servers_words(
    desk: Desk, plural: str, spec: Object, metadata: Object, namespace: str, message: str
) -> None:
    with pytest.raises(ApiError) as error:
        desk.answer(plural, spec, namespace, metadata=metadata)
    assert error.value.message == message


ACCESS = ("selfsubjectaccessreviews", "subjectaccessreviews", "localsubjectaccessreviews", "tokenreviews")


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        (plural, body)
        for plural in (*ACCESS, "selfsubjectrulesreviews")
        for body in (
            {"spec": 7},
            {"spec": ["x"]},
            {"spec": {"user": 1, "token": 3, "namespace": []}},
            {"spec": None},
            {},
        )
    ]
    + [
        (plural, {"spec": {"user": "x", "resourceAttributes": PODS, "token": "t"}, "metadata": ["x"]})
        for plural in ACCESS
    ],
)
def test_hostile_bodies_are_bad_requests_never_accidents(desk: Desk, plural: str, body: Object) -> None:
    with pytest.raises(ApiError) as error:
        desk.reviews.answer(plural, body, ALICE, "dev")
    assert error.value.code in (400, 422)


def test_what_may_i(desk: Desk) -> None:
    answer = desk.answer("selfsubjectrulesreviews", {"namespace": "dev"})
    assert answer == {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": {
            "resourceRules": [
                {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
            "incomplete": False,
        },
    }


def test_who_am_i(desk: Desk) -> None:
    assert desk.answer("selfsubjectreviews", {}) == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": rfc3339(desk.door.world.clock.now())},
        "status": {"userInfo": {"username": "alice", "groups": ["team-a", "system:authenticated"]}},
    }


def test_whose_is_this_token(desk: Desk) -> None:
    answer = desk.answer("tokenreviews", {"token": desk.door.token})
    assert answer["status"] == {
        "authenticated": True,
        "user": {"username": "alice", "uid": desk.door.record.uid, "groups": ["team-a", "system:authenticated"]},
        "audiences": ["https://kubernetes.default.svc.cluster.local"],
    }
    assert desk.answer("tokenreviews", {"token": "nope"})["status"] == {"user": {}, "error": "invalid bearer token"}
