"""Service accounts' tokens: signed statements that end, and end earlier with what they are bound to.

`request` answers a `TokenRequest`; `authenticate` accepts a token while its signature, times and audience hold and the
account (and the Pod, Node or Secret it is bound to) is still the same object. Signatures are checked once for each
token; whether the objects live, each time.
"""

from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gpuaas.apiserver.security.identity import (
    CREDENTIAL_ID,
    User,
    authenticated,
    service_account_groups,
    service_account_name,
)
from gpuaas.apiserver.security.keys import SigningKey, base64url
from gpuaas.apiserver.security.rules import quoted_list
from gpuaas.base.clock import Clock, parse_rfc3339, rfc3339
from gpuaas.base.errors import BadRequest, Conflict, Invalid, NotFound
from gpuaas.base.fielderrors import FieldError, invalid
from gpuaas.base.ids import IdSource

Object = Mapping[str, Any]
# (plural, namespace, name) -> the object of the core group, or None
Lookup = Callable[[str, str, str], Object | None]

ISSUER = "https://kubernetes.default.svc.cluster.local"
_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_LEEWAY = 60.0
_DEFAULT_SECONDS, _MIN_SECONDS, _MAX_SECONDS = 3600, 600, 1 << 32
_MAX_CACHED = 4_000
_BOUND = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


class InvalidToken(Exception):
    """A token of ours that does not hold (any more), with the real server's words why."""


class Verified(NamedTuple):
    user: User
    audiences: tuple[str, ...]


class _Ref(msgspec.Struct, omit_defaults=True):
    name: str = ""
    uid: str = ""


class _Kubernetes(msgspec.Struct, omit_defaults=True):
    namespace: str
    serviceaccount: _Ref
    pod: _Ref | None = None
    node: _Ref | None = None
    secret: _Ref | None = None


class _Claims(msgspec.Struct, omit_defaults=True):
    aud: list[str]
    iss: str
    sub: str
    kubernetes: _Kubernetes = msgspec.field(name="kubernetes.io")
    exp: int | None = None
    iat: int = 0
    nbf: int = 0
    jti: str = ""


