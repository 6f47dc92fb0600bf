"""Kubernetes' additions to CEL: quantities, URLs, addresses, list functions and sets, put into module library's table."""

import ipaddress
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from gpuaas.base.quantity import NANO, Quantity, from_int, parse_quantity
from gpuaas.machinery.schema.cel.library import add
from gpuaas.machinery.schema.cel.types import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    URL,
    A,
    list_of,
    map_of,
    optional_of,
)
from gpuaas.machinery.schema.cel.values import NONE, Address, CelError, Network, Opt, Span, UInt, contains, equal
from gpuaas.machinery.schema.gourl import Url, parse_url


def _quantity(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except ValueError as problem:
        raise CelError(str(problem)) from None


def _works(run: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            run(text)
        except CelError:
            return False
        return True

    return check


def _as_integer(amount: Quantity) -> int:
    if amount.nano % NANO:
        raise CelError("cannot convert value to integer")
    return amount.nano // NANO


def _compare(first: Quantity, second: Quantity) -> int:
    return (first.nano > second.nano) - (first.nano < second.nano)


def _quantities() -> None:
    pair = (QUANTITY, QUANTITY)
    add("quantity", (STRING,), QUANTITY, _quantity)
    add("isQuantity", (STRING,), BOOL, _works(_quantity))
    add("sign", (QUANTITY,), INT, lambda a: (a.nano > 0) - (a.nano < 0), method=True)
    add("isGreaterThan", pair, BOOL, lambda a, b: a.nano > b.nano, method=True)
    add("isLessThan", pair, BOOL, lambda a, b: a.nano < b.nano, method=True)
    add("compareTo", pair, INT, _compare, method=True)
    add("asApproximateFloat", (QUANTITY,), DOUBLE, lambda a: a.nano / NANO, method=True)
    add("asInteger", (QUANTITY,), INT, _as_integer, method=True)
    add("isInteger", (QUANTITY,), BOOL, lambda a: a.nano % NANO == 0, method=True)
    add("add", pair, QUANTITY, lambda a, b: a + b, method=True)
    add("sub", pair, QUANTITY, lambda a, b: a - b, method=True)
    add("add", (QUANTITY, INT), QUANTITY, lambda a, n: a + from_int(n), method=True)
    add("sub", (QUANTITY, INT), QUANTITY, lambda a, n: a - from_int(n), method=True)


def _url(text: str) -> Url:
    try:
        return parse_url(text)
    except ValueError as why:
        raise CelError(f"URL parse error during conversion from string: {why}") from None


def _urls() -> None:
    add("url", (STRING,), URL, _url)
    add("isURL", (STRING,), BOOL, _works(_url))
    add("getScheme", (URL,), STRING, lambda url: url.scheme, method=True)
    add("getHost", (URL,), STRING, lambda url: url.host, method=True)
    add("getHostname", (URL,), STRING, lambda url: url.hostname, method=True)
    add("getPort", (URL,), STRING, lambda url: url.port, method=True)
    add("getEscapedPath", (URL,), STRING, lambda url: url.escaped_path, method=True)
    add("getQuery", (URL,), map_of(STRING, list_of(STRING)), lambda url: url.values(), method=True)


def _ip(text: str) -> Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise CelError(f'IP Address "{text}" parse error during conversion from string') from None
    if "%" in text or getattr(address, "ipv4_mapped", None) is not None:
        raise CelError(f'IP Address "{text}" parse error during conversion from string')
    return address


def _cidr(text: str) -> Network:
    try:
        if "/" not in text:
            raise ValueError
        return ipaddress.ip_interface(text)
    except ValueError:
        raise CelError(f'network address parse error during conversion from string: "{text}"') from None


def _contains_ip(network: Network, address: Address) -> bool:
    return address.version == network.version and address in network.network


def _contains_cidr(network: Network, other: Network) -> bool:
    return (
        other.version == network.version
        and other.ip in network.network
        and other.network.prefixlen >= network.network.prefixlen
    )


def _addresses() -> None:
    add("ip", (STRING,), IP, _ip)
    add("isIP", (STRING,), BOOL, _works(_ip))
    add("ip.isCanonical", (STRING,), BOOL, lambda text: str(_ip(text)) == text)
    add("family", (IP,), INT, lambda ip: ip.version, method=True)
    add("isUnspecified", (IP,), BOOL, lambda ip: ip.is_unspecified, method=True)
    add("isLoopback", (IP,), BOOL, lambda ip: ip.is_loopback, method=True)
    add("isLinkLocalUnicast", (IP,), BOOL, lambda ip: ip.is_link_local, method=True)
    add("isLinkLocalMulticast", (IP,), BOOL, _is_link_local_multicast, method=True)
    add("isGlobalUnicast", (IP,), BOOL, _is_global_unicast, method=True)
    add("string", (IP,), STRING, str)
    add("cidr", (STRING,), CIDR, _cidr)
    add("isCIDR", (STRING,), BOOL, _works(_cidr))
    add("containsIP", (CIDR, IP), BOOL, _contains_ip, method=True)
    add("containsIP", (CIDR, STRING), BOOL, lambda net, text: _contains_ip(net, _ip(text)), method=True)
    add("containsCIDR", (CIDR, CIDR), BOOL, _contains_cidr, method=True)
    add("containsCIDR", (CIDR, STRING), BOOL, lambda net, text: _contains_cidr(net, _cidr(text)), method=True)
    add("ip", (CIDR,), IP, lambda net: net.ip, method=True)
    add("prefixLength", (CIDR,), INT, lambda net: net.network.prefixlen, method=True)
    add("masked", (CIDR,), CIDR, lambda net: ipaddress.ip_interface(net.network), method=True)
    add("string", (CIDR,), STRING, str)


def _is_link_local_multicast(ip: Address) -> bool:
    return ip in ipaddress.ip_network("224.0.0.0/24" if ip.version == 4 else "ff02::/16")


def _is_global_unicast(ip: Address) -> bool:
    return not (
        ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local or str(ip) == "255.255.255.255"
    )


def _index_in(items: list[Any], wanted: Any) -> int:
    return next((at for at, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_in(items: list[Any], wanted: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if equal(items[at], wanted)), -1)


def _is_sorted(items: list[Any]) -> bool:
    return all(first <= second for first, second in pairwise(items))


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return choose(items)

    return run


def _distinct(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if not contains(kept, item):
            kept.append(item)
    return kept


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    out: list[Any] = []
    for item in items:
        out.extend(_flatten(item, depth - 1) if isinstance(item, list) and depth else [item])
    return out


_SUMS: Final[tuple[tuple[Any, Callable[[list[Any]], Any]], ...]] = (
    (INT, sum),
    (UINT, lambda items: UInt(sum(items))),
    (DOUBLE, lambda items: float(sum(items))),
    (DURATION, lambda items: Span(sum(item.nanos for item in items))),
)


def _lists() -> None:
    for type_ in (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES):
        add("isSorted", (list_of(type_),), BOOL, _is_sorted, method=True)
        add("min", (list_of(type_),), type_, _extreme("min", min), method=True)
        add("max", (list_of(type_),), type_, _extreme("max", max), method=True)
        add("sort", (list_of(type_),), list_of(type_), sorted, method=True)
    for type_, run in _SUMS:
        add("sum", (list_of(type_),), type_, run, method=True)
    add("indexOf", (list_of(A), A), INT, _index_in, method=True)
    add("lastIndexOf", (list_of(A), A), INT, _last_index_in, method=True)
    add("distinct", (list_of(A),), list_of(A), _distinct, method=True)
    add("reverse", (list_of(A),), list_of(A), lambda items: items[::-1], method=True)
    add("slice", (list_of(A), INT, INT), list_of(A), _slice, method=True)
    add("flatten", (list_of(list_of(A)),), list_of(A), _flatten, method=True)
    add("flatten", (list_of(DYN), INT), list_of(DYN), _flatten, method=True)
    add("first", (list_of(A),), optional_of(A), lambda items: Opt(True, items[0]) if items else NONE, method=True)
    add("last", (list_of(A),), optional_of(A), lambda items: Opt(True, items[-1]) if items else NONE, method=True)
    add("lists.range", (INT,), list_of(INT), lambda count: list(range(count)))


def _has_all(items: list[Any], parts: list[Any]) -> bool:
    return all(contains(items, part) for part in parts)


def _sets() -> None:
    pair = (list_of(A), list_of(A))
    add("sets.contains", pair, BOOL, _has_all)
    add("sets.equivalent", pair, BOOL, lambda a, b: _has_all(a, b) and _has_all(b, a))
    add("sets.intersects", pair, BOOL, lambda a, b: any(contains(b, item) for item in a))


for _section in (_quantities, _urls, _addresses, _lists, _sets):
    _section()
