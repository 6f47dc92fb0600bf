"""Service accounts' tokens: what a TokenRequest answers, and how long a token holds."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.security.keys import SigningKey, key_pem, make_key
from gpuaas.apiserver.security.serviceaccounts import ISSUER, InvalidToken, ServiceAccounts
from gpuaas.base.clock import VirtualClock, rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.base.ids import SeededIds

Object = dict[str, Any]
KEY = SigningKey(key_pem(make_key()))
DELETED: Object = {}


class World:
    """Some objects, a clock, and the tokens of their accounts."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.objects: dict[tuple[str, str, str], Object] = {}
        for plural, namespace, name, uid, spec in (
            ("serviceaccounts", "dev", "runner", "sa-1", {}),
            ("serviceaccounts", "dev", "other", "sa-2", {}),
            ("pods", "dev", "p", "pod-1", {"serviceAccountName": "runner", "nodeName": "n"}),
            ("nodes", "", "n", "node-1", {}),
            ("secrets", "dev", "s", "secret-1", {}),
        ):
            self.objects[plural, namespace, name] = _object(namespace, name, uid, spec)
        self.accounts = ServiceAccounts(lambda: KEY, self.lookup, self.clock, SeededIds())

    def lookup(self, plural: str, namespace: str, name: str) -> Object | None:
        return self.objects.get((plural, namespace, name))

    def request(self, account: str = "runner", **body: Any) -> Object:
        return self.accounts.request("dev", self.objects["serviceaccounts", "dev", account], body)

    def token(self, account: str = "runner", **spec: Any) -> str:
        token: str = self.request(account, spec=spec)["status"]["token"]
        return token

    def who(self, token: str) -> User:
        verified = self.accounts.authenticate(token)
        assert verified is not None
        return verified.user


def _object(namespace: str, name: str, uid: str, spec: Object) -> Object:
    return {"metadata": {"namespace": namespace, "name": name, "uid": uid}, "spec": spec}


@pytest.fixture
def world() -> World:
    return World()


def claims(token: str) -> Object:
    payload = token.split(".")[1]
    decoded: Object = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return decoded


def test_a_token_request_is_answered_with_a_token_and_its_end(world: World) -> None:
    answer = world.request(spec={})
    token = answer["status"].pop("token")
    start = world.clock.now()
    assert answer == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": "runner", "namespace": "dev", "uid": "sa-1", "creationTimestamp": rfc3339(start)},
        "spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {"expirationTimestamp": rfc3339(start + 3600)},
    }
    stated = claims(token)
    identifier = stated.pop("jti")
    assert stated == {
        "aud": [ISSUER],
        "exp": int(start) + 3600,
        "iat": int(start),
        "nbf": int(start),
        "iss": ISSUER,
        "kubernetes.io": {"namespace": "dev", "serviceaccount": {"name": "runner", "uid": "sa-1"}},
        "sub": "system:serviceaccount:dev:runner",
    }
    assert world.who(token) == User(
        "system:serviceaccount:dev:runner",
        "sa-1",
        ("system:serviceaccounts", "system:serviceaccounts:dev", "system:authenticated"),
        {"authentication.kubernetes.io/credential-id": (f"JTI={identifier}",)},
    )


def test_a_token_bound_to_a_pod_says_pod_and_node(world: World) -> None:
    token = world.token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    prefix = "authentication.kubernetes.io"
    extra = dict(world.who(token).extra)
    extra.pop(f"{prefix}/credential-id")
    assert extra == {
        f"{prefix}/pod-name": ("p",),
        f"{prefix}/pod-uid": ("pod-1",),
        f"{prefix}/node-name": ("n",),
        f"{prefix}/node-uid": ("node-1",),
    }


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"spec": {"expirationSeconds": 10}}, 422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify'
            " a duration less than 10 minutes",
        ),
        (
            {"spec": {"expirationSeconds": 1 << 40}}, 422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 1099511627776: may'
            " not specify a duration larger than 2^32 seconds",
        ),
        (
            {"metadata": {"name": "zz"}}, 422,
            'TokenRequest.authentication.k8s.io "runner" is invalid: metadata.name: Invalid value: "zz": must match the'
            " service account name if specified",
        ),
        (
            {"metadata": {"namespace": "zz"}}, 422,
            'TokenRequest.authentication.k8s.io "runner" is invalid: metadata.namespace: Invalid value: "zz": must match'
            " the service account namespace if specified",
        ),
        (
            {"metadata": {"uid": "zz"}}, 409,
            'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "runner": the UID in the token request'
            " (zz) does not match the UID of the service account (sa-1)",
        ),
        ({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}}, 404, 'pods "x" not found'),
        (
            {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}}, 400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "zz"}}}, 409,
            'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (zz) does not match the UID'
            " in record. The object might have been deleted and then recreated",
        ),
        ({"spec": {"expirationSeconds": "x"}}, 400, "cannot be handled as a TokenRequest"),
        ({"spec": []}, 400, "cannot be handled as a TokenRequest"),
        ({"metadata": 7}, 400, "cannot be handled as a TokenRequest"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_met_are_answered_in_the_real_servers_words(
    world: World, body: Object, code: int, message: str
) -> None:
    with pytest.raises(ApiError) as error:
        world.request(**body)
    assert error.value.code == code
    assert message in error.value.message


def test_a_pod_of_another_account_cannot_be_bound(world: World) -> None:
    with pytest.raises(ApiError, match="pod running with different serviceaccount name"):
        world.token("other", boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})


