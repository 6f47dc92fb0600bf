"""Who is asking and what they may: tokens, impersonation, access reviews."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.real.wire import Wire, case

REVIEWS = "/apis/authorization.k8s.io/v1"


def review(kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


@case
def authentication(w: Wire) -> None:
    path = w.path("configmaps")
    w.send("GET", path, headers={"Authorization": ""})
    w.send("GET", path, headers={"Authorization": "Bearer nonsense"})
    w.send("GET", path, headers={"Authorization": "Basic dXNlcjpwYXNz"})
    w.send("GET", "/version", headers={"Authorization": "Bearer nonsense"})
    w.send("GET", "/healthz", headers={"Authorization": "Bearer nonsense"})
    w.send("GET", "/nosuch", headers={"Authorization": "Bearer nonsense"})


@case
def impersonation(w: Wire) -> None:
    path = w.path("configmaps")
    w.send("GET", path, headers={"Impersonate-User": "nobody"})
    w.send("GET", f"{path}/a", headers={"Impersonate-User": "nobody"})
    w.send("POST", path, {}, headers={"Impersonate-User": "nobody"})
    w.send("GET", "/apis/apps/v1/deployments", headers={"Impersonate-User": "nobody"})
    w.send("GET", "/metrics", headers={"Impersonate-User": "nobody"})
    w.send("GET", path, headers={"Impersonate-Group": "only-a-group"})
    w.send(
        "GET",
        path,
        query={"fieldSelector": "metadata.name=x"},
        headers={"Impersonate-User": "x", "Impersonate-Group": "system:masters"},
    )
    w.send("DELETE", path, headers={"Impersonate-User": "nobody"})
    w.send("PATCH", f"{path}/a", {}, headers={"Impersonate-User": "nobody"})
    w.send("PUT", f"{path}/a/status", {}, headers={"Impersonate-User": "nobody"})
    w.send("GET", path, query={"watch": "true"}, headers={"Impersonate-User": "nobody"})
    w.send("GET", "/api/v1/namespaces", headers={"Impersonate-User": "nobody"})
    w.send("GET", f"/api/v1/namespaces/{w.ns}", headers={"Impersonate-User": "nobody"})
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    for headers in (
        {"Impersonate-User": "ann", "Impersonate-Group": "a", "Impersonate-Extra-scopes": "view"},
        {"Impersonate-User": "system:serviceaccount:ns:robot"},
        {"Impersonate-User": "system:anonymous"},
        {"Impersonate-User": "ann", "Impersonate-Uid": "u-1"},
    ):
        w.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", who, headers=headers)


@case
def access_reviews(w: Wire) -> None:
    attributes = {"namespace": w.ns, "verb": "get", "resource": "pods"}
    w.post(f"{REVIEWS}/selfsubjectaccessreviews", review("SelfSubjectAccessReview", resourceAttributes=attributes))
    w.post(f"{REVIEWS}/selfsubjectaccessreviews", review("SelfSubjectAccessReview"))
    both = review(
        "SelfSubjectAccessReview", resourceAttributes=attributes, nonResourceAttributes={"path": "/", "verb": "get"}
    )
    w.post(f"{REVIEWS}/selfsubjectaccessreviews", both)
    w.post(f"{REVIEWS}/subjectaccessreviews", review("SubjectAccessReview", user="ann", resourceAttributes=attributes))
    w.post(f"{REVIEWS}/subjectaccessreviews", review("SubjectAccessReview", resourceAttributes=attributes))
    masters = review("SubjectAccessReview", user="x", groups=["system:masters"], resourceAttributes=attributes)
    w.post(f"{REVIEWS}/subjectaccessreviews", masters)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["one"], "verbs": ["get"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}],
    }
    w.post(w.path("roles", "rbac.authorization.k8s.io/v1"), role)
    w.post(w.path("rolebindings", "rbac.authorization.k8s.io/v1"), binding)
    # The rules of a new binding count a moment after it was made.
    asked = {**attributes, "name": "one"}
    question = review("SubjectAccessReview", user="ann", resourceAttributes=asked)
    w.until(lambda: w.prepare("POST", f"{REVIEWS}/subjectaccessreviews", question).json()["status"]["allowed"])
    for name in ("one", "two", ""):
        asked = {**attributes, "name": name}
        w.post(f"{REVIEWS}/subjectaccessreviews", review("SubjectAccessReview", user="ann", resourceAttributes=asked))
    local = review("LocalSubjectAccessReview", user="ann", resourceAttributes={**attributes, "name": "one"})
    w.post(f"{REVIEWS}/namespaces/{w.ns}/localsubjectaccessreviews", local)
    w.post(f"{REVIEWS}/namespaces/default/localsubjectaccessreviews", local)
    rules = w.side.send(
        "POST",
        f"{REVIEWS}/selfsubjectrulesreviews",
        json.dumps(review("SelfSubjectRulesReview", namespace=w.ns)),
        {"Content-Type": "application/json", "Impersonate-User": "ann"},
    )
    for name in ("resourceRules", "nonResourceRules"):
        # The rules of several roles come in no promised order.
        found = sorted(json.dumps(rule, sort_keys=True) for rule in rules.json().get("status", {}).get(name, []))
        w.note(f"POST selfsubjectrulesreviews, {name}", status=str(rules.status), rules="\n".join(found))
    w.post(f"{REVIEWS}/selfsubjectrulesreviews", review("SelfSubjectRulesReview"))


@case
def tokens(w: Wire) -> None:
    path = w.path("serviceaccounts/default/token")
    request: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = w.post(path, request).json()
    _claims(w, answer)
    answer = w.post(path, {**request, "spec": {"audiences": ["me"], "expirationSeconds": 3600}}).json()
    _claims(w, answer)
    w.post(path, {**request, "spec": {"expirationSeconds": 1}})
    w.post(path, {**request, "spec": {"expirationSeconds": 5_000_000_000}})
    w.post(path, {**request, "spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "nothere"}}})
    w.post(path, {**request, "spec": {"boundObjectRef": {"kind": "Cat", "apiVersion": "v1", "name": "x"}}})
    w.post(w.path("serviceaccounts/nothere/token"), request)
    token = w.prepare("POST", path, request).json()["status"]["token"]
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    for given in (token, "nonsense", ""):
        w.post(reviews, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": given}})
    w.send("GET", w.path("configmaps"), headers={"Authorization": f"Bearer {token}"})
    w.prepare("DELETE", w.path("serviceaccounts/default"))
    w.send("GET", w.path("configmaps"), headers={"Authorization": f"Bearer {token}"})


def _claims(w: Wire, answer: Any) -> None:
    token = answer.get("status", {}).get("token", "..")
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)) or b"{}")
    shown = {name: claims.get(name) for name in ("sub", "aud")} | {"names": sorted(claims)}
    shown["kubernetes.io"] = claims.get("kubernetes.io")
    w.note("the token's claims", claims=w.normal.value(shown))
