"""Which header fields pass between a browser and a notebook's server, in both directions.

Towards the notebook go no credentials of the control plane: no Authorization, no client's claims about itself, and of the
cookies only those the notebook's own pages set. Towards the browser go no cookies for other hosts, and none by the name of
ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

COOKIE: Final = "__Host-gpuaas-notebook"
_OURS: Final = ("gpuaas", "__host-gpuaas", "__secure-gpuaas")
_HOP: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
_NOT_SENT: Final = _HOP | {b"authorization", b"content-length", b"cookie", b"expect", b"forwarded", b"host"}
_NOT_SENT_PREFIXES: Final = (b"impersonate-", b"proxy-", b"x-forwarded-", b"x-gpuaas-", b"x-real-", b"x-remote-")
_NOT_SHOWN: Final = _HOP | {b"content-length", b"content-type", b"date", b"proxy-authenticate", b"www-authenticate"}


def cookie(header: str, name: str) -> str:
    """The value of one cookie; "" where it is not sent, or sent twice."""
    found = [value for each in header.split(";") for key, _, value in (each.strip().partition("="),) if key == name]
    return found[0] if len(found) == 1 else ""


def passed_cookies(header: str) -> str:
    kept = [each.strip() for each in header.split(";")]
    return "; ".join(each for each in kept if each and not each.lower().startswith(_OURS))


def request_head(
    method: str, target: bytes, headers: Mapping[bytes, bytes], host: bytes, body: int | None, *, socket: bool
) -> bytes:
    """`body`: its length; None where the request has none."""
    lines = [method.encode("latin-1") + b" " + target + b" HTTP/1.1", b"host: " + host]
    for name, values in headers.items():
        if name in _NOT_SENT or name.startswith(_NOT_SENT_PREFIXES):
            continue
        lines.extend(name + b": " + value for value in values.split(b"\n"))  # repeated fields are kept apart so
    if kept := passed_cookies(headers.get(b"cookie", b"").replace(b"\n", b";").decode("latin-1")):
        lines.append(b"cookie: " + kept.encode("latin-1"))
    if body is not None:
        lines.append(b"content-length: %d" % body)
    lines.append(b"connection: Upgrade\r\nupgrade: websocket" if socket else b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def response_fields(fields: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    shown = []
    for name, value in fields:
        if name in _NOT_SHOWN:
            continue
        if name == b"set-cookie":
            kept = _own_cookie(value.decode("latin-1"))
            if not kept:
                continue
            value = kept.encode("latin-1")
        shown.append((name, value))
    return tuple(shown)


def _own_cookie(value: str) -> str:
    """Without a Domain, so that it stays with the notebook's own host; "" for a name that is ours."""
    first, *attributes = value.split(";")
    if first.strip().lower().startswith(_OURS):
        return ""
    return ";".join([first, *(each for each in attributes if not each.strip().lower().startswith("domain"))])


def upgraded_head(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [b"HTTP/1.1 101 Switching Protocols", b"connection: Upgrade", b"upgrade: websocket"]
    lines.extend(name + b": " + value for name, value in response_fields(fields) if name.startswith(b"sec-websocket-"))
    return b"\r\n".join(lines) + b"\r\n\r\n"
