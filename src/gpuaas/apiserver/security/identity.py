"""Users as the server knows them: a name, groups, and what else the credential said. Names of service accounts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpuaas.base.names import is_dns1123_label, is_dns1123_subdomain

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
NODES = "system:nodes"
ALL_SERVICE_ACCOUNTS = "system:serviceaccounts"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

_SERVICE_ACCOUNT = "system:serviceaccount:"
_NODE = "system:node:"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def info(self) -> dict[str, object]:
        """The `UserInfo` of reviews; what is empty is left out."""
        full = {
            "username": self.name,
            "uid": self.uid,
            "groups": list(self.groups),
            "extra": {key: list(values) for key, values in self.extra.items()},
        }
        return {key: value for key, value in full.items() if value}


class Attributes(Protocol):
    """What a request asks for, as far as permission goes. `resource` is empty for a plain path."""

    @property
    def verb(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def subresource(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """Attributes of a question that is not a request: of a review, an impersonation, a role being granted."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def authenticated(user: User) -> User:
    """Everybody who proved a name is in `system:authenticated`."""
    if user.name == ANONYMOUS or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return User(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)


def service_account_name(namespace: str, name: str) -> str:
    return f"{_SERVICE_ACCOUNT}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return (ALL_SERVICE_ACCOUNTS, f"{ALL_SERVICE_ACCOUNTS}:{namespace}")


def split_service_account(username: str) -> tuple[str, str] | None:
    """Namespace and name, if this is a service account's user name."""
    if not username.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, colon, name = username[len(_SERVICE_ACCOUNT) :].partition(":")
    if not colon or is_dns1123_label(namespace) or is_dns1123_subdomain(name):
        return None
    return namespace, name


def split_node(username: str) -> str | None:
    """The node's name, if this is a node's user name."""
    name = username[len(_NODE) :] if username.startswith(_NODE) else ""
    return name if name and not is_dns1123_subdomain(name) else None
