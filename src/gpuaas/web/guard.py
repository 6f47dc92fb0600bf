"""What a browser's request must show before anything is done for it: its Host, its origin, and where it comes from.

- Host: one of this server's names. Otherwise a name that its owner points to 127.0.0.1 (DNS rebinding) would make a
  foreign page one of our own.
- A request that changes something must come from a page of ours: `Origin` is the Host it was sent to and, where the
  browser says it, `Sec-Fetch-Site: same-origin`. Cookies know no port: a page on another port of localhost sends ours
  along, and only these headers tell the two apart.
- A page may be navigated to from elsewhere (a link in a chat), but not fetched, framed or embedded.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from typing import Final

LOCAL_NAMES: Final = frozenset(("localhost", "127.0.0.1", "::1"))
Headers = Mapping[bytes, bytes]


class Refused(Exception):
    """Before it was understood; the text names the header, what it held and what is allowed."""


def check_host(headers: Headers, names: Collection[str], *, any_address: bool) -> None:
    """`any_address`: also addresses, which no name server can point elsewhere."""
    host = _text(headers, b"host")
    name = host_name(host)
    if name in names or (any_address and _is_address(name)):
        return
    if any(each.startswith("*.") and name.partition(".")[2] == each[2:] for each in names):
        return
    raise Refused(
        f"the Host header names {host!r}, which this server is not known by; allowed are {', '.join(sorted(names))}"
        " (gpuaas up --san NAME adds one)"
    )


def check_origin(headers: Headers, *, needed: bool) -> None:
    """Of a request that changes something, or of a stream: only a page of this very server may send it. `needed`: it
    must show an origin; browsers send one with each POST."""
    origin, site = _text(headers, b"origin"), _text(headers, b"sec-fetch-site")
    if site and site != "same-origin":
        raise Refused(f"the Sec-Fetch-Site header is {site!r}; only same-origin requests are allowed")
    if not origin and (site or not needed):
        return
    scheme, _, authority = origin.partition("://")
    if scheme in ("http", "https") and authority == _text(headers, b"host"):
        return
    expected = f"a page of {_text(headers, b'host')}"
    raise Refused(f"the Origin header is {origin or 'missing'}; only {expected} may send this request")


def check_navigation(headers: Headers) -> None:
    """Of a page: from elsewhere only a navigation of the whole tab."""
    origin, site = _text(headers, b"origin"), _text(headers, b"sec-fetch-site")
    if site not in ("cross-site", "same-site"):
        if origin:
            check_origin(headers, needed=False)
        return
    mode, purpose = _text(headers, b"sec-fetch-mode"), _text(headers, b"sec-fetch-dest")
    if mode != "navigate" or purpose not in ("document", "") or origin:
        raise Refused(f"the Sec-Fetch-Site header is {site!r}: other sites may link to a page, not load it")


def is_from_elsewhere(headers: Headers) -> bool:
    """Whether a link on another site led here: a SameSite=Strict cookie stays away from such a request."""
    return _text(headers, b"sec-fetch-site") in ("cross-site", "same-site")


def host_name(host: str) -> str:
    """Of a Host header, without the port, as names are compared."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _text(headers: Headers, name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")
