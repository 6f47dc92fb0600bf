"""Cookies, forms and answers: the parts of HTTP that only pages use.

Every answer carries the same security headers. The session's cookie is `__Host-…`, HttpOnly, Secure and
SameSite=Strict; its name holds the server's mark, because a browser keeps one jar for all ports of localhost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote

from gpuaas.apiserver.http import Request, Response

HTML: Final = b"text/html; charset=utf-8"
TEXT: Final = b"text/plain; charset=utf-8"
LONGEST_FORM: Final = 16 * 1024
MOST_FIELDS: Final = 50
_LONGEST_COOKIE: Final = 200
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    b" form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY: Final = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NOT_KEPT: Final = (b"cache-control", b"no-store")
Header = tuple[bytes, bytes]


class BadForm(Exception):
    """The text names the limit."""


def page(text: str, status: int = 200, headers: tuple[Header, ...] = ()) -> Response:
    return Response(status, text.encode(), HTML, (*SECURITY, NOT_KEPT, *headers))


def words(text: str, status: int) -> Response:
    """A refusal in one line, where no page can be shown."""
    return Response(status, f"{text}\n".encode(), TEXT, (*SECURITY, NOT_KEPT))


def redirect(address: str, headers: tuple[Header, ...] = ()) -> Response:
    """To be asked for by GET, whatever led here."""
    where = quote(address, safe="/:?&=%#[]@!$'()*+,;~-._")
    return Response(303, b"", TEXT, (*SECURITY, NOT_KEPT, (b"location", where.encode()), *headers))


def form_of(request: Request) -> dict[str, str]:
    """The fields of a POST, each name once."""
    media = request.header(b"content-type").partition(";")[0].strip().lower()
    if media != "application/x-www-form-urlencoded":
        raise BadForm(f"the content type of a form is application/x-www-form-urlencoded, not {media or 'missing'}")
    if request.too_large or len(request.body) > LONGEST_FORM:
        raise BadForm(f"a form has at most {LONGEST_FORM} bytes")
    return fields_of(request.body.decode("utf-8", "replace"))


def fields_of(text: str) -> dict[str, str]:
    if text.count("&") >= MOST_FIELDS:
        raise BadForm(f"a form or query has at most {MOST_FIELDS} fields")
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, value)
    return found


def cookie(headers: Mapping[bytes, bytes], name: str) -> str:
    """The value of the first cookie of that name."""
    for part in headers.get(b"cookie", b"").decode("latin-1").replace("\n", ";").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name and len(value) <= _LONGEST_COOKIE:
            return value
    return ""


def set_session(name: str, value: str) -> Header:
    """For as long as the browser runs; the server knows when a session is over."""
    return b"set-cookie", f"{name}={value}; Path=/; Secure; HttpOnly; SameSite=Strict".encode()


def drop_session(name: str) -> Header:
    return b"set-cookie", f"{name}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict".encode()


def set_theme(name: str, value: str) -> Header:
    return b"set-cookie", f"{name}={value}; Path=/; Max-Age=31536000; Secure; HttpOnly; SameSite=Strict".encode()
