"""Impersonation: the Impersonate-* headers, and the rights that they need.

Two ways, tried in this order: constrained (the verb `impersonate-on:MODE:VERB` on what the request does, and
`impersonate:MODE` on the user) for service accounts, nodes and other users, and the old way (`impersonate` on the
user, and on each group, uid and extra value). The refusal a user sees is the first one; who succeeded one way before
is tried that way first. The mode for a pod's own node is not offered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from gpuaas.apiserver.security.identity import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    NODES,
    UNAUTHENTICATED,
    Asked,
    Attributes,
    User,
    service_account_groups,
    split_node,
    split_service_account,
)
from gpuaas.apiserver.security.rbac import Rbac, forbidden
from gpuaas.apiserver.security.rules import quoted
from gpuaas.base.errors import ApiError, BadRequest
from gpuaas.base.names import is_dns1123_subdomain

_AUTHENTICATION = "authentication.k8s.io"
_EXTRA = b"impersonate-extra-"
_MAX_REMEMBERED = 2_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """The user the headers ask for, as they say it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def only_name(self) -> bool:
        return not (self.uid or self.groups or self.extra)


def wanted_user(headers: Mapping[bytes, bytes]) -> Wanted | None:
    """Read the headers (lower-case names; repeated ones joined by newlines); None without impersonation."""
    for header in headers:
        if header.startswith(b"impersonate-"):
            break
    else:
        return None  # as nearly always
    name = _first(headers, b"impersonate-user")
    uid = _first(headers, b"impersonate-uid")
    groups = _all(headers, b"impersonate-group")
    extra: dict[str, tuple[str, ...]] = {}
    for header in headers:
        if header.startswith(_EXTRA):
            key = unquote(header[len(_EXTRA) :].decode("latin-1"))
            extra[key] = extra.get(key, ()) + _all(headers, header)
    wanted = Wanted(name, uid, groups, extra)
    if name:
        return wanted
    if wanted.only_name:
        return None
    raise BadRequest(f"requested {_go(wanted)} without impersonating a user name")


class Impersonation:
    def __init__(self, rbac: Rbac) -> None:
        self._rbac = rbac
        self._last: dict[tuple[str, tuple[str, ...]], str] = {}

    def become(self, user: User, wanted: Wanted, request: Attributes) -> User:
        """The user to go on as; raises Forbidden."""
        who = (user.name, user.groups)
        last = self._last.get(who)
        first: ApiError | None = None
        for mode in sorted(_modes(wanted), key=lambda mode: mode != last):
            try:
                became = self._check(user, wanted, request, mode)
            except ApiError as refusal:
                first = first or refusal
                continue
            if len(self._last) >= _MAX_REMEMBERED:
                self._last.clear()
            self._last[who] = mode
            return became
        assert first is not None
        raise first

    def _check(self, user: User, wanted: Wanted, request: Attributes, mode: str) -> User:
        if mode:
            on = Asked(
                f"impersonate-on:{mode}:{request.verb}", request.group, request.resource, request.subresource,
                request.namespace, request.name, request.path,
            )  # fmt: skip
            self._rbac.require(user, on)
        groups = wanted.groups or _fixed_groups(wanted.name, mode)
        for asked in _questions(wanted, mode):
            self._rbac.require(user, asked)
        if mode:
            self._refuse_unfit(user, wanted, mode)
        return User(wanted.name, wanted.uid, _with_status(wanted.name, groups), wanted.extra)

    def _refuse_unfit(self, user: User, wanted: Wanted, mode: str) -> None:
        """What constrained impersonation never allows, whatever the rules say."""
        verb = f"impersonate:{mode}"
        if MASTERS in wanted.groups:
            asked = Asked(verb, _AUTHENTICATION, "groups", name=MASTERS)
            raise forbidden(user, asked, "impersonating the system:masters group is not allowed")
        if "" in wanted.groups:
            asked = Asked(verb, _AUTHENTICATION, "groups")
            raise forbidden(user, asked, "impersonating the empty string group is not allowed")
        for key, values in wanted.extra.items():
            domain, slash, path = key.partition("/")
            if not (slash and path) or is_dns1123_subdomain(domain):
                why = f"impersonating an invalid key in extra is not allowed: {quoted(key)}"
                raise forbidden(user, Asked(verb, _AUTHENTICATION, "userextras"), why)
            if "" in values:
                why = "impersonating the empty string value in extra is not allowed"
                raise forbidden(user, Asked(verb, _AUTHENTICATION, "userextras"), why)


def _modes(wanted: Wanted) -> Iterator[str]:
    """Constrained modes by name, then the old way, which has none."""
    if split_node(wanted.name) is not None:
        if wanted.only_name:
            yield "arbitrary-node"
    elif split_service_account(wanted.name) is not None:
        if wanted.only_name:
            yield "serviceaccount"
    else:
        yield "user-info"
    yield ""


def _questions(wanted: Wanted, mode: str) -> Iterator[Asked]:
    verb = f"impersonate:{mode}" if mode else "impersonate"
    group = _AUTHENTICATION if mode else ""
    account, node = split_service_account(wanted.name), split_node(wanted.name) if mode else None
    if account is not None:
        yield Asked(verb, group, "serviceaccounts", namespace=account[0], name=account[1])
    elif node is not None:
        yield Asked(verb, group, "nodes", name=node)
    else:
        yield Asked(verb, group, "users", name=wanted.name)
    if wanted.uid:
        yield Asked(verb, _AUTHENTICATION, "uids", name=wanted.uid)
    for name in wanted.groups:
        yield Asked(verb, group, "groups", name=name)
    for key, values in wanted.extra.items():
        for value in values:
            yield Asked(verb, _AUTHENTICATION, "userextras", key, name=value)


def _fixed_groups(name: str, mode: str) -> tuple[str, ...]:
    account = split_service_account(name)
    if account is not None:
        return service_account_groups(account[0])
    return (NODES,) if mode == "arbitrary-node" else ()


def _with_status(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if name == ANONYMOUS:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if UNAUTHENTICATED in groups or AUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)


def _first(headers: Mapping[bytes, bytes], name: bytes) -> str:
    value = headers.get(name)
    return value.partition(b"\n")[0].decode("latin-1") if value else ""


def _all(headers: Mapping[bytes, bytes], name: bytes) -> tuple[str, ...]:
    value = headers.get(name)
    return tuple(part.decode("latin-1") for part in value.split(b"\n")) if value is not None else ()


def _go(wanted: Wanted) -> str:
    """The user as Go's %#v writes it: the message is the real server's."""
    extra = ", ".join(f"{quoted(key)}:[]string{{{_strings(values)}}}" for key, values in wanted.extra.items())
    groups = f"[]string{{{_strings(wanted.groups)}}}" if wanted.groups else "[]string(nil)"
    return (
        f'&user.DefaultInfo{{Name:"", UID:{quoted(wanted.uid)}, Groups:{groups}, '
        f"Extra:{f'map[string][]string{{{extra}}}' if extra else 'map[string][]string(nil)'}}}"
    )


def _strings(values: tuple[str, ...]) -> str:
    return ", ".join(quoted(value) for value in values)
