"""ValidatingAdmissionPolicies: what they deny, in which words, and whom they leave alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import MERGE, Api, judged_place

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/{}/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


@pytest.fixture
def place(api: Api, request: pytest.FixtureRequest) -> Iterator[str]:
    yield from judged_place(api, request.node.name, BINDINGS, POLICIES)


def policy(api: Api, place: str, *validations: dict[str, Any], rule: Any = None, **spec: Any) -> None:
    constraints = {"resourceRules": [{**RULE, **(rule or {})}]}
    body = {"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints, "validations": validations, **spec}}
    made = api.send("POST", POLICIES, body)
    assert made.status == 201, made


def bind(api: Api, place: str, *, name: str = "b", actions: tuple[str, ...] = ("Deny",), **spec: Any) -> None:
    where = {"namespaceSelector": {"matchLabels": {"judged": place}}}
    said = {"policyName": "p", "validationActions": actions, "matchResources": where, **spec}
    made = api.send("POST", BINDINGS, {"metadata": {"name": name}, "spec": said})
    assert made.status == 201, made


def config(**data: str) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "data": data}


def test_what_a_policy_denies_is_refused_in_its_words(api: Api, place: str) -> None:
    policy(
        api, place, {"expression": "size(object.data) > 1", "messageExpression": "'only ' + string(size(object.data))"}
    )
    assert api.send("POST", MAPS.format(place), config(a="1"), dryRun="All").status == 201, "nothing is bound yet"
    bind(api, place)
    answer = api.send("POST", MAPS.format(place), config(a="1"))
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    words = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: only 1"
    assert answer.message == f'configmaps "c" is forbidden: {words}'
    assert answer.body["details"] == {"name": "c", "kind": "configmaps", "causes": [{"message": words}]}
    assert api.send("POST", MAPS.format(place), config(a="1", b="2")).status == 201
    assert api.send("PATCH", f"{MAPS.format(place)}/c", {"data": {"a": None}}, MERGE).status == 422
    assert api.send("POST", MAPS.format("default"), {**config(a="1")}, dryRun="All").status == 201, "another namespace"


@pytest.mark.parametrize(
    ("validation", "code", "words"),
    [
        ({"expression": "1 > 2"}, 422, "failed expression: 1 > 2"),
        ({"expression": "1 > 2", "message": "never"}, 422, "never"),
        ({"expression": "1 > 2", "message": "m", "messageExpression": "'' + object.none"}, 422, "m"),
        ({"expression": "1 > 2", "reason": "Forbidden"}, 403, "failed expression: 1 > 2"),
        ({"expression": "1 > 2", "reason": "RequestEntityTooLarge"}, 413, "failed expression: 1 > 2"),
        (
            {"expression": "object.data.nothing == 'x'"},
            422,
            "expression 'object.data.nothing == 'x'' resulted in error: no such key: nothing",
        ),
        (
            {"expression": "variables.bad > 1"},
            422,
            "expression 'variables.bad > 1' resulted in error: "
            'composited variable "bad" fails to evaluate: no such key: none',
        ),
        ({"expression": "variables.twice == 4"}, 422, "failed expression: variables.twice == 4"),
        ({"expression": "request.operation == 'DELETE'"}, 422, "failed expression: request.operation == 'DELETE'"),
        (
            {"expression": "namespaceObject.metadata.name == 'x'"},
            422,
            "failed expression: namespaceObject.metadata.name == 'x'",
        ),
    ],
)
def test_how_a_denial_is_told(api: Api, place: str, validation: dict[str, Any], code: int, words: str) -> None:
    variables = [
        {"name": "one", "expression": "size(object.data)"},
        {"name": "twice", "expression": "variables.one * 2"},
        {"name": "bad", "expression": "object.data.none"},
    ]
    policy(api, place, validation, variables=variables)
    bind(api, place)
    answer = api.send("POST", MAPS.format(place), config(a="1"))
    assert answer.status == code
    assert answer.message.partition(" denied request: ")[2] == words


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.name == 'c' && oldObject == null",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps' && !request.dryRun",
        "'system:masters' in request.userInfo.groups",
        "namespaceObject.metadata.labels['judged'] == request.namespace",
        "object.kind == 'ConfigMap' && object.apiVersion == 'v1'",
        "variables.bad > 1 || true",
    ],
)
def test_what_expressions_see(api: Api, place: str, expression: str) -> None:
    variables = [{"name": "bad", "expression": "object.data.none"}]
    policy(api, place, {"expression": expression}, {"expression": "1 > 2", "message": "last"}, variables=variables)
    bind(api, place)
    assert api.send("POST", MAPS.format(place), config(a="1")).message.endswith("denied request: last")


def test_whom_a_policy_leaves_alone(api: Api, place: str) -> None:
    policy(
        api,
        place,
        {"expression": "false"},
        rule={"operations": ["CREATE"], "resourceNames": ["c"]},
        matchConditions=[{"name": "skip", "expression": "!has(object.data.skip)"}],
    )
    bind(api, place)
    assert api.send("POST", MAPS.format(place), config(skip="1"), dryRun="All").status == 201
    assert api.send("POST", MAPS.format(place), {**config(), "metadata": {"name": "d"}}).status == 201
    assert api.send("PATCH", f"{MAPS.format(place)}/d", {"data": {"a": "b"}}, MERGE).status == 200
    assert api.send("POST", f"/api/v1/namespaces/{place}/secrets", {"metadata": {"name": "c"}}).status == 201
    assert api.send("POST", MAPS.format(place), config(a="1")).status == 422


def test_deletions_are_asked_about(api: Api, place: str) -> None:
    policy(api, place, {"expression": "oldObject.data.a != 'kept'"}, rule={"operations": ["DELETE"]})
    bind(api, place)
    assert api.send("POST", MAPS.format(place), config(a="kept")).status == 201
    assert api.send("DELETE", f"{MAPS.format(place)}/c").status == 422
    assert api.send("PATCH", f"{MAPS.format(place)}/c", {"data": {"a": "free"}}, MERGE).status == 200
    assert api.send("DELETE", f"{MAPS.format(place)}/c").status == 200


def test_a_binding_may_only_warn_or_only_audit(api: Api, place: str) -> None:
    policy(api, place, {"expression": "false", "message": "hm"})
    bind(api, place, actions=("Warn", "Audit"))
    answer = api.send("POST", MAPS.format(place), config(a="1"))
    assert answer.status == 201
    assert answer.warnings == ["\"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': hm\""]


def test_parameters_come_from_the_binding(api: Api, place: str) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    policy(
        api, place, {"expression": "object.data.a == params.data.want"}, paramKind=kind, rule={"resourceNames": ["c"]}
    )
    bind(api, place, paramRef={"name": "limits", "parameterNotFoundAction": "Deny"})
    missing = api.send("POST", MAPS.format(place), config(a="1"))
    assert missing.message.endswith(
        "denied request: failed to configure binding: "
        "no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    limits = {"metadata": {"name": "limits"}, "data": {"want": "2"}}
    assert api.send("POST", MAPS.format(place), limits).status == 201
    assert api.send("POST", MAPS.format(place), config(a="1")).status == 422
    assert api.send("POST", MAPS.format(place), config(a="2")).status == 201


def test_what_cannot_be_evaluated_may_be_let_through(api: Api, place: str) -> None:
    policy(api, place, {"expression": "object.data.nothing == 'x'"}, failurePolicy="Ignore")
    bind(api, place)
    assert api.send("POST", MAPS.format(place), config(a="1")).status == 201


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"validations": [{"expression": "object.x >"}]},
            'spec.validations[0].expression: Invalid value: "object.x >": compilation failed: ERROR: <input>:1:11:',
        ),
        (
            {"validations": [{"expression": "object.x"}]},
            'spec.validations[0].expression: Invalid value: "object.x": must evaluate to bool but got dyn',
        ),
        (
            {"validations": [{"expression": "params.x == 1"}]},
            "undeclared reference to 'params' (in container '')",
        ),
        (
            {
                "variables": [{"name": "y", "expression": "1"}],
                "validations": [{"expression": "variables.x == 1"}],
            },
            "undefined field 'x'",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int',
        ),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused(api: Api, spec: dict[str, Any], words: str) -> None:
    body = {"metadata": {"name": "bad"}, "spec": {"matchConstraints": {"resourceRules": [RULE]}, **spec}}
    answer = api.send("POST", POLICIES, body)
    assert answer.status == 422
    assert words in answer.message


@pytest.mark.parametrize(
    ("expression", "status"),
    [
        ("object.x == 1", 201),
        ("... [] bad", 422),
        ("object.x", 422),
        ("authorizer.path('/x').check('get').allowed()", 201),
    ],
)
def test_the_conditions_of_a_webhook_must_be_readable(api: Api, expression: str, status: int) -> None:
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://example.com"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "c", "expression": expression}],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    answer = api.send("POST", path, {"metadata": {"name": "w"}, "webhooks": [hook]}, dryRun="All")
    assert answer.status == status
    if status == 422:
        assert "webhooks[0].matchConditions[0].expression: Invalid value" in answer.message


MAY = [
    ("authorizer.requestResource.check('create').allowed()", True),
    ("authorizer.requestResource.check('delete').allowed()", False),
    ("authorizer.group('').resource('configmaps').namespace('elsewhere').check('create').allowed()", False),
    ("authorizer.group('apps').resource('deployments').subresource('scale').check('update').allowed()", False),
    ("authorizer.path('/healthz').check('get').allowed()", True),
    ("authorizer.path('/metrics').check('get').reason() == ''", True),
    ("authorizer.serviceAccount('default', 'x').group('').resource('pods').check('get').allowed()", False),
    ("!authorizer.requestResource.check('get').errored()", True),
    ("request.options.kind == 'CreateOptions'", True),
]


@pytest.mark.parametrize(("expression", "holds"), MAY)
def test_expressions_ask_who_may_do_what(api: Api, place: str, expression: str, holds: bool) -> None:
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    api.send("POST", f"{roles}/roles", {"metadata": {"name": "maker"}, "rules": rules})
    subjects = [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"}
    api.send("POST", f"{roles}/rolebindings", {"metadata": {"name": "m"}, "roleRef": reference, "subjects": subjects})
    policy(api, place, {"expression": expression})
    bind(api, place)
    answer = api.send("POST", MAPS.format(place), config(), headers={"impersonate-user": "jane"})
    assert (answer.status == 201) is holds, answer


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("authorizer.path('').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('NO', 'x').path('/x').check('get').allowed()", "Invalid service account namespace"),
        (" && ".join(["authorizer.path('/x').check('get').allowed()"] * 3), "running out of cost budget"),
    ],
)
def test_questions_that_cannot_be_asked(api: Api, place: str, expression: str, why: str) -> None:
    policy(api, place, {"expression": expression})
    bind(api, place)
    answer = api.send("POST", MAPS.format(place), config())
    assert (answer.status, why in answer.message) == (422, True), answer


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"variables": [{"name": "a b", "expression": "1"}]}, "must be a valid CEL identifier"),
        ({"variables": [{"name": "if", "expression": "1"}]}, "must be a valid CEL identifier"),
        ({"variables": [{"name": "a", "expression": " "}]}, "expression is not specified"),
        (
            {"validations": [{"expression": "true", "messageExpression": "string(authorizer.path('/'))"}]},
            "undeclared reference to 'authorizer'",
        ),
    ],
)
def test_variables_annotations_and_messages_have_their_rules(api: Api, spec: dict[str, Any], words: str) -> None:
    whole = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}], **spec}
    refused = api.send("POST", POLICIES, {"metadata": {"name": "unruly"}, "spec": whole})
    assert (refused.status, words in refused.message) == (422, True), refused
