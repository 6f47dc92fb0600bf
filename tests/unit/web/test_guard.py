"""Hosts and origins: what lets a request in is only a page of this server."""

from __future__ import annotations

import pytest

from gpuaas.web import guard

NAMES = frozenset((*guard.LOCAL_NAMES, "gpus.example.com", "*.lab.example.com"))


def headers(**fields: str) -> dict[bytes, bytes]:
    return {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in fields.items() if value}


@pytest.mark.parametrize(
    ("host", "any_address", "passes"),
    [
        ("localhost", False, True),
        ("localhost:8080", False, True),
        ("LOCALHOST:8080", False, True),
        ("127.0.0.1:1", False, True),
        ("[::1]:1", False, True),
        ("gpus.example.com", False, True),
        ("a.lab.example.com:443", False, True),
        ("a.b.lab.example.com", False, False),
        ("lab.example.com", False, False),
        ("10.1.2.3", False, False),
        ("10.1.2.3:8443", True, True),
        ("[fe80::1]", True, True),
        ("evil.example", True, False),
        ("127.0.0.1.evil.example", True, False),
        ("localhost.evil.example", True, False),
        ("localhost@evil.example", True, False),
        ("0x7f000001", True, False),
        ("", True, False),
    ],
)
def test_hosts(host: str, any_address: bool, passes: bool) -> None:
    try:
        guard.check_host(headers(host=host), NAMES, any_address=any_address)
    except guard.Refused:
        assert not passes
    else:
        assert passes


def test_a_refused_host_is_named_with_those_allowed() -> None:
    with pytest.raises(guard.Refused, match=r"'evil\.example:1'.*allowed are .*localhost"):
        guard.check_host(headers(host="evil.example:1"), NAMES, any_address=True)


@pytest.mark.parametrize(
    ("origin", "site", "needed", "passes"),
    [
        ("http://localhost:1", "same-origin", True, True),
        ("https://localhost:1", "same-origin", True, True),
        ("http://localhost:1", "", True, True),
        ("", "same-origin", False, True),
        ("", "", False, True),
        ("", "same-origin", True, True),
        ("", "", True, False),
        ("http://localhost:2", "same-site", True, False),
        ("http://localhost:2", "", True, False),
        ("http://localhost", "", True, False),
        ("http://localhost:1.evil.example", "", True, False),
        ("null", "same-origin", True, False),
        ("null", "", False, False),
        ("file://localhost:1", "", True, False),
        ("http://localhost:1", "cross-site", True, False),
        ("http://localhost:1", "none", True, False),
        ("http://localhost:1", "SAME-ORIGIN", True, False),
    ],
)
def test_origins(origin: str, site: str, needed: bool, passes: bool) -> None:
    fields = headers(host="localhost:1", origin=origin, sec_fetch_site=site)
    try:
        guard.check_origin(fields, needed=needed)
    except guard.Refused:
        assert not passes
    else:
        assert passes


@pytest.mark.parametrize(
    ("fields", "passes"),
    [
        ({}, True),
        ({"sec_fetch_site": "none", "sec_fetch_mode": "navigate"}, True),
        ({"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors"}, True),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, True),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}, False),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"}, False),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "cors", "sec_fetch_dest": "empty"}, False),
        ({"origin": "http://localhost:2"}, False),
        ({"origin": "http://localhost:1"}, True),
    ],
)
def test_navigation(fields: dict[str, str], passes: bool) -> None:
    try:
        guard.check_navigation(headers(host="localhost:1", **fields))
    except guard.Refused:
        assert not passes
    else:
        assert passes
