"""Who asks: a client certificate, a person's token or a service account's, in this order. There is no anonymous user.

The names other modules need for a request (`User`, `Attributes`) are at home in `identity`.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from gpuaas.apiserver.security.certs import cluster_of, subject_of
from gpuaas.apiserver.security.groups import Groups
from gpuaas.apiserver.security.identity import CREDENTIAL_ID, Attributes, User, authenticated
from gpuaas.apiserver.security.serviceaccounts import InvalidToken, ServiceAccounts, Verified
from gpuaas.apiserver.security.tokens import Users

__all__ = ["Attributes", "Authenticator", "User"]

PeerCertificate = Callable[[], bytes | None]

_INVALID = "invalid bearer token"
_SOCKET_TOKEN = "base64url.bearer.authorization.k8s.io."  # what a subprotocol begins with that is a token


class Authenticator:
    def __init__(
        self,
        users: Users,
        accounts: ServiceAccounts,
        *,
        client_certificates: bool,
        cluster: str = "",
        groups: Groups | None = None,
    ) -> None:
        """`client_certificates`: TLS asks for them and has verified what it hands over. Those that another cluster
        than `cluster` has signed mean nothing here, though one authority stands behind both. `groups`: those that the
        cluster keeps, which people are in besides the groups their credential names."""
        self._groups = groups or Groups()
        self._users = users
        self._accounts = accounts
        self._client_certificates = client_certificates
        self._cluster = cluster

    def authenticate(self, headers: Mapping[bytes, bytes], peer_certificate: PeerCertificate) -> User | None:
        """The user, or None: 401. Header names are in lower case."""
        if self._client_certificates:
            user = _from_certificate(peer_certificate(), self._cluster)
            if user is not None:
                return self._groups.joined(user)
        token = bearer_token(headers.get(b"authorization")) or socket_token(headers)
        if not token:
            return None
        try:
            person = self._users.authenticate(token)
            return self._account(token) if person is None else self._groups.joined(person)
        except InvalidToken:
            return None

    def review(self, token: str, audiences: Sequence[str]) -> tuple[Verified | None, str]:
        """For TokenReview: who the token is for the audiences (none: this server's), or why it is refused."""
        ours = self._accounts.audiences
        shared = tuple(audience for audience in audiences or ours if audience in ours)
        user = self._users.authenticate(token) if shared else None
        if user is not None:
            return Verified(self._groups.joined(user), shared), ""
        try:
            verified = self._accounts.authenticate(token, audiences)
        except InvalidToken as error:
            return None, f"[{_INVALID}, {error}]"
        return verified, "" if verified else _INVALID

    def _account(self, token: str) -> User | None:
        verified = self._accounts.authenticate(token)
        return verified.user if verified else None


def bearer_token(header: bytes | None) -> str:
    """The token of an Authorization header, or an empty string."""
    if not header:
        return ""
    scheme, _, rest = header.strip().partition(b" ")
    return rest.partition(b" ")[0].decode("latin-1") if scheme.lower() == b"bearer" else ""


def socket_token(headers: Mapping[bytes, bytes]) -> str:
    """A browser cannot give a WebSocket headers: its token is one of the subprotocols, beside one to be spoken."""
    if not asks_for_socket(headers):
        return ""
    said = _said_subprotocols(headers)
    tokens = [name.removeprefix(_SOCKET_TOKEN) for name in said if name.startswith(_SOCKET_TOKEN)]
    if len(tokens) != 1 or len(said) == 1:
        return ""
    try:
        return b64decode(tokens[0] + "=" * (-len(tokens[0]) % 4), altchars=b"-_", validate=True).decode()
    except ValueError:
        return ""


def asks_for_socket(headers: Mapping[bytes, bytes]) -> bool:
    return (
        headers.get(b"upgrade", b"").lower() == b"websocket" and b"upgrade" in headers.get(b"connection", b"").lower()
    )


def subprotocols(headers: Mapping[bytes, bytes]) -> list[str]:
    """Those that can be spoken."""
    return [name for name in _said_subprotocols(headers) if not name.startswith(_SOCKET_TOKEN)]


def _said_subprotocols(headers: Mapping[bytes, bytes]) -> list[str]:
    said = headers.get(b"sec-websocket-protocol", b"").decode("latin-1").replace("\n", ",")
    return [name.strip() for name in said.split(",") if name.strip()]


def _from_certificate(certificate: bytes | None, cluster: str) -> User | None:
    if certificate is None or cluster_of(certificate) not in ("", cluster):
        return None
    name, groups = subject_of(certificate)
    if not name:
        return None
    extra = {CREDENTIAL_ID: (f"X509SHA256={sha256(certificate).hexdigest()}",)}
    return authenticated(User(name, "", groups, extra))
