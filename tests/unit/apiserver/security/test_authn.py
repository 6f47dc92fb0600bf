"""Who asks: the header, the certificate, or nobody."""

from pathlib import Path

import pytest
from tests.unit.apiserver.security.test_serviceaccounts import ISSUER, World

from gpuaas.apiserver.security.authn import Authenticator, User, bearer_token, socket_token, subprotocols
from gpuaas.apiserver.security.certs import Authority
from gpuaas.apiserver.security.tokens import Users
from gpuaas.base.clock import SystemClock
from gpuaas.base.ids import SeededIds


class Door:
    def __init__(self, folder: Path, *, client_certificates: bool = True) -> None:
        self.world = World()
        self.users = Users(folder / "users.json", self.world.clock)
        self.record, self.token = self.users.add("alice", SeededIds(), groups=["team-a"])
        self.authenticator = Authenticator(self.users, self.world.accounts, client_certificates=client_certificates)

    def asks(self, authorization: str | None = None, certificate: bytes | None = None) -> User | None:
        headers = {} if authorization is None else {b"authorization": authorization.encode()}
        return self.authenticator.authenticate(headers, lambda: certificate)


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


@pytest.fixture
def certificate(tmp_path: Path) -> bytes:
    import ssl

    pem = Authority(tmp_path / "ca", SystemClock().now()).client("carol", ["team-c"]).certificate
    return ssl.PEM_cert_to_DER_cert(pem.decode())


def test_a_bearer_token_says_who(door: Door) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        user = door.asks(f"{scheme} {door.token}")
        assert user is not None
        assert user.name == "alice"
    account = door.asks(f"Bearer {door.world.token()}")
    assert account is not None
    assert account.name == "system:serviceaccount:dev:runner"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer nope", "Basic YTpi", "nope", "Bearer  x"])
def test_without_a_good_credential_one_is_nobody(door: Door, header: str | None) -> None:
    assert door.asks(header) is None


def test_an_expired_service_account_token_is_nobody(door: Door) -> None:
    token = door.world.token(expirationSeconds=600)
    door.world.clock.advance(1000)
    assert door.asks(f"Bearer {token}") is None


def test_a_client_certificate_says_who_before_any_token(door: Door, certificate: bytes, tmp_path: Path) -> None:
    for header in (None, f"Bearer {door.token}", "Bearer nope"):
        user = door.asks(header, certificate)
        assert user is not None
        assert (user.name, user.groups) == ("carol", ("team-c", "system:authenticated"))
        assert user.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    without = Door(tmp_path / "other", client_certificates=False)
    assert without.asks(None, certificate) is None


def test_a_token_review_says_who_or_why_not(door: Door) -> None:
    review = door.authenticator.review
    verified, error = review(door.token, [])
    assert verified is not None
    assert (verified.user.name, verified.audiences, error) == ("alice", (ISSUER,), "")
    assert review("nope", []) == (None, "invalid bearer token")
    assert review(door.token, ["other"]) == (None, "invalid bearer token")
    assert review(door.world.token(), ["other"]) == (
        None,
        f'[invalid bearer token, token audiences ["{ISSUER}"] is invalid for the target audiences ["other"]]',
    )


@pytest.mark.parametrize(
    ("header", "token"),
    [(b"Bearer abc", "abc"), (b"  Bearer abc  ", "abc"), (b"Bearer abc def", "abc"), (b"Basic abc", ""), (None, "")],
)
def test_the_token_of_a_header(header: bytes | None, token: str) -> None:
    assert bearer_token(header) == token


SOCKET = {b"upgrade": b"WebSocket", b"connection": b"keep-alive, Upgrade"}
OURS = b"base64url.bearer.authorization.k8s.io."


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        (SOCKET | {b"sec-websocket-protocol": OURS + b"YS5i_w, x"}, ""),  # no text
        (SOCKET | {b"sec-websocket-protocol": OURS + b"YS5iLWM, x"}, "a.b-c"),
        (SOCKET | {b"sec-websocket-protocol": b"x\n" + OURS + b"YS5iLWM"}, "a.b-c"),
        (SOCKET | {b"sec-websocket-protocol": OURS + b"YS5iLWM"}, ""),  # nothing is left to speak
        (SOCKET | {b"sec-websocket-protocol": b"x," + OURS + b"YS5i," + OURS + b"YS5i"}, ""),
        (SOCKET | {b"sec-websocket-protocol": b"x," + OURS + b"Y!"}, ""),
        (SOCKET, ""),
        ({b"sec-websocket-protocol": OURS + b"YS5iLWM, x"}, ""),
    ],
)
def test_a_browsers_token_is_one_of_the_subprotocols_of_its_socket(headers: dict[bytes, bytes], token: str) -> None:
    assert socket_token(headers) == token
    assert not [name for name in subprotocols(headers) if name != "x"]


def test_a_certificate_that_another_cluster_signed_is_nobody(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuaas.apiserver.security.authn.cluster_of", lambda _certificate: "east")
    monkeypatch.setattr("gpuaas.apiserver.security.authn.subject_of", lambda _certificate: ("ann", ()))
    for cluster, name in (("east", "ann"), ("west", None)):
        authenticator = Authenticator(door.users, door.world.accounts, client_certificates=True, cluster=cluster)
        user = authenticator.authenticate({}, lambda: b"certificate")
        assert (user and user.name) == name
