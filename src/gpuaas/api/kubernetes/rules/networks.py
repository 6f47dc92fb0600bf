"""Addresses as Kubernetes reads them in its older fields."""

import ipaddress

from gpuaas.base.fielderrors import FieldError, invalid

_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def ip_address(text: str, path: str) -> list[FieldError]:
    return [] if address_of(text) is not None else [invalid(path, text, _NO_ADDRESS)]


def ip_range(text: str, path: str) -> list[FieldError]:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return [invalid(path, text, _NO_RANGE)]
    return [] if "/" in text else [invalid(path, text, _NO_RANGE)]


def endpoint_address(text: str, path: str) -> list[FieldError]:
    """An address others may be sent to: no address of this machine or of this link."""
    address = address_of(text)
    if address is None:
        return [invalid(path, text, _NO_ADDRESS)]
    errors: list[FieldError] = []
    if address.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})"))
    if address.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    return errors