POD = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
NODE = {"kind": "Node", "apiVersion": "v1", "name": "n"}
SECRET = {"kind": "Secret", "apiVersion": "v1", "name": "s"}


@pytest.mark.parametrize(
    ("spec", "change", "why"),
    [
        ({}, ("serviceaccounts", "dev", "runner", None), 'serviceaccounts "runner" not found'),
        (
            {},
            ("serviceaccounts", "dev", "runner", "sa-9"),
            r"service account UID \(sa-9\) does not match claim \(sa-1\)",
        ),
        ({}, ("serviceaccounts", "dev", "runner", ""), "service account dev/runner has been deleted"),
        ({"boundObjectRef": POD}, ("pods", "dev", "p", None), "service account token has been invalidated"),
        ({"boundObjectRef": POD}, ("pods", "dev", "p", ""), "service account token has been invalidated"),
        ({"boundObjectRef": POD}, ("pods", "dev", "p", "pod-9"), r"pod UID \(pod-9\) does not match"),
        ({"boundObjectRef": NODE}, ("nodes", "", "n", None), "service account token has been invalidated"),
        ({"boundObjectRef": SECRET}, ("secrets", "dev", "s", None), "service account token has been invalidated"),
    ],
)
def test_a_token_ends_with_what_it_is_bound_to(
    world: World, spec: Object, change: tuple[str, str, str, str | None], why: str
) -> None:
    token = world.token(**spec)
    world.who(token)
    *key, uid = change
    plural, namespace, name = (str(part) for part in key)
    if uid is None:
        del world.objects[plural, namespace, name]
    elif uid:
        world.objects[plural, namespace, name] = _object(namespace, name, uid, {})
    else:  # deleted, but held by a finalizer
        old = world.objects[plural, namespace, name]
        stamp = {"deletionTimestamp": rfc3339(world.clock.now() - 100)}
        world.objects[plural, namespace, name] = {**old, "metadata": {**old["metadata"], **stamp}}
    with pytest.raises(InvalidToken, match=why):
        world.accounts.authenticate(token)


def test_the_node_of_a_pods_token_may_go(world: World) -> None:
    token = world.token(boundObjectRef=POD)
    del world.objects["nodes", "", "n"]
    world.who(token)


def test_a_token_holds_for_its_time_and_a_minute_of_leeway(world: World) -> None:
    token = world.token(expirationSeconds=600)
    world.clock.advance(655)
    world.who(token)
    world.clock.advance(10)
    with pytest.raises(InvalidToken, match="service account token has expired"):
        world.accounts.authenticate(token)


def test_a_token_for_others_is_not_for_us(world: World) -> None:
    token = world.token(audiences=["vault", "db"])
    with pytest.raises(InvalidToken) as error:
        world.accounts.authenticate(token)
    assert str(error.value) == f'token audiences ["vault" "db"] is invalid for the target audiences ["{ISSUER}"]'
    verified = world.accounts.authenticate(token, ["db", "x"])
    assert verified is not None
    assert verified.audiences == ("db",)


def change_claim(token: str) -> str:
    head, _, signature = token.split(".")
    changed = claims(token)
    changed["sub"] = "system:serviceaccount:kube-system:admin"
    body = base64.urlsafe_b64encode(msgspec.json.encode(changed)).rstrip(b"=").decode()
    return f"{head}.{body}.{signature}"


def no_algorithm(token: str) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{head}.{token.split('.')[1]}."


@pytest.mark.parametrize(
    "forged",
    [change_claim, no_algorithm, lambda token: token[:-8] + "AAAAAAAA", lambda token: token.rpartition(".")[0] + "."],
    ids=["changed claims", "alg none", "other signature", "no signature"],
)
def test_a_forged_token_is_refused(world: World, forged: Callable[[str], str]) -> None:
    token = world.token()
    world.who(token)
    with pytest.raises(InvalidToken):
        world.accounts.authenticate(forged(token))


def test_another_clusters_token_is_refused(world: World) -> None:
    other = ServiceAccounts(lambda: SigningKey(key_pem(make_key())), world.lookup, world.clock, SeededIds())
    with pytest.raises(InvalidToken, match="invalid signature, no keys found"):
        other.authenticate(world.token())


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "..", "é.é.é", "eyJ9.eyJ9.x", "a.b", "a.b.c.d"])
def test_what_is_no_token_of_ours_is_nobodys(world: World, text: str) -> None:
    assert world.accounts.authenticate(text) is None


def test_a_secrets_token_has_no_end_but_the_secrets(world: World) -> None:
    account, secret = world.objects["serviceaccounts", "dev", "runner"], world.objects["secrets", "dev", "s"]
    token = world.accounts.secret_token(account, secret)
    world.clock.advance(10 * 365 * 86_400)
    assert world.who(token).name == "system:serviceaccount:dev:runner"
    del world.objects["secrets", "dev", "s"]
    with pytest.raises(InvalidToken):
        world.accounts.authenticate(token)


def test_the_key_is_made_once_and_published(tmp_path: Path) -> None:
    first, second = SigningKey.at(tmp_path / "k"), SigningKey.at(tmp_path / "k")
    assert first.jwk() == second.jwk()
    assert first.jwk()["alg"] == "ES256"
    assert first.jwk()["kid"] == first.key_id
    assert second.verifies(first.sign(b"x"), b"x")
    assert not second.verifies(first.sign(b"x"), b"y")
