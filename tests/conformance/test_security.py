"""A hostile user of a running server: what a role does not grant cannot be had by another way of asking.

Each test is a way around; the first of a group shows that the ordinary way is closed as well.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance.service import Service, eventually
from tests.conformance.wire import Answer

RBAC = "rbac.authorization.k8s.io"
TEAM = "team"
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**made, "resourceNames": names.split()} if names else made


class Person:
    """A service account with the rules given, in one namespace or everywhere, and its token."""

    def __init__(self, service: Service, name: str, *rules: dict[str, Any], everywhere: bool = False) -> None:
        self.service = service
        self.name = name
        accounts = f"/api/v1/namespaces/{TEAM}/serviceaccounts"
        self._made(accounts, {"metadata": {"name": name}})
        kind, where = ("ClusterRole", "") if everywhere else ("Role", f"/namespaces/{TEAM}")
        base = f"/apis/{RBAC}/v1{where}/{kind.lower()}"
        self._made(f"{base}s", {"metadata": {"name": name}, "rules": list(rules)})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": TEAM}
        reference = {"apiGroup": RBAC, "kind": kind, "name": name}
        self._made(f"{base}bindings", {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})
        self.token = service.ask("POST", f"{accounts}/{name}/token", {}).json()["status"]["token"]

    def _made(self, path: str, body: Any) -> None:
        answer = self.service.ask("POST", path, body)
        assert answer.status in (201, 409), answer

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        return self.service.ask(method, path, body, token=self.token, **more)


@pytest.fixture(scope="module", autouse=True)
def team(service: Service) -> None:
    for name in (TEAM, "theirs"):
        service.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        service.ask(
            "POST",
            f"/api/v1/namespaces/{name}/secrets",
            {"metadata": {"name": "secret"}, "stringData": {"key": "hidden"}},
        )
        service.ask("POST", f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "mine"}, "data": {"a": "b"}})


@pytest.fixture(scope="module")
def owner(service: Service) -> Person:
    """May do everything in one namespace, and nothing elsewhere."""
    return Person(service, "owner", EVERYTHING)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces"),
        ("GET", f"/api/v1/namespaces/{TEAM}/namespaces"),
        ("POST", f"/api/v1/namespaces/{TEAM}/namespaces"),
        ("DELETE", f"/api/v1/namespaces/{TEAM}/namespaces"),
        ("DELETE", f"/api/v1/namespaces/{TEAM}/namespaces/theirs"),
        ("GET", f"/api/v1/namespaces/{TEAM}/namespaces/theirs"),
        ("GET", f"/api/v1/namespaces/{TEAM}/nodes"),
        ("POST", f"/api/v1/namespaces/{TEAM}/nodes"),
        ("GET", f"/apis/{RBAC}/v1/namespaces/{TEAM}/clusterroles"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/namespaces//secrets"),
        ("GET", "/api/v1/namespaces/theirs/secrets/secret"),
        ("GET", f"/api/v1/namespaces/{TEAM}/../theirs/secrets/secret"),
        ("GET", f"/api/v1/namespaces/{TEAM}%2f..%2ftheirs/secrets/secret"),
        ("GET", f"/api/v1/namespaces/{TEAM}/secrets%2f..%2f..%2ftheirs%2fsecrets/secret"),
        ("GET", f"/api/v1/namespaces/{TEAM}/secrets/..%2f..%2ftheirs%2fsecrets%2fsecret"),
        ("GET", "/api/v1/watch/secrets"),
        ("GET", "/api/v1/watch/namespaces/theirs/secrets"),
        ("GET", "/api/v1/secrets?watch=1"),
        ("GET", "//api/v1/namespaces/theirs/secrets/secret"),
        ("GET", "/API/v1/namespaces/theirs/secrets/secret"),
        ("GET", "/clusters/local/api/v1/namespaces/theirs/secrets/secret"),
        ("GET", "/clusters/../api/v1/namespaces/theirs/secrets/secret"),
        ("GET", "/clusters/local/clusters/local/api/v1/namespaces/theirs/secrets/secret"),
        ("GET", "http://localhost/api/v1/namespaces/theirs/secrets/secret"),
        ("HEAD", "/api/v1/namespaces/theirs/secrets/secret"),
        ("PUT", "/api/v1/namespaces/theirs/finalize"),
        ("DELETE", "/api/v1/namespaces/theirs"),
        ("GET", "/apis/batch/v1/namespaces/theirs/jobs/x/status"),
        ("DELETE", "/api/v1/namespaces/theirs/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
        ("POST", "/api/v1/namespaces/theirs/serviceaccounts/default/token"),
        ("POST", "/api/v1/namespaces/theirs/bindings"),
    ],
)  # fmt: skip
def test_who_owns_one_namespace_reaches_no_other(owner: Person, method: str, path: str) -> None:
    body = {"metadata": {"name": "theirs"}} if method in ("POST", "PUT") else None
    answer = owner.ask(method, path, body)
    assert answer.status in (403, 404), answer
    assert b"hidden" not in answer.body
    assert b"aGlkZGVu" not in answer.body


def test_the_body_cannot_name_another_namespace_than_the_path(owner: Person) -> None:
    answer = owner.ask(
        "POST", f"/api/v1/namespaces/{TEAM}/configmaps", {"metadata": {"name": "x", "namespace": "theirs"}}
    )
    assert answer.status == 400
    assert "the namespace of the provided object does not match" in answer.json()["message"]


def test_applying_what_does_not_exist_needs_create_as_well_as_patch(service: Service) -> None:
    patcher = Person(service, "patcher", rule("patch get", "configmaps"))
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {}}
    path = f"/api/v1/namespaces/{TEAM}/configmaps"
    refused = patcher.ask("PATCH", f"{path}/new?fieldManager=x", config, media="application/apply-patch+yaml")
    assert refused.status == 403
    assert 'cannot create resource "configmaps"' in refused.json()["message"]
    existing = {**config, "metadata": {"name": "mine"}, "data": {"c": "d"}}
    allowed = patcher.ask("PATCH", f"{path}/mine?fieldManager=x", existing, media="application/apply-patch+yaml")
    assert allowed.status == 200


def test_an_update_that_creates_needs_create_as_well_as_update(service: Service) -> None:
    updater = Person(service, "updater", rule("update", "leases", "coordination.k8s.io"))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "new"}}
    answer = updater.ask("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{TEAM}/leases/new", lease)
    assert answer.status == 403
    assert service.ask("GET", f"/apis/coordination.k8s.io/v1/namespaces/{TEAM}/leases/new").status == 404


def test_permission_by_name_holds_for_lists_and_watches_of_that_name_only(service: Service) -> None:
    reader = Person(service, "reader", rule("get list watch", "configmaps", names="mine"))
    path = f"/api/v1/namespaces/{TEAM}/configmaps"
    assert reader.ask("GET", f"{path}/mine").status == 200
    one = reader.ask("GET", f"{path}?fieldSelector=metadata.name%3Dmine")
    assert [each["metadata"]["name"] for each in one.json()["items"]] == ["mine"]
    for query in ("", "?fieldSelector=metadata.name%3Dother", "?fieldSelector=metadata.name!%3Dmine", "?watch=1", "?fieldSelector=metadata.namespace%3Dteam", "?fieldSelector=metadata.name%3Dother&fieldSelector=metadata.name%3Dmine"):  # fmt: skip
        assert reader.ask("GET", path + query).status == 403, query


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([rule("get", "pods")], id="the object, not its subresource"),
        pytest.param([rule("get", "pods/status")], id="one subresource, not another"),
    ],
)
def test_a_subresource_is_its_own_permission(service: Service, rules: list[dict[str, Any]]) -> None:
    person = Person(service, f"sub{len(json.dumps(rules))}", *rules)
    for path in ("log", "exec", "portforward", "proxy", "eviction", "binding"):
        assert person.ask("GET", f"/api/v1/namespaces/{TEAM}/pods/x/{path}").status == 403
        assert person.ask("POST", f"/api/v1/namespaces/{TEAM}/pods/x/{path}", {}).status == 403


def test_status_writes_change_no_spec_and_no_metadata_that_matters(service: Service) -> None:
    person = Person(service, "statuses", rule("get update patch", "jobs/status", "batch"))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}
    jobs = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
    service.ask("POST", jobs, {"metadata": {"name": "quiet"}, "spec": {"suspend": True, "template": template}})
    patch = {
        "spec": {"suspend": False},
        "metadata": {"ownerReferences": [], "labels": {"a": "b"}, "finalizers": ["x.y/z"]},
    }
    answer = person.ask("PATCH", f"{jobs}/quiet/status", patch, media="application/merge-patch+json")
    assert answer.status in (200, 422)
    kept = service.ask("GET", f"{jobs}/quiet").json()
    assert kept["spec"]["suspend"] is True
    assert "x.y/z" not in kept["metadata"].get("finalizers", [])


class TestEscalation:
    @pytest.fixture
    def manager(self, service: Service) -> Person:
        """May write roles and bindings in the namespace, and read config maps."""
        return Person(
            service,
            "manager",
            rule("get create update patch delete", "roles rolebindings", RBAC),
            rule("get", "configmaps"),
        )

    @pytest.mark.parametrize("method", ["POST", "PUT", "merge", "json", "apply"])
    def test_a_role_with_more_than_its_writer_has_cannot_be_written(
        self, service: Service, manager: Person, method: str
    ) -> None:
        base = f"/apis/{RBAC}/v1/namespaces/{TEAM}/roles"
        role = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": {"name": "more"},
            "rules": [rule("get", "secrets")],
        }
        if method == "POST":
            answer = manager.ask("POST", base, role)
        else:
            service.ask("POST", base, {"metadata": {"name": "more"}, "rules": []})
            media = {"merge": "merge-patch+json", "json": "json-patch+json", "apply": "apply-patch+yaml"}.get(
                method, "json"
            )
            body: Any = [{"op": "add", "path": "/rules", "value": role["rules"]}] if method == "json" else role
            query = "fieldManager=x&force=true" if method == "apply" else "fieldManager=x"
            answer = manager.ask(
                "PUT" if method == "PUT" else "PATCH", f"{base}/more?{query}", body, media=f"application/{media}"
            )
        assert answer.status == 403, answer
        assert "is attempting to grant RBAC permissions not currently held" in answer.json()["message"]

    def test_a_binding_to_a_stronger_role_cannot_be_written(self, manager: Person) -> None:
        subject = {"kind": "ServiceAccount", "name": "manager", "namespace": TEAM}
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
        body = {"metadata": {"name": "up"}, "subjects": [subject], "roleRef": reference}
        assert manager.ask("POST", f"/apis/{RBAC}/v1/namespaces/{TEAM}/rolebindings", body).status == 403
        assert manager.ask("POST", f"/apis/{RBAC}/v1/clusterrolebindings", body).status == 403

    def test_a_weak_role_that_is_bound_cannot_be_replaced_by_a_stronger_one_of_its_name(
        self, service: Service, manager: Person
    ) -> None:
        base = f"/apis/{RBAC}/v1/namespaces/{TEAM}/roles/manager"
        assert manager.ask("DELETE", base).status in (200, 403)
        assert manager.ask("GET", f"/api/v1/namespaces/{TEAM}/secrets").status == 403


class TestImpersonation:
    @pytest.mark.parametrize(
        "headers",
        [
            {"impersonate_user": "admin"},
            {"impersonate_user": "x", "impersonate_group": "system:masters"},
            {"impersonate_user": "system:serviceaccount:kube-system:default"},
            {"impersonate_user": "x", "impersonate_uid": "1"},
            {"impersonate_user": "x", "impersonate_extra_scopes": "all"},
        ],
    )
    def test_nobody_becomes_somebody_else_without_being_allowed_to(
        self, owner: Person, headers: dict[str, str]
    ) -> None:
        answer = owner.ask("GET", "/api/v1/namespaces/theirs/secrets/secret", **headers)
        assert answer.status == 403
        assert "cannot impersonate" in answer.json()["message"]

    def test_groups_need_their_own_permission(self, service: Service) -> None:
        person = Person(service, "acting", rule("impersonate", "users", names="bob"), everywhere=True)
        assert person.ask("GET", "/api/v1/nodes", impersonate_user="bob").status == 403
        answer = person.ask("GET", "/api/v1/nodes", impersonate_user="bob", impersonate_group="system:masters")
        assert 'cannot impersonate resource "groups"' in answer.json()["message"]


class TestCredentials:
    @pytest.mark.parametrize(
        "path", ["/api", "/apis", "/api/v1/namespaces", "/openapi/v2", "/clusters/local/api", "/", "/nothing"]
    )
    def test_nobody_is_asked_who_they_are(self, service: Service, path: str) -> None:
        answer = service.ask("GET", path, token="")
        assert answer.status == 401
        assert answer.json()["reason"] == "Unauthorized"

    @pytest.mark.parametrize("token", ["x", "a.b.c", "e30.e30.e30", "..", "null", "x" * 20_000])
    def test_a_token_that_is_none_is_refused(self, service: Service, token: str) -> None:
        assert service.ask("GET", "/api", token=token).status == 401

    def test_an_unsigned_or_otherwise_signed_token_is_refused(self, owner: Person, service: Service) -> None:
        import base64

        head, claims, signature = owner.token.split(".")
        for algorithm in ("none", "HS256", "ES384"):
            forged = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "x"}).encode()).decode().rstrip("=")
            assert service.ask("GET", "/api", token=f"{forged}.{claims}.{signature}").status == 401
            assert service.ask("GET", "/api", token=f"{forged}.{claims}.").status == 401
        changed = (
            base64.urlsafe_b64encode(base64.urlsafe_b64decode(claims + "==").replace(b"owner", b"admin"))
            .decode()
            .rstrip("=")
        )
        assert service.ask("GET", "/api", token=f"{head}.{changed}.{signature}").status == 401

    def test_the_log_holds_no_token(self, service: Service, owner: Person) -> None:
        service.ask("POST", "/api/v1/namespaces", b"{broken", token=owner.token)
        said = service.log.read_text()
        assert owner.token not in said
        assert service.token not in said

    def test_a_deleted_accounts_token_ends_with_it(self, service: Service) -> None:
        person = Person(service, "leaving", rule("get", "configmaps"))
        assert person.ask("GET", f"/api/v1/namespaces/{TEAM}/configmaps/mine").status == 200
        service.ask("DELETE", f"/api/v1/namespaces/{TEAM}/serviceaccounts/leaving")
        eventually(
            lambda: person.ask("GET", f"/api/v1/namespaces/{TEAM}/configmaps/mine").status == 401,
            "the token is still good",
        )


def test_a_definition_that_calls_itself_ours_is_checked_like_any_other(service: Service) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "nothing"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "fakes", "singular": "fake", "kind": "Fake"}
    meta = {"name": "fakes.example.net", "annotations": {"gpuaas.dev/bundled": "0123456789abcdef"}}
    body = {
        "metadata": meta,
        "spec": {"group": "example.net", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    answer = service.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    assert answer.status == 422


class TestFloods:
    """Many connections that give nothing: others are served all the same."""

    def test_half_requests_and_silent_connections_do_not_keep_others_waiting(self, service: Service) -> None:
        held = [service.connect() for _ in range(150)]
        try:
            for index, wire in enumerate(held):
                wire.send(
                    (
                        b"",
                        b"GET /api HTT",
                        b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{",
                    )[index % 3]
                )
            assert service.ask("GET", "/api/v1/namespaces").status == 200
        finally:
            for wire in held:
                wire.close()
        assert service.ask("GET", "/readyz").status == 200

    def test_connections_that_never_speak_tls_do_no_harm(self, service: Service) -> None:
        import socket
        from urllib.parse import urlsplit

        address = urlsplit(service.url)
        held = []
        for index in range(50):
            plain = socket.create_connection((address.hostname, address.port), 10)
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n" if index % 2 else b"\x16\x03\x01")
            held.append(plain)
        assert service.ask("GET", "/readyz").status == 200
        for plain in held:
            plain.close()

    def test_a_client_that_does_not_read_its_answers_costs_no_more_than_its_own_connection(
        self, service: Service
    ) -> None:
        before = service.rss()
        wire = service.connect()
        request = f"GET /openapi/v2 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.token}\r\n\r\n".encode()
        wire.send(request * 200)  # answers of hundreds of megabytes, if they were all made
        for _ in range(20):
            assert service.ask("GET", "/api/v1/namespaces").status == 200
        assert service.rss() - before < 150_000_000
        wire.close()
