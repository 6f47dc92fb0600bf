"""ServiceCIDRs and IPAddresses: ranges that services get their addresses from, and who holds which address."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from gpuaas.api.kinds import Behaviour
from gpuaas.api.kubernetes.rules.networks import address_of, ip_range
from gpuaas.base.fielderrors import FieldError, child, invalid, required
from gpuaas.base.names import is_dns1123_subdomain, is_path_segment

FAMILY, MANAGED_BY = "ipaddress.kubernetes.io/ip-family", "ipaddress.kubernetes.io/managed-by"
ALLOCATOR = "ipallocator.k8s.io"
"""Who manages the addresses of services."""

View = Mapping[str, Any]
_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_FIXED = "field is immutable"
_ONE_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def _name_messages(name: str) -> list[str]:
    address = address_of(name)
    if address is None:
        return [_NO_ADDRESS]
    return [] if str(address) == name else [f'must be in canonical form ("{address}")']


class IPAddress(Behaviour):
    generation = False
    name_messages = staticmethod(_name_messages)

    def validate(self, obj: View) -> list[FieldError]:
        parent, at = (obj.get("spec") or {}).get("parentRef"), "spec.parentRef"
        if parent is None:
            return [required(at)]
        group = parent.get("group", "")
        errors = [invalid(f"{at}.group", group, text) for text in is_dns1123_subdomain(group)] if group else []
        for key in ("resource", "name", "namespace"):
            value = parent.get(key, "")
            if value:
                errors += [invalid(child(at, key), value, text) for text in is_path_segment(value)]
            elif key != "namespace":
                errors.append(required(child(at, key)))
        return errors

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        parent, before = ((one.get("spec") or {}).get("parentRef") or {} for one in (obj, old))
        if parent == before:
            return []
        shown = {key.title(): parent.get(key, "") for key in ("group", "resource", "namespace", "name")}  # as Go does
        return [invalid("spec.parentRef", shown, _FIXED)]


class ServiceCIDR(Behaviour):
    generation = False

    def validate(self, obj: View) -> list[FieldError]:
        return _range_errors(_ranges(obj))

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        ranges, before, at = _ranges(obj), _ranges(old), "spec.cidrs"
        if len(ranges) == len(before):
            pairs = enumerate(zip(ranges, before, strict=True))
            return [invalid(child(at, index), new, _FIXED) for index, (new, known) in pairs if new != known]
        if (len(before), len(ranges)) == (1, 2):
            changed = [invalid(child(at, 0), ranges[0], _FIXED)] if ranges[0] != before[0] else []
            return changed + _range_errors(ranges)
        return [invalid(at, ranges, _FIXED)]


def _ranges(obj: View) -> list[str]:
    return list((obj.get("spec") or {}).get("cidrs") or ())


def _range_errors(ranges: list[str]) -> list[FieldError]:
    at = "spec.cidrs"
    if not ranges:
        return [required(at, "at least one CIDR required")]
    if len(ranges) > 2:
        return [invalid(at, {"CIDRs": ranges}, "may only hold up to 2 values")]
    errors = [error for index, text in enumerate(ranges) for error in _range(text, child(at, index))]
    if not errors and len({ipaddress.ip_network(text, strict=False).version for text in ranges}) < len(ranges):
        errors.append(invalid(at, ranges, _ONE_EACH))
    return errors


def _range(text: str, path: str) -> list[FieldError]:
    errors = ip_range(text, path)
    if not errors and text != (canonical := str(ipaddress.ip_network(text))):
        return [invalid(path, text, f'must be in canonical form ("{canonical}")')]
    return errors
