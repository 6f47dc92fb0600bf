"""Addresses as Kubernetes reads them in its older fields."""

import ipaddress
import re

from gpuaas.base.fielderrors import FieldError, invalid
from gpuaas.base.numbers import natural

_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_ZEROS = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9])")


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def ip_address(text: str, path: str) -> list[FieldError]:
    address = address_of(text)
    if address is None:
        readable = address_of(_without_zeros(text)) is not None
        return [invalid(path, text, "must not have leading 0s" if readable else _NO_ADDRESS)]
    if address.version == 6 and address.ipv4_mapped:
        return [invalid(path, text, "must not be an IPv4-mapped IPv6 address")]
    return []


def ip_range(text: str, path: str) -> list[FieldError]:
    before, slash, length = text.partition("/")
    address = address_of(before)
    if not slash or not _is_range(_without_zeros(before), length):
        return [invalid(path, text, _NO_RANGE)]
    if address is None or length != str(int(length)):
        return [invalid(path, text, "must not have leading 0s in IP or prefix length")]
    if address.version == 6 and address.ipv4_mapped:
        return [invalid(path, text, "must not have an IPv4-mapped IPv6 address")]
    if ipaddress.ip_network(text, strict=False).network_address != address:
        return [invalid(path, text, "must not have bits set beyond the prefix length")]
    return []


def _is_range(address: str, length: str) -> bool:
    found, bits = address_of(address), natural(length)
    return found is not None and bits is not None and bits <= found.max_prefixlen


def _without_zeros(text: str) -> str:
    """Old fields were read with zeros before a number, and what is read so is told apart from what is no address."""
    return _ZEROS.sub("", text) if "." in text else text


def endpoint_address(text: str, path: str) -> list[FieldError]:
    """An address others may be sent to: no address of this machine or of this link."""
    address, errors = address_of(text), ip_address(text, path)
    if errors or address is None:
        return errors
    if address.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})"))
    if address.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    return errors
