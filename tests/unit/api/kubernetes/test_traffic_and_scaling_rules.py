"""Autoscalers, budgets, network policies, ingresses, endpoint slices, webhooks, policies and classes: what is refused.

Each sentence was heard from kube-apiserver 1.36 for the same object.
"""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import changed, complaints, made, refused

from gpuaas.api.kubernetes.rules import behaviour_of
from gpuaas.machinery.mergepatch import apply_merge_patch

GOOD: dict[str, dict[str, Any]] = {
    "hpa": {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
    },
    "pdb": {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}},
    "policy": {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"podSelector": {}}},
    "ingress": {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    },
    "ingressclass": {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "spec": {"controller": "example.org/c"},
    },
    "slice": {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": []},
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
    "storage": {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "csi.example.org"},
    "runtime": {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"},
}


def _webhook(**fields: Any) -> dict[str, Any]:
    return {"webhooks": [{**GOOD["webhook"]["webhooks"][0], **fields}]}


def _metric(**metric: Any) -> dict[str, Any]:
    return {"spec": {"metrics": [metric]}}


def _path(**path: Any) -> dict[str, Any]:
    backend = {"service": {"name": "web", "port": {"name": "http"}}}
    return {"spec": {"rules": [{"http": {"paths": [{"backend": backend, **path}]}}]}}


def _ingress_policy(**rule: Any) -> dict[str, Any]:
    return {"spec": {"ingress": [rule]}}


def _rule(**rule: Any) -> dict[str, Any]:
    whole = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], **rule}
    return _webhook(rules=[whole])


_LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
_RULE = "webhooks[0].rules[0]"
_PATH = "spec.rules[0].http.paths[0]"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("hpa", {"spec": {"maxReplicas": None}}, "spec.maxReplicas: Required value: must be set and greater than 0"),
    ("hpa", {"spec": {"maxReplicas": -1}}, "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1"),
    ("hpa", {"spec": {"minReplicas": 9}}, "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"),
    ("hpa", {"spec": {"minReplicas": 0}}, "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"),
    ("hpa", {"spec": {"minReplicas": 0}}, "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"),
    ("hpa", {"spec": {"scaleTargetRef": {"apiVersion": "v1"}}}, 'spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group'),
    ("hpa", {"spec": {"scaleTargetRef": {"name": None}}}, "spec.scaleTargetRef.name: Required value"),
    ("hpa", _metric(type="Resource"), "spec.metrics[0].resource: Required value: must populate information for the given metric source"),
    ("hpa", _metric(type="Nope"), 'spec.metrics[0].type: Unsupported value: "Nope": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"'),
    ("hpa", _metric(type="Resource", resource={"name": "cpu", "target": {"type": "Utilization"}}), "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization"),
    ("hpa", _metric(type="Pods", pods={"metric": {"name": "r"}, "target": {"type": "AverageValue", "averageValue": "0"}}), 'spec.metrics[0].pods.target.averageValue: Invalid value: "0": must be positive'),
    ("hpa", {"spec": {"behavior": {"scaleUp": {"selectPolicy": "Most"}}}}, 'spec.behavior.scaleUp.selectPolicy: Unsupported value: "Most": supported values: "Disabled", "Max", "Min"'),
    ("pdb", {"spec": {"minAvailable": -1}}, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
    ("pdb", {"spec": {"minAvailable": "101%"}}, 'spec.minAvailable: Invalid value: "101%": must not be greater than 100%'),
    ("pdb", {"spec": {"maxUnavailable": 1}}, 'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'),
    ("pdb", {"spec": {"unhealthyPodEvictionPolicy": "Never"}}, 'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"'),
    ("policy", {"spec": {"policyTypes": ["Both"]}}, 'spec.policyTypes[0]: Unsupported value: "Both": supported values: "Ingress", "Egress"'),
    ("policy", _ingress_policy(**{"from": [{}]}), "spec.ingress[0].from[0]: Required value: must specify a peer"),
    ("policy", _ingress_policy(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]}), "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"),
    ("policy", _ingress_policy(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}), 'spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`'),
    ("policy", _ingress_policy(ports=[{"port": 0}]), "spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"),
    ("policy", _ingress_policy(ports=[{"port": 80, "endPort": 79}]), "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`"),
    ("policy", _ingress_policy(ports=[{"endPort": 79}]), "spec.ingress[0].ports[0].endPort: Invalid value: 79: may not be specified when `port` is not specified"),
    ("policy", _ingress_policy(ports=[{"port": 80, "protocol": "ICMP"}]), 'spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"'),
    ("ingress", {"spec": {"defaultBackend": None}}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
    ("ingress", {"spec": {"defaultBackend": {"service": {"port": None}}}}, "spec.defaultBackend: Required value: port name or number is required"),
    ("ingress", {"spec": {"defaultBackend": {"service": None}}}, 'spec.defaultBackend: Invalid value: "": resource or service backend is required'),
    ("ingress", _path(path="/"), f"{_PATH}.pathType: Required value: pathType must be specified"),
    ("ingress", _path(path="x", pathType="Prefix"), f'{_PATH}.path: Invalid value: "x": must be an absolute path'),
    ("ingress", _path(path="/a//b", pathType="Exact"), f"{_PATH}.path: Invalid value: \"/a//b\": must not contain '//'"),
    ("ingress", _path(path="/", pathType="Regex"), f'{_PATH}.pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"'),
    ("ingress", {"spec": {"rules": [{"host": "1.2.3.4"}]}}, 'spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address'),
    ("ingress", {"spec": {"rules": [{"host": "*x.y"}]}}, "spec.rules[0].host: Invalid value: \"*x.y\": a wildcard DNS-1123 subdomain must start with '*.'"),
    ("ingressclass", {"spec": {"controller": "plain"}}, 'spec.controller: Invalid value: "plain": must be a domain-prefixed path (such as "acme.io/foo")'),
    ("ingressclass", {"spec": {"parameters": {"kind": "K", "name": "n", "scope": "Namespace"}}}, "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"),
    ("slice", {"addressType": "IPv5"}, 'addressType: Unsupported value: "IPv5": supported values: "FQDN", "IPv4", "IPv6"'),
    ("slice", {"endpoints": [{"addresses": []}]}, "endpoints[0].addresses: Required value: must contain at least 1 address"),
    ("slice", {"endpoints": [{"addresses": ["fd00::1"]}]}, 'endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address'),
    ("slice", {"endpoints": [{"addresses": ["127.0.0.1"]}]}, 'endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'),
    ("slice", {"ports": [{"name": "a"}, {"name": "a"}]}, 'ports[1].name: Duplicate value: "a"'),
    ("webhook", _webhook(name="short"), 'webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots'),
    ("webhook", _webhook(sideEffects=None), "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
    ("webhook", _webhook(sideEffects="Some"), 'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'),
    ("webhook", _webhook(clientConfig={}), "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
    ("webhook", _webhook(clientConfig={"url": "http://h/"}), "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"),
    ("webhook", _webhook(clientConfig={"service": {"name": "s", "namespace": "n", "path": "x"}}), "webhooks[0].clientConfig.service.path: Invalid value: \"x\": must start with a '/'"),
    ("webhook", _webhook(admissionReviewVersions=[]), "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"),
    ("webhook", _webhook(admissionReviewVersions=["v2"]), 'webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1'),
    ("webhook", _webhook(timeoutSeconds=31), "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
    ("webhook", _rule(operations=["READ"]), f'{_RULE}.operations[0]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"'),
    ("webhook", _rule(resources=[]), f"{_RULE}.resources: Required value"),
    ("webhook", _rule(resources=["*", "pods"]), f"{_RULE}.resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources"),
    ("webhook", _rule(apiGroups=["*", "apps"]), f"{_RULE}.apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups"),
    ("admission", {"spec": {"validations": []}}, "spec.validations: Required value: validations or auditAnnotations must contain at least one item"),
    ("admission", {"spec": {"matchConstraints": None}}, "spec.matchConstraints: Required value"),
    ("admission", {"spec": {"paramKind": {"apiVersion": "a/b/c", "kind": "K"}}}, 'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'),
    ("binding", {"spec": {"policyName": None}}, "spec.policyName: Required value"),
    ("binding", {"spec": {"validationActions": ["Deny", "Deny"]}}, 'spec.validationActions[1]: Duplicate value: "Deny"'),
    ("binding", {"spec": {"paramRef": {"parameterNotFoundAction": "Deny"}}}, "spec.paramRef: Required value: one of name or selector must be specified"),
    ("storage", {"provisioner": None}, "provisioner: Required value"),
    ("storage", {"reclaimPolicy": "Recycle"}, 'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"'),
    ("storage", {"volumeBindingMode": "Later"}, 'volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"'),
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
    ("storage", {"provisioner": "other.example.org"}, "provisioner: Invalid value"),
    ("storage", {"reclaimPolicy": "Retain"}, "reclaimPolicy: Invalid value"),
    ("runtime", {"handler": "runc"}, "handler: Invalid value"),
    ("slice", {"addressType": "IPv6"}, "addressType: Invalid value"),
    ("ingressclass", {"spec": {"controller": "example.org/d"}}, "spec.controller: Invalid value"),
]


@pytest.mark.parametrize(("kind", "change", "sentence"), FROZEN, ids=[sentence for _, _, sentence in FROZEN])
def test_what_may_not_change(kind: str, change: dict[str, Any], sentence: str) -> None:
    said = complaints(GOOD[kind], change)
    assert [error.startswith(sentence) and error.endswith("field is immutable") for error in said] == [True]


def test_an_old_autoscaler_without_a_group_may_still_be_changed() -> None:
    old = apply_merge_patch(GOOD["hpa"], {"spec": {"scaleTargetRef": {"apiVersion": "v1"}}})
    assert complaints(old, {"spec": {"maxReplicas": 5}}) == []


def test_rules_of_scaling_are_filled_in() -> None:
    rules = made(apply_merge_patch(GOOD["hpa"], {"spec": {"behavior": {"scaleUp": {"selectPolicy": "Min"}}}}))
    up = rules["spec"]["behavior"]["scaleUp"]
    assert (up["selectPolicy"], up["stabilizationWindowSeconds"], len(up["policies"])) == ("Min", 0, 2)
    assert rules["spec"]["behavior"]["scaleDown"]["selectPolicy"] == "Max"


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
