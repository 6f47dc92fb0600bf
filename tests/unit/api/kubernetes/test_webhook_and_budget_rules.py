"""Disruption budgets, webhooks, admission policies and runtime classes: what is refused.

Each sentence was heard from kube-apiserver 1.36 for the same object.
"""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import changed, complaints, refused

from gpuaas.api.kubernetes.rules import behaviour_of
from gpuaas.machinery.mergepatch import apply_merge_patch

GOOD: dict[str, dict[str, Any]] = {
    "pdb": {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}},
    "webhook": {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "webhooks": [
            {
                "name": "a.example.org",
                "clientConfig": {"url": "https://h.example.org/x"},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    },
    "admission": {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            "validations": [{"expression": "true"}],
        },
    },
    "binding": {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    },
    "runtime": {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"},
}


def _webhook(**fields: Any) -> dict[str, Any]:
    return {"webhooks": [{**GOOD["webhook"]["webhooks"][0], **fields}]}


def _rule(**rule: Any) -> dict[str, Any]:
    whole = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], **rule}
    return _webhook(rules=[whole])


_LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
_RULE = "webhooks[0].rules[0]"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("pdb", {"spec": {"minAvailable": -1}}, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
    ("pdb", {"spec": {"minAvailable": "101%"}}, 'spec.minAvailable: Invalid value: "101%": must not be greater than 100%'),
    ("pdb", {"spec": {"maxUnavailable": 1}}, 'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'),
    ("pdb", {"spec": {"unhealthyPodEvictionPolicy": "Never"}}, 'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"'),
    ("webhook", _webhook(sideEffects=None), "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
    ("webhook", _webhook(sideEffects="Some"), 'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'),
    ("webhook", _webhook(clientConfig={}), "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
    ("webhook", _webhook(clientConfig={"url": "http://h/"}), "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"),
    ("webhook", _webhook(admissionReviewVersions=[]), "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"),
    ("webhook", _webhook(admissionReviewVersions=["v2"]), 'webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1'),
    ("webhook", _webhook(timeoutSeconds=31), "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
    ("webhook", _rule(operations=["READ"]), f'{_RULE}.operations[0]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"'),
    ("webhook", _rule(resources=[]), f"{_RULE}.resources: Required value"),
    ("admission", {"spec": {"validations": []}}, "spec.validations: Required value: validations or auditAnnotations must contain at least one item"),
    ("admission", {"spec": {"matchConstraints": None}}, "spec.matchConstraints: Required value"),
    ("binding", {"spec": {"policyName": None}}, "spec.policyName: Required value"),
    ("binding", {"spec": {"validationActions": ["Deny", "Deny"]}}, 'spec.validationActions[1]: Duplicate value: "Deny"'),
    ("binding", {"spec": {"paramRef": {"parameterNotFoundAction": "Deny"}}}, "spec.paramRef: Required value: one of name or selector must be specified"),
    ("runtime", {"handler": None}, "handler: Required value"),
    ("runtime", {"handler": "Not_A_Name"}, f'handler: Invalid value: "Not_A_Name": {_LABEL}'),
    ("runtime", {"scheduling": {"tolerations": [{"operator": "Exists"}, {"operator": "Exists"}]}}, 'scheduling.tolerations[1]: Duplicate value: {"Key":"","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'),
]  # fmt: skip


@pytest.mark.parametrize("kind", GOOD)
def test_what_is_right_is_accepted(kind: str) -> None:
    assert refused(GOOD[kind]) == []
    assert changed(GOOD[kind], {"metadata": {"labels": {"a": "b"}}})[1] == []


@pytest.mark.parametrize(("kind", "mistake", "sentence"), REFUSED, ids=[sentence for _, _, sentence in REFUSED])
def test_a_mistake_is_named(kind: str, mistake: dict[str, Any], sentence: str) -> None:
    said = refused(apply_merge_patch(GOOD[kind], mistake))
    assert any(error.startswith(sentence) for error in said), said


FROZEN: list[tuple[str, dict[str, Any], str]] = [
    ("runtime", {"handler": "runc"}, "handler: Invalid value"),
]


@pytest.mark.parametrize(("kind", "change", "sentence"), FROZEN, ids=[sentence for _, _, sentence in FROZEN])
def test_what_may_not_change(kind: str, change: dict[str, Any], sentence: str) -> None:
    said = complaints(GOOD[kind], change)
    assert [error.startswith(sentence) and error.endswith("field is immutable") for error in said] == [True]


def test_who_brings_a_webhook_that_is_a_service_is_told_that_nobody_calls_it() -> None:
    rules = behaviour_of("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
    assert rules is not None
    service = {"name": "s", "namespace": "n", "port": 443}
    hooks = [{**GOOD["webhook"]["webhooks"][0], "clientConfig": {"service": service}}]
    brought = {**GOOD["webhook"], "metadata": {"name": "w"}, "webhooks": hooks}
    (told,) = rules.warnings(brought, None)
    assert told.startswith("webhooks[0].clientConfig.service: services have no address here")
    labelled = {**brought, "metadata": {"name": "w", "labels": {"a": "b"}}}
    assert rules.warnings(labelled, brought) == []
    by_url = [{**hooks[0], "clientConfig": {"url": "https://127.0.0.1:9443/ask"}}]
    assert rules.warnings({**brought, "webhooks": by_url}, brought) == []