class _BoundRef(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - the wire's name
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct):
    audiences: list[str] | None = None
    expirationSeconds: int | None = None  # noqa: N815 - the wire's name
    boundObjectRef: _BoundRef | None = None  # noqa: N815 - the wire's name


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Request(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class ServiceAccounts:
    def __init__(
        self,
        key: Callable[[], SigningKey],
        lookup: Lookup,
        clock: Clock,
        ids: IdSource,
        *,
        issuer: str = ISSUER,
        audiences: Sequence[str] = (ISSUER,),
    ) -> None:
        """`key` is called when the first token is signed or checked: reading it costs a start too much."""
        self._load_key = key
        self._key: SigningKey | None = None
        self._lookup = lookup
        self._clock = clock
        self._ids = ids
        self.issuer = issuer
        self.audiences = tuple(audiences)
        self._verified: dict[str, tuple[_Claims, User]] = {}

    @property
    def key(self) -> SigningKey:
        if self._key is None:
            self._key = self._load_key()
        return self._key

    def authenticate(self, token: str, audiences: Sequence[str] | None = None) -> Verified | None:
        """Who shows this token, for these audiences (default: this server); None if it is none of ours."""
        known = self._verified.get(token) or self._verify(token)
        if known is None:
            return None
        claims, user = known
        self._check_times(claims)
        wanted = tuple(audiences or self.audiences)
        shared = tuple(audience for audience in claims.aud if audience in wanted)
        if not shared:
            raise InvalidToken(
                f"token audiences {quoted_list(claims.aud)} is invalid for the target audiences {quoted_list(wanted)}"
            )
        self._check_objects(claims.kubernetes)
        return Verified(user, shared)

    def request(self, namespace: str, account: Object, body: Object) -> dict[str, Any]:
        """Answer a TokenRequest for an account that exists."""
        try:
            asked = msgspec.convert(body, _Request)
        except msgspec.ValidationError as error:
            raise BadRequest(f'{_KIND} in version "v1" cannot be handled as a {_KIND}: {error}') from None
        metadata, spec = account["metadata"], asked.spec
        _check_request(asked.metadata, spec, metadata, namespace)
        seconds = _DEFAULT_SECONDS if spec.expirationSeconds is None else spec.expirationSeconds
        audiences = spec.audiences or list(self.audiences)
        now = self._clock.now()
        claims = self._claims(namespace, metadata, audiences, now, seconds)
        if spec.boundObjectRef is not None:
            self._bind(claims.kubernetes, namespace, metadata["name"], spec.boundObjectRef)
        bound = msgspec.to_builtins(spec.boundObjectRef)
        return {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {
                "name": metadata["name"],
                "namespace": namespace,
                "uid": metadata["uid"],
                "creationTimestamp": rfc3339(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": bound and {key: value for key, value in bound.items() if value},
            },
            "status": {"token": self._sign(claims), "expirationTimestamp": rfc3339(now + seconds)},
        }

    def secret_token(self, account: Object, secret: Object) -> str:
        """A token without an end, for a Secret of type `kubernetes.io/service-account-token`; it ends with it."""
        metadata = account["metadata"]
        claims = self._claims(metadata["namespace"], metadata, list(self.audiences), self._clock.now(), None)
        claims.kubernetes.secret = _Ref(secret["metadata"]["name"], secret["metadata"]["uid"])
        return self._sign(claims)

    def _claims(
        self, namespace: str, account: Object, audiences: list[str], now: float, seconds: int | None
    ) -> _Claims:
        return _Claims(
            aud=audiences,
            iss=self.issuer,
            sub=service_account_name(namespace, account["name"]),
            kubernetes=_Kubernetes(namespace, _Ref(account["name"], account["uid"])),
            exp=None if seconds is None else int(now) + seconds,
            iat=int(now),
            nbf=int(now),
            jti=self._ids.uid(),
        )

    def _bind(self, claims: _Kubernetes, namespace: str, account: str, reference: _BoundRef) -> None:
        group, _, version = reference.apiVersion.rpartition("/")
        plural = _BOUND.get(reference.kind) if not group else None
        if plural is None:
            text = f"{group}/{version}, Kind={reference.kind}"
            raise BadRequest(f"cannot bind token to object of type {text}")
        obj = self._lookup(plural, "" if plural == "nodes" else namespace, reference.name)
        if obj is None:
            raise NotFound("", plural, reference.name)
        uid = obj["metadata"]["uid"]
        if plural == "pods":
            self._bind_pod(claims, account, obj)
        else:
            setattr(claims, reference.kind.lower(), _Ref(reference.name, uid))
        if reference.uid and reference.uid != uid:
            raise Conflict(
                "",
                reference.kind,
                reference.name,
                f"the UID in the bound object reference ({reference.uid}) does not match the UID in record. The object"
                " might have been deleted and then recreated",
            )

    def _bind_pod(self, claims: _Kubernetes, account: str, pod: Object) -> None:
        spec = pod.get("spec") or {}
        if spec.get("serviceAccountName") != account:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        claims.pod = _Ref(pod["metadata"]["name"], pod["metadata"]["uid"])
        node = spec.get("nodeName")
        if node:
            found = self._lookup("nodes", "", node)
            claims.node = _Ref(node, found["metadata"]["uid"] if found else "")

    def _sign(self, claims: _Claims) -> str:
        header = msgspec.json.encode({"alg": "ES256", "kid": self.key.key_id})
        message = f"{base64url(header)}.{base64url(msgspec.json.encode(claims))}"
        return f"{message}.{base64url(self.key.sign(message.encode()))}"

    def _verify(self, token: str) -> tuple[_Claims, User] | None:
        """What the token says, if we signed it; None if it has another issuer or is none at all."""
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            header = msgspec.json.decode(_unbase64(parts[0]), type=dict[str, Any])
            claims = msgspec.json.decode(_unbase64(parts[1]), type=_Claims)
            signature = _unbase64(parts[2])
        except (msgspec.MsgspecError, Base64Error, ValueError):
            return None
        if claims.iss != self.issuer:
            return None
        if header.get("alg") != "ES256" or header.get("kid") != self.key.key_id:
            raise InvalidToken("invalid signature, no keys found")
        if not self.key.verifies(signature, f"{parts[0]}.{parts[1]}".encode()):
            raise InvalidToken("go-jose/go-jose: error in cryptographic primitive")
        if len(self._verified) >= _MAX_CACHED:
            self._verified.clear()
        known = self._verified[token] = claims, _user(claims)
        return known

    def _check_times(self, claims: _Claims) -> None:
        now = self._clock.now()
        if claims.exp is not None and now - _LEEWAY > claims.exp:
            raise InvalidToken("service account token has expired")
        if now + _LEEWAY < claims.nbf:
            raise InvalidToken("service account token is not valid yet")

    def _check_objects(self, claims: _Kubernetes) -> None:
        """The account and what the token is bound to must be there, and be the same objects as then."""
        account = claims.serviceaccount
        found = self._lookup("serviceaccounts", claims.namespace, account.name)
        if found is None:
            raise InvalidToken(f'serviceaccounts "{account.name}" not found')
        uid = found["metadata"]["uid"]
        if uid != account.uid:
            raise InvalidToken(f"service account UID ({uid}) does not match claim ({account.uid})")
        if self._long_deleted(found):
            raise InvalidToken(f"service account {claims.namespace}/{account.name} has been deleted")
        self._check_bound("secret", "service account secret ref", claims.namespace, claims.secret)
        self._check_bound("pod", "service account pod ref", claims.namespace, claims.pod)
        if claims.pod is None:  # of a pod's token the node is only said, not checked
            self._check_bound("node", "service account node ref", "", claims.node)

    def _check_bound(self, kind: str, what: str, namespace: str, reference: _Ref | None) -> None:
        if reference is None:
            return
        found = self._lookup(f"{kind}s", namespace, reference.name)
        if found is None or self._long_deleted(found):
            raise InvalidToken("service account token has been invalidated")
        uid = found["metadata"]["uid"]
        if uid != reference.uid:
            raise InvalidToken(f"{kind} UID ({uid}) does not match {what} claim ({reference.uid})")

    def _long_deleted(self, obj: Object) -> bool:
        moment = obj["metadata"].get("deletionTimestamp")
        return moment is not None and parse_rfc3339(moment) < self._clock.now() - _LEEWAY


def _check_request(asked: _Metadata, spec: _Spec, account: Object, namespace: str) -> None:
    name, uid = account["name"], account["uid"]
    if asked.name and asked.name != name:
        why = "must match the service account name if specified"
        raise Invalid(_GROUP, _KIND, name, [invalid("metadata.name", asked.name, why)])
    if asked.namespace and asked.namespace != namespace:
        why = "must match the service account namespace if specified"
        raise Invalid(_GROUP, _KIND, name, [invalid("metadata.namespace", asked.namespace, why)])
    if asked.uid and asked.uid != uid:
        why = f"the UID in the token request ({asked.uid}) does not match the UID of the service account ({uid})"
        raise Conflict(_GROUP, _KIND, name, why)
    errors = _duration_errors(spec.expirationSeconds)
    if errors:
        raise Invalid(_GROUP, _KIND, "", errors)


def _duration_errors(seconds: int | None) -> list[FieldError]:
    path = "spec.expirationSeconds"
    if seconds is None or _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        return []
    if seconds < _MIN_SECONDS:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]


def _user(claims: _Claims) -> User:
    bound = claims.kubernetes
    extra: dict[str, tuple[str, ...]] = {}
    for kind, reference in (("pod", bound.pod), ("node", bound.node)):
        if reference is not None:
            extra[f"authentication.kubernetes.io/{kind}-name"] = (reference.name,)
            if reference.uid:
                extra[f"authentication.kubernetes.io/{kind}-uid"] = (reference.uid,)
    if claims.jti:
        extra[CREDENTIAL_ID] = (f"JTI={claims.jti}",)
    account = bound.serviceaccount
    groups = service_account_groups(bound.namespace)
    return authenticated(User(service_account_name(bound.namespace, account.name), account.uid, groups, extra))


def _unbase64(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
