"""Addresses and ranges: what was read leniently once is refused by name, and endpoints written by hand have rules."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import complaints, made, pod, refused

NO_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
ZEROS = "must not have leading 0s in IP or prefix length"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("10.0.0.0/24", ""),
        ("2001:DB8::/32", ""),
        ("::/0", ""),
        ("10.0.0.1/24", "must not have bits set beyond the prefix length"),
        ("fe80::1/64", "must not have bits set beyond the prefix length"),
        ("010.0.0.0/24", ZEROS),
        ("10.0.0.0/08", ZEROS),
        ("::ffff:1.2.3.0/120", "must not have an IPv4-mapped IPv6 address"),
        ("10.0.0.0", NO_RANGE),
        ("10.0.0.0/33", NO_RANGE),
        ("10.0.0/8", NO_RANGE),
        ("10.0.0.0/ 8", NO_RANGE),
        ("fe80::%eth0/64", NO_RANGE),
    ],
)
def test_a_range(text: str, wrong: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "spec": {"podCIDR": text}}
    assert refused(node) == ([f'spec.podCIDRs[0]: Invalid value: "{text}": {wrong}'] if wrong else [])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("10.0.0.1", ""),
        ("2001:DB8::1", ""),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("fe80::1%eth0", NO_ADDRESS),
        ("10.0.0", NO_ADDRESS),
        ("", NO_ADDRESS),
    ],
)
def test_an_address(text: str, wrong: str) -> None:
    found = refused(pod(hostAliases=[{"ip": text, "hostnames": ["a"]}]))
    assert found == ([f'spec.hostAliases[0].ip: Invalid value: "{text}": {wrong}'] if wrong else [])


def _endpoints(**subset: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Endpoints", "subsets": [subset]}


ENDPOINTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "addresses and a port": ({"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}, []),
    "addresses that are not ready": ({"notReadyAddresses": [{"ip": "10.1.1.1"}]}, []),
    "nothing": ({}, ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
    "the address of this machine": (
        {"addresses": [{"ip": "127.0.0.1"}]},
        [
            'subsets[0].addresses[0].ip: Invalid value: "127.0.0.1":'
            " may not be in the loopback range (127.0.0.0/8, ::1/128)"
        ],
    ),
    "two ports, one without a name": (
        {"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80, "name": "a"}, {"port": 81}]},
        ["subsets[0].ports[1].name: Required value"],
    ),
    "a port that cannot be": (
        {"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 0, "protocol": "ICMP"}]},
        [
            "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            'subsets[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
        ],
    ),
}


@pytest.mark.parametrize(("subset", "wrong"), ENDPOINTS.values(), ids=list(ENDPOINTS))
def test_endpoints(subset: dict[str, Any], wrong: list[str]) -> None:
    assert refused(_endpoints(**subset)) == wrong


def test_endpoints_that_keep_their_subsets_are_not_looked_at_again() -> None:
    assert complaints(_endpoints(), {"metadata": {"labels": {"a": "b"}}}) == []
    assert made(_endpoints(ports=[{"port": 1}]))["subsets"][0]["ports"][0]["protocol"] == "TCP"
