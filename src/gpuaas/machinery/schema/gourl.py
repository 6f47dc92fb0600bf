"""URLs as Go reads them, which is what `url` and `isURL` ask in rules: what is one, what is none and why, and its parts.

Go reads a text twice: as what may stand in a request (absolute, and a `#` is no fragment there), which decides whether
it is a URL, and then leniently, which gives the parts.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from gpuaas.base.fielderrors import quote as in_quotes

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_IN_PATH: Final = "$&+,/:;=@~"  # what need not be escaped in a path, beside letters and digits
_WELL_ESCAPED: Final = re.compile(r"(?:[A-Za-z0-9_.~!$&'()*+,;=:@\[\]/-]|%[0-9A-Fa-f]{2})*")
_USER: Final = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_NOT_IN_HOST: Final = re.compile(r"[\x00-\x20#/?@\\^`{|}\x7f]")
_HOST_ESCAPE: Final = re.compile(r"%(?!25)[0-7][0-9A-Fa-f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""  # as it is written
    query: str = ""
    fragment: str = ""

    @property
    def hostname(self) -> str:
        host = self._address()[0]
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    @property
    def port(self) -> str:
        return self._address()[1]

    @property
    def escaped_path(self) -> str:
        if _WELL_ESCAPED.fullmatch(self.path):
            return self.path
        return quote(unquote_to_bytes(self.path), safe=_IN_PATH)

    def values(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            if ";" not in pair and not _ESCAPE.search(pair):  # others are passed over
                for key, value in parse_qsl(pair, keep_blank_values=True):
                    found.setdefault(key, []).append(value)
        return found

    def _address(self) -> tuple[str, str]:
        host, colon, port = self.host.rpartition(":")
        return (host, port) if colon and "]" not in port else (self.host, "")


def parse_url(text: str) -> Url:
    """Raises ValueError with Go's words."""
    bare, _, fragment = text.partition("#")
    try:
        check_request(text)
        _check_escapes(fragment)
    except ValueError as why:
        raise ValueError(f"parse {in_quotes(text)}: {why}") from None
    try:
        found = _read(bare, request=False)
    except ValueError as why:
        raise ValueError(f"parse {in_quotes(bare)}: {why}") from None
    return found if not fragment else Url(found.scheme, found.user, found.host, found.path, found.query, fragment)


def check_request(text: str) -> None:
    """Whether it may stand in a request; raises ValueError with Go's words."""
    _read(text, request=True)


def _read(text: str, *, request: bool) -> Url:
    if any(char < " " or char == "\x7f" for char in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and request:
        raise ValueError("empty url")
    if text == "*":
        return Url(path="*")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    rest, _, query = rest.partition("?")
    name = scheme.group()[:-1].lower() if scheme else ""
    if not rest.startswith("/"):
        if name:
            return Url(name, query=query)
        if request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    user, host = None, ""
    if rest.startswith("//") and (name or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(name, authority)
        rest = slash + path
    _check_escapes(rest)
    return Url(name, user, host, rest, query)


def _authority(scheme: str, authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, host
    if not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    _check_escapes(user)
    return user, host


def _host(scheme: str, host: str) -> str:
    if "[" in host:
        return _literal(host)
    if ":" in host:
        # Lists of hosts with ports are not for the web.
        at = host.index(":") if scheme in ("http", "https") else host.rindex(":")
        _check_port(host[at:])
    return _unescaped(host)


def _literal(host: str) -> str:
    if host.rindex("["):
        raise ValueError("invalid IP-literal")
    name, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise ValueError("missing ']' in host")
    _check_port(port)
    address, zone, rest = name.partition("%25")
    address = _unescaped(address)
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        raise ValueError(f"invalid host: ParseAddr({in_quotes(address)}): unable to parse IP") from None
    if found.version == 4:
        raise ValueError("invalid IP-literal")
    return f"[{address}{'%' if zone else ''}{rest}]{port}"


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {in_quotes(port)} after host")


def _unescaped(host: str) -> str:
    """Only what no host could say otherwise may be escaped in it."""
    wrong = [found for form in (_ESCAPE, _NOT_IN_HOST, _HOST_ESCAPE) if (found := form.search(host))]
    if not wrong:
        return unquote_to_bytes(host).decode(errors="replace")
    first = min(wrong, key=lambda found: found.start()).group()
    if first.startswith("%"):
        raise ValueError(f"invalid URL escape {in_quotes(first)}")
    raise ValueError(f"invalid character {in_quotes(first)} in host name")


def _check_escapes(text: str) -> None:
    wrong = _ESCAPE.search(text)
    if wrong:
        raise ValueError(f"invalid URL escape {in_quotes(wrong.group())}")
