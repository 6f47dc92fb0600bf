"""Who asks, and whether they may: authentication, impersonation and authorisation of one cluster, and its reviews.

The parts are in package security; this is how the request path sees them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.api.kinds import Object
from gpuaas.apiserver.admission import Admission
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.apiserver.security import signing_requests
from gpuaas.apiserver.security.authn import Authenticator
from gpuaas.apiserver.security.escalation import check_grant
from gpuaas.apiserver.security.groups import Groups
from gpuaas.apiserver.security.identity import (
    AUTHENTICATED,
    MASTERS,
    Asked,
    User,
    service_account_groups,
    service_account_name,
)
from gpuaas.apiserver.security.impersonation import Impersonation, wanted_user
from gpuaas.apiserver.security.keys import SigningKey
from gpuaas.apiserver.security.rbac import GROUP, PLURALS, Rbac
from gpuaas.apiserver.security.reviews import Reviews
from gpuaas.apiserver.security.serviceaccounts import ServiceAccounts
from gpuaas.apiserver.security.tokens import Users
from gpuaas.machinery.schema.cel.library_authorization import Answer, Question


class Access:
    def __init__(self, cluster: Cluster, users: Users, key: Callable[[], SigningKey]) -> None:
        self._cluster = cluster
        self._accounts = ServiceAccounts(key, self._lookup, cluster.clock, cluster.ids)
        self.groups = Groups()
        self._authenticator = Authenticator(
            users, self._accounts, client_certificates=True, cluster=cluster.name, groups=self.groups
        )
        self.rbac = Rbac()
        self._impersonation = Impersonation(self.rbac)
        self._reviews = Reviews(self.rbac, self._authenticator, cluster.clock)
        for plural in PLURALS:
            cluster.admission.register(GROUP, plural, self._check_grant)
        self._guard_signing_requests(cluster.admission)
        cluster.admission.decide = self._decide
        cluster.admission.owners.allows = lambda user, asked: self.rbac.authorize(user, asked).allowed

    def start(self) -> None:
        self.rbac.follow(self._cluster.store, self._cluster.aside)
        self.groups.follow(self._cluster.store, self._cluster.aside)

    def close(self) -> None:
        """Nothing to let go of: the watches end with the store."""

    def authenticate(self, headers: Mapping[bytes, bytes], peer: Callable[[], bytes | None]) -> User | None:
        return self._authenticator.authenticate(headers, peer)

    def impersonated(self, user: User, headers: Mapping[bytes, bytes], info: RequestInfo) -> User:
        wanted = wanted_user(headers)
        return user if wanted is None else self._impersonation.become(user, wanted, info)

    def authorize(self, user: User, info: RequestInfo) -> None:
        if info.selected:  # a list of one object, by its name: who may see that one may
            self.rbac.require(user, _asked(info, info.verb, info.selected))
        else:
            self.rbac.require(user, info)

    def authorize_create(self, user: User, info: RequestInfo) -> None:
        """For an update or apply that turns out to create: the verb of the request alone is not enough."""
        self.rbac.require(user, _asked(info, "create", info.name))

    def system_user(self, name: str) -> User:
        """A part of the control plane itself."""
        return User(f"system:gpuaas:{name}", groups=(MASTERS, AUTHENTICATED))

    def review(self, user: User, plural: str, namespace: str, body: Object) -> Object:
        return self._reviews.answer(plural, body, user, namespace)

    def request_token(self, namespace: str, account: Mapping[str, Any], body: Any) -> Object:
        return self._accounts.request(namespace, account, body)

    def secret_token(self, account: Mapping[str, Any], secret: Mapping[str, Any]) -> str:
        """The token a Secret of type service-account-token holds."""
        return self._accounts.secret_token(account, secret)

    def openid_configuration(self) -> Object:
        """What a relying party needs to check our service accounts' tokens."""
        issuer = self._accounts.issuer
        return {
            "issuer": issuer,
            "jwks_uri": f"{issuer}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def key_set(self) -> Object:
        return {"keys": [self._accounts.key.jwk()]}

    def _lookup(self, plural: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        entry = self._cluster.store.get(f"/{plural}/{namespace}/{name}")
        return entry.obj if entry is not None else None

    def _guard_signing_requests(self, admission: Admission) -> None:
        where = (signing_requests.GROUP, signing_requests.PLURAL)
        admission.register(*where, self._note_user)
        admission.register_check(*where, self._check_request)
        admission.register_check(*where, self._check_word, status=True)

    def _note_user(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if old is None:
            signing_requests.note_user(op.user, obj)

    def _check_request(self, _op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if old is None:
            signing_requests.check_request(obj)

    def _check_word(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if old is None:
            return
        if op.subresource == "approval":
            signing_requests.check_approval(self.rbac, op.user, old)
        elif op.subresource == "status":
            signing_requests.check_signature(self.rbac, op.user, obj, old)

    def _decide(self, user: User, question: Question) -> Answer:
        """For the expressions of policies."""
        if question.account is not None:
            namespace, name = question.account
            user = User(service_account_name(namespace, name), groups=service_account_groups(namespace))
        asked = {key: getattr(question, key) for key in ("group", "resource", "subresource", "namespace", "name")}
        return Answer(*self.rbac.authorize(user, Asked(question.verb, **asked, path=question.path)))

    def _check_grant(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        check_grant(self.rbac, op.user, op.resource.plural, op.namespace, op.name, obj, old)


def _asked(info: RequestInfo, verb: str, name: str) -> Asked:
    return Asked(verb, info.group, info.resource, info.subresource, info.namespace, name, info.path)
