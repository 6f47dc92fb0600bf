"""MutatingAdmissionPolicies: what they change, in which order, and what is said where they cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import MERGE, Api, judged_place

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}


@pytest.fixture
def place(api: Api, request: pytest.FixtureRequest) -> Iterator[str]:
    yield from judged_place(api, request.node.name, BINDINGS, POLICIES)


def policy(api: Api, place: str, *mutations: str, name: str = "p", **spec: Any) -> None:
    made = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
        if text.startswith("[")
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
        for text in mutations
    ]
    rules = {"resourceRules": [RULE]}
    said = {"matchConstraints": rules, "mutations": made, "reinvocationPolicy": "Never", **spec}
    answer = api.send("POST", POLICIES, {"metadata": {"name": name}, "spec": said})
    assert answer.status == 201, answer
    where = {"namespaceSelector": {"matchLabels": {"judged": place}}}
    body = {"metadata": {"name": name}, "spec": {"policyName": name, "matchResources": where}}
    assert api.send("POST", BINDINGS, body).status == 201


def deployment(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
    return {"metadata": {"name": "d", "annotations": {"own": "x"}}, "spec": body}


def test_a_configuration_is_applied(api: Api, place: str) -> None:
    policy(
        api,
        place,
        """Object{
            metadata: Object.metadata{annotations: {"by": "policy"}},
            spec: Object.spec{replicas: object.spec.replicas * 2, template: Object.spec.template{
                spec: Object.spec.template.spec{containers: [
                    Object.spec.template.spec.containers{name: "side", image: "s"}
                ]}
            }}
        }""",
    )
    made = api.send("POST", DEPLOYMENTS.format(place), deployment(replicas=3))
    assert made.status == 201, made
    assert made.body["metadata"]["annotations"] == {"own": "x", "by": "policy", "gpuaas.dev/owner": "admin"}
    assert made.body["spec"]["replicas"] == 6
    containers = made.body["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["c", "side"]
    assert containers[1]["imagePullPolicy"] == "Always", "what a policy adds gets its defaults"
    assert api.send("POST", DEPLOYMENTS.format("default"), deployment(replicas=3), dryRun="All").body["spec"][
        "replicas"
    ] == (3)


def test_patches_follow_one_another_and_see_what_was_changed(api: Api, place: str) -> None:
    policy(
        api,
        place,
        '[JSONPatch{op: "add", path: "/metadata/labels", value: {"n": string(object.spec.replicas)}}]',
        "Object{spec: Object.spec{replicas: int(object.metadata.labels.n) + variables.more}}",
        variables=[{"name": "more", "expression": "5"}],
        matchConditions=[{"name": "only", "expression": "!has(object.metadata.labels)"}],
    )
    made = api.send("POST", DEPLOYMENTS.format(place), deployment(replicas=1)).body
    assert (made["metadata"]["labels"], made["spec"]["replicas"]) == ({"n": "1"}, 6)
    again = api.send("PATCH", f"{DEPLOYMENTS.format(place)}/d", {"spec": {"replicas": 2}}, MERGE).body
    assert again["spec"]["replicas"] == 2, "the condition holds no longer"


@pytest.mark.parametrize(
    ("mutation", "words"),
    [
        (
            "Object{spec: Object.spec{replicas: object.spec.none}}",
            "expression 'Object{spec: Object.spec{replicas: object.spec.none}}' resulted in error: no such key: none",
        ),
        (
            "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: "
            '[Object.spec.template.spec.containers{name: "c", args: ["x"]}]}}}}',
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            '.spec.template.spec.containers[name="c"].args',
        ),
    ],
)
def test_what_cannot_be_followed_is_denied_unless_it_may_be_ignored(
    api: Api, place: str, mutation: str, words: str
) -> None:
    policy(api, place, mutation)
    answer = api.send("POST", DEPLOYMENTS.format(place), deployment())
    assert (answer.status, answer.body["reason"]) == (403, "Invalid")
    assert answer.message == f"policy 'p' with binding 'p' denied request: {words}"
    assert api.send("DELETE", f"{BINDINGS}/p").status == 200
    policy(api, place, mutation, name="lax", failurePolicy="Ignore")
    assert api.send("POST", DEPLOYMENTS.format(place), deployment()).status == 201


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("Objekt{}", "undeclared reference to 'Objekt' (in container '')"),
        ("1", "must evaluate to Object but got int"),
        ("Object{spec: }", "Syntax error"),
    ],
)
def test_a_mutation_that_cannot_be_read_is_refused(api: Api, expression: str, words: str) -> None:
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "mutations": [mutation], "reinvocationPolicy": "Never"}
    answer = api.send("POST", POLICIES, {"metadata": {"name": "bad"}, "spec": spec})
    assert answer.status == 422
    assert "spec.mutations[0].applyConfiguration.expression: Invalid value" in answer.message
    assert words in answer.message
