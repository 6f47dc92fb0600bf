"""Signing in: by a form that takes a token or a kubeconfig file's text, or by a one-time link.

The API server's authenticator decides who it is. A link is made for a request with a bearer token or a client
certificate, signs in once and within two minutes, and is not followed from another site: that would sign a user in
as another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gpuaas.apiserver.http import JSON, Response
from gpuaas.apiserver.security.authn import bearer_token
from gpuaas.machinery.yamltext import YamlError, load_yaml
from gpuaas.web import guard, wire
from gpuaas.web.sessions import LINK_LIFE, Credential

if TYPE_CHECKING:
    from gpuaas.web.door import Asked, Door

_LONGEST_TOKEN: Final = 8 * 1024
_UNKNOWN: Final = "The server does not know this token, or it has ended."


class SigningIn:
    def __init__(self, door: Door) -> None:
        self._door = door

    def ask_for_it(self, asked: Asked) -> Response:
        """In place of a page that needs a session."""
        there = f"{asked.base}/sign-in"
        if asked.path == "/" or asked.request.method != "GET":
            return wire.redirect(there)
        return wire.redirect(f"{there}?next={_quoted(asked.address)}")

    def form(self, asked: Asked) -> Response:
        request = asked.request
        if request.method in ("GET", "HEAD"):
            guard.check_navigation(request.headers)
            query = wire.fields_of(request.query) if request.query else {}
            said = "You are signed out." if "out" in query else ""
            return self._shown(asked, self._door.local_address(asked, query.get("next", "")), said=said)
        if request.method != "POST":
            return self._door.failure(asked, 405, f"{request.method} is not a method of this page.")
        guard.check_origin(request.headers, needed=True)
        form = wire.form_of(request)
        there = self._door.local_address(asked, form.get("next", ""))
        try:
            token = token_in(form.get("token", ""), asked.place.cluster.name)
        except ValueError as error:
            return self._shown(asked, there, problem=str(error), status=400)
        return self._opened(asked, Credential(asked.place.cluster.name, token), there)

    def enter(self, asked: Asked, secret: str) -> Response:
        if guard.is_from_elsewhere(asked.request.headers):
            raise guard.Refused(
                "a one-time link is not followed from another site: copy it into the address bar (it is not used up)"
            )
        guard.check_navigation(asked.request.headers)
        credential = self._door.sessions.enter(secret)
        if credential is None:
            problem = "This link was used already or is older than two minutes: gpuaas open makes another."
            return self._shown(asked, f"{asked.base}/", problem=problem, status=403)
        return self._opened(asked, credential, f"{asked.base}/")

    def link(self, asked: Asked) -> Response:
        """For `gpuaas open`: a browser cannot ask for it, for it sends no bearer token."""
        request = asked.request
        if b"origin" in request.headers:
            guard.check_origin(request.headers, needed=True)
        place = asked.place
        token = bearer_token(request.headers.get(b"authorization"))
        certificate = b"" if token else request.peer_certificate() or b""
        if place.access.authenticate(request.headers, request.peer_certificate) is None:
            return wire.words("the bearer token or client certificate is not known here", 401)
        until = _end_of(certificate) if certificate else None
        secret = self._door.sessions.link(Credential(place.cluster.name, token, certificate, until))
        if secret is None:
            return wire.words("the bearer token or client certificate is not known here", 401)
        said = {
            "path": f"{self._door.base_of(place)}/enter/{secret}",
            "local": self._door.settings.local_address,
            "seconds": int(LINK_LIFE),
        }
        return Response(200, msgspec.json.encode(said), JSON, (*wire.SECURITY, wire.NOT_KEPT))

    def _opened(self, asked: Asked, credential: Credential, there: str) -> Response:
        opened = self._door.sessions.open(credential)
        if opened is None:
            return self._shown(asked, there, problem=_UNKNOWN, status=403)
        before = self._door.session(asked)
        if before is not None:  # the browser forgets its cookie now
            self._door.sessions.end(before[0])
        return wire.redirect(there, (wire.set_session(self._door.cookie, opened[1]),))

    def _shown(self, asked: Asked, there: str, *, said: str = "", problem: str = "", status: int = 200) -> Response:
        names = {**self._door.plain_names(asked), "next": there, "said": said, "problem": problem}
        return wire.page(self._door.renderer.page("sign_in.html", names), status)


def token_in(text: str, cluster: str) -> str:
    """The token that was pasted, or that of a kubeconfig file: of its context for the cluster, or its current one."""
    text = text.strip()
    if not text:
        raise ValueError("token: a token, or the text of a kubeconfig file, was expected; nothing was found")
    if "\n" not in text and ":" not in text:
        if len(text) > _LONGEST_TOKEN:
            raise ValueError(f"token: {len(text)} characters were found; at most {_LONGEST_TOKEN} are allowed")
        return text
    found = _read(text)
    contexts, users = _named(found, "contexts", "context"), _named(found, "users", "user")
    context = contexts.get(cluster) or contexts.get(str(found.get("current-context"))) or {}
    token = users.get(str(context.get("user")), {}).get("token")
    if not isinstance(token, str) or not token:
        raise ValueError(
            f"kubeconfig: the user of context {cluster} has no token; gpuaas open signs in with a certificate too"
        )
    return token


def _read(text: str) -> Mapping[str, Any]:
    try:
        found = load_yaml(text)
    except (YamlError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("kubeconfig: this is neither a token nor a kubeconfig file")
    return found


def _named(found: Mapping[str, Any], section: str, key: str) -> dict[str, Mapping[str, Any]]:
    """What stands under `key` in each entry of a section, by the entry's name; entries of another type are left out."""
    items = found.get(section)
    entries = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    return {str(each.get("name")): inner for each in entries if isinstance(inner := each.get(key), dict)}


def _end_of(certificate: bytes) -> float:
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate).not_valid_after_utc.timestamp()


def _quoted(address: str) -> str:
    from urllib.parse import quote

    return quote(address, safe="/")
