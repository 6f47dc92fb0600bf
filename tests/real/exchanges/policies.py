"""Admission policies: what their expressions see and may ask, whom they are meant for, and what they are told to be."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.real.wire import MERGE, Wire, case

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
PROBE = {"expression": "!has(object.metadata) || object.metadata.name != 'probe'", "message": "probing"}


HEARD_SECONDS = 2.0  # some are not heard of by what is tried


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


PROBED = {"metadata": {"name": "probe", "labels": {"judged": "yes"}}, "data": {"n": "9"}}


@contextmanager
def policed(w: Wire, spec: dict[str, Any], **binding: Any) -> Iterator[None]:
    """While this policy is bound in the namespace of the case; the real server hears of it a moment later."""
    kind = "validatingadmissionpolic"
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": w.ns}}}
    whole = {"matchConstraints": {"resourceRules": [RULE]}, **spec}
    whole["validations"] = [PROBE, *spec.get("validations", [])]
    bound = {"policyName": w.ns, "validationActions": ["Deny", "Warn"], "matchResources": where, **binding}
    answer = w.prepare("POST", f"{GROUP}/{kind}ies", {"metadata": {"name": w.ns}, "spec": whole})
    w.note("POST policy", status=str(answer.status), body="" if answer.status == 201 else w.normal.body(answer.body))
    if answer.status != 201:
        yield
        return
    answer = w.prepare("POST", f"{GROUP}/{kind}ybindings", {"metadata": {"name": w.ns}, "spec": bound})
    w.note("POST binding", status=str(answer.status), body="" if answer.status == 201 else w.normal.body(answer.body))

    def is_told(probed: bool, deadline: float = math.inf) -> bool:
        answer = w.prepare("POST", w.path("configmaps") + "?dryRun=All", PROBED)
        heard = answer.status >= 400 or "probing" in answer.headers.get("warning", "")
        return heard is probed or time.monotonic() > deadline

    if answer.status == 201:
        deadline = time.monotonic() + HEARD_SECONDS
        w.until(lambda: is_told(True, deadline))
    try:
        yield
    finally:
        w.prepare("DELETE", f"{GROUP}/{kind}ybindings/{w.ns}")
        w.prepare("DELETE", f"{GROUP}/{kind}ies/{w.ns}")
        w.until(lambda: is_told(False))


def told(w: Wire, expressions: Sequence[str], **more: Any) -> dict[str, Any]:
    """A policy that tells what each of these is, in its words: as a variable, since messages may ask less."""
    variables = [{"name": f"v{n}", "expression": text} for n, text in enumerate(expressions)]
    validations = [
        {"expression": "false", "messageExpression": f"'{n}: ' + string(variables.v{n})"}
        for n, _ in enumerate(expressions)
    ]
    return {"variables": variables, "validations": validations, **more}


TRUE = (
    "authorizer.group('').resource('configmaps').namespace('default').check('create').allowed()",
    "authorizer.group('').resource('configmaps').namespace('default').check('create').reason() == "
    '\'RBAC: allowed by RoleBinding "asked/default" of Role "asked" to User "jane"\'',
    "authorizer.group('').resource('configmaps').namespace('default').name('a').check('get').allowed()",
    "authorizer.group('').resource('configmaps').namespace('default').name('b').check('get').allowed()",
    "authorizer.group('').resource('configmaps').namespace('default').name('b').check('get').reason() == ''",
    "authorizer.group('apps').resource('deployments').subresource('scale').namespace('x').check('update').allowed()",
    "authorizer.requestResource.check('create').allowed()",
    "authorizer.requestResource.check('create').reason() == ''",
    "authorizer.requestResource.check('no-such-verb').allowed()",
    "authorizer.requestResource.name('other').check('delete').allowed()",
    "authorizer.path('/healthz').check('get').allowed()",
    "authorizer.path('/healthz').check('get').reason() == ''",
    "authorizer.path('/metrics').check('get').allowed()",
    "authorizer.path('').check('get').allowed()",
    "authorizer.group('').resource('').check('get').allowed()",
    "authorizer.serviceAccount('default', 'default').group('').resource('pods').check('get').allowed()",
    "authorizer.serviceAccount('default', 'NO').group('').resource('pods').check('get').allowed()",
    "authorizer.serviceAccount('NO', 'default').group('').resource('pods').check('get').allowed()",
    "authorizer.group('').resource('pods').check('get').errored()",
    "authorizer.group('').resource('pods').check('get').error() == ''",
    "authorizer.group('').resource('configmaps').fieldSelector('metadata.name=a').check('list').allowed()",
    "authorizer.group('').resource('configmaps').labelSelector('a=b').check('list').allowed()",
)


@case
def policies_that_ask_who_may(w: Wire) -> None:
    rbac = "rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]},
    ]
    for namespace in (w.ns, "default"):
        path = f"/apis/{rbac}/namespaces/{namespace}"
        w.prepare("POST", f"{path}/roles", {"metadata": {"name": "asked"}, "rules": rules})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "asked"}
        subjects = [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]
        w.prepare(
            "POST", f"{path}/rolebindings", {"metadata": {"name": "asked"}, "roleRef": reference, "subjects": subjects}
        )
    jane = {"Impersonate-User": "jane"}
    asked = [{"expression": f"!({text})", "message": f"{n} is true"} for n, text in enumerate(TRUE)]
    with policed(w, {"validations": asked}, validationActions=["Warn"]):
        w.send("POST", w.path("configmaps"), config("a"), query={"dryRun": "All"})
        w.send("POST", w.path("configmaps"), config("a"), query={"dryRun": "All"}, headers=jane)
    for expressions in (
        ["authorizer.nothing"],
        ["authorizer.group(5)"],
        ["authorizer.group('').check('get')"],
        ["authorizer.requestResource.check('x')"],
        ["has(authorizer.requestResource)"],
    ):
        with policed(w, {"validations": [{"expression": text} for text in expressions]}):
            w.post(w.path("configmaps"), config("a"), dryRun="All")
    with policed(
        w,
        {
            "validations": [
                {"expression": "true", "messageExpression": "string(authorizer.path('/').check('get').allowed())"}
            ]
        },
    ):
        pass
    many = " && ".join(["authorizer.path('/x').check('get').allowed()"] * 4)
    with policed(w, {"validations": [{"expression": many}]}):
        w.post(w.path("configmaps"), config("a"), dryRun="All")
    two = " && ".join(["authorizer.path('/x').check('get').allowed()"] * 2)
    with policed(w, {"validations": [{"expression": two}] * 10}):
        w.post(w.path("configmaps"), config("a"), dryRun="All")
    for namespace in (w.ns, "default"):
        for plural in ("rolebindings", "roles"):
            w.prepare("DELETE", f"/apis/{rbac}/namespaces/{namespace}/{plural}/asked")


@case
def policies_and_their_parameters(w: Wire) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    limit = {
        "paramKind": kind,
        "matchConditions": [{"name": "not-limits", "expression": "!object.metadata.name.startsWith('limit')"}],
    }
    validations = [
        {"expression": "int(object.data.n) <= int(params.data.most)", "messageExpression": "'most ' + params.data.most"}
    ]
    path = w.path("configmaps")
    for name, most in (("limit-a", "5"), ("limit-b", "3")):
        w.prepare("POST", path, {**config(name, most=most), "metadata": {"name": name, "labels": {"limit": "yes"}}})
    spec = {**limit, "validations": validations}
    for reference in (
        {"name": "limit-a", "namespace": w.ns, "parameterNotFoundAction": "Deny"},
        {"name": "limit-a", "parameterNotFoundAction": "Deny"},
        {"name": "limit-none", "parameterNotFoundAction": "Deny"},
        {"selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny"},
        {"selector": {"matchLabels": {"limit": "no"}}, "parameterNotFoundAction": "Deny"},
    ):
        with policed(w, spec, paramRef=reference):
            for number in ("2", "4", "6"):
                w.post(path, config("n", n=number), dryRun="All")
    for binding in (
        {},
        {"paramRef": {"name": "x", "selector": {}, "parameterNotFoundAction": "Deny"}},
        {"paramRef": {"name": "x"}},
        {"paramRef": {"parameterNotFoundAction": "Deny"}},
        {"paramRef": {"name": "x", "parameterNotFoundAction": "Perhaps"}},
        {"validationActions": []},
        {"validationActions": ["Deny", "Deny"]},
        {"validationActions": ["Scold"]},
        {"policyName": ""},
    ):
        made = {"policyName": "p", "validationActions": ["Audit"], **binding}
        w.post(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": w.ns}, "spec": made}, dryRun="All")


SEEN = (
    "namespaceObject.metadata.name",
    "namespaceObject.metadata.labels['kubernetes.io/metadata.name']",
    "namespaceObject.status.phase",
    "string(size(namespaceObject.spec.finalizers))",
    "request.operation + request.kind.kind + request.resource.resource + request.name + request.namespace",
    "request.requestKind.version + request.requestResource.group",
    "string(has(request.subResource)) + string(request.dryRun)",
    "string('system:masters' in request.userInfo.groups)",
    "string(oldObject == null)",
    "has(object.data) ? object.data.map(k, k).sort()[0] : 'none'",
    "variables.nothing",
    "object.data.nothing",
    "string(1 / int(object.data.zero))",
    "object.kind + object.apiVersion + object.metadata.name",
    "string(has(object.metadata.uid))",
    "string(has(object.metadata.managedFields))",
    "string(has(object.metadata.creationTimestamp))",
    "string(has(request.options))",
    "string(quantity('1Gi').isGreaterThan(quantity('1M')))",
    "'a,b'.split(',').join('-')",
)


@case
def what_policies_see(w: Wire) -> None:
    path = w.path("configmaps")
    with policed(w, told(w, [text for text in SEEN if "variables" not in text]), validationActions=["Warn"]):
        w.post(path, config("a", zero="0", b="1"), dryRun="All")
        w.prepare("POST", path, config("there", zero="0", b="1"))
        w.patch(f"{path}/there", {"data": {"c": "1"}}, MERGE, dryRun="All")
        w.put(f"{path}/there", config("there", zero="0"), dryRun="All")
    with policed(w, {"validations": [{"expression": "request.operation != 'DELETE' || oldObject.data.zero == '1'"}]}):
        w.delete(f"{path}/there", dryRun="All")
    with policed(
        w,
        {
            "validations": [
                {"expression": "false", "message": " spaced ", "reason": "Forbidden"},
                {"expression": "false", "messageExpression": "'two\\nlines'"},
                {"expression": "object.none"},
            ]
        },
    ):
        w.post(path, config("a"), dryRun="All")
    for reason in ("Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"):
        with policed(w, {"validations": [{"expression": "false", "reason": reason}]}, validationActions=["Deny"]):
            w.post(path, config("a"), dryRun="All")
    conditions = [
        [{"name": "a", "expression": "object.metadata.name != 'a'"}],
        [{"name": "a", "expression": "object.none == 'a'"}],
        [{"name": "a", "expression": "object.none == 'a'"}, {"name": "b", "expression": "object.metadata.name != 'a'"}],
        [{"name": "who", "expression": "authorizer.requestResource.check('create').allowed()"}],
    ]
    for each in conditions:
        for fails in ("Fail", "Ignore"):
            with policed(
                w, {"matchConditions": each, "failurePolicy": fails, "validations": [{"expression": "false"}]}
            ):
                w.post(path, config("a"), dryRun="All")


@case
def policies_whom_they_are_for(w: Wire) -> None:
    path = w.path("configmaps")
    labelled = {**config("a"), "metadata": {"name": "a", "labels": {"judged": "yes"}}}
    here = {"matchLabels": {"kubernetes.io/metadata.name": w.ns}}
    for where in (
        {"objectSelector": {"matchLabels": {"judged": "yes"}}},
        {"objectSelector": {"matchExpressions": [{"key": "judged", "operator": "DoesNotExist"}]}},
        {"resourceRules": [{**RULE, "operations": ["UPDATE"]}]},
        {"resourceRules": [{**RULE, "resourceNames": ["probe"]}]},
        {"excludeResourceRules": [{**RULE, "resourceNames": ["a"]}]},
        {"resourceRules": [{**RULE, "scope": "Cluster"}]},
        {"matchPolicy": "Exact"},
    ):
        binding = {"matchResources": {"namespaceSelector": here, **where}}
        with policed(w, {"validations": [{"expression": "false"}]}, **binding):
            w.post(path, labelled, dryRun="All")
            w.post(path, config("b"), dryRun="All")


@case
def policies_that_cannot_be(w: Wire) -> None:
    good = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
    for said in (
        {"validations": [{"expression": "object.x +"}]},
        {"validations": [{"expression": "1"}]},
        {"validations": [{"expression": "nothing.x"}]},
        {"validations": [{"expression": "params.x == 'a'"}]},
        {"validations": [{"expression": ""}]},
        {"validations": [{"expression": "true", "messageExpression": "1"}]},
        {"validations": [{"expression": "true", "reason": "Nonsense"}]},
        {"validations": []},
        {"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]},
        {"variables": [{"name": "a b", "expression": "1"}]},
        {"variables": [{"name": "a", "expression": "1"}, {"name": "a", "expression": "2"}]},
        {"variables": [{"name": "a", "expression": ""}]},
        {"matchConditions": [{"name": "a", "expression": "variables.x"}]},
        {"matchConditions": [{"name": "", "expression": "true"}]},
        {"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]},
        {"matchConditions": [{"name": "a", "expression": "'x'"}]},
        {"failurePolicy": "Maybe"},
        {"matchConstraints": {}},
        {"matchConstraints": {"resourceRules": [{**RULE, "operations": ["LOOK"]}]}},
        {"matchConstraints": {"resourceRules": [RULE], "matchPolicy": "Roughly"}},
        {"validations": [{"expression": "'x'.matches('[')"}]},
        {"validations": [{"expression": "object.metadata.labels.all(k, v, k == v)"}]},
        {"validations": [{"expression": "request.nothing == 'a'"}]},
        {"validations": [{"expression": "namespaceObject.nothing == 'a'"}]},
    ):
        body = {"metadata": {"name": w.ns}, "spec": {**good, **said}}
        w.post(f"{GROUP}/validatingadmissionpolicies", body, dryRun="All")


DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
BOTH = {**DEPLOYMENTS, "resources": ["statefulsets", "deployments"]}
ANY = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
MESSAGE = "'wants ' + object.spec.replicas"
