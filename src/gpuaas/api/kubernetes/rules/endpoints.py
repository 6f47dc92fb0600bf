"""Endpoints, the old form of endpoint slices (`traffic`): addresses behind a service, as somebody writes them down."""

from typing import Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import dns_label, each, known, port_number, qualified_name
from gpuaas.api.kubernetes.rules.networks import endpoint_address
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, invalid, required
from gpuaas.base.names import is_dns1123_subdomain

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


class Endpoints(Behaviour):
    generation = False
    allow_create_on_update = True

    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: View) -> list[FieldError]:
        errors: list[FieldError] = []
        for subset, at in each(obj, "subsets", ""):
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.append(required(at, "must specify `addresses` or `notReadyAddresses`"))
            for field in ("addresses", "notReadyAddresses"):
                for address, where in each(subset, field, at):
                    errors += _address(address, where)
            for port, where in each(subset, "ports", at):
                errors += _port(port, where, named=len(subset["ports"]) > 1)
        return errors

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        return [] if obj.get("subsets") == old.get("subsets") else self.validate(obj)


def _address(address: View, path: str) -> list[FieldError]:
    errors = endpoint_address(address.get("ip", ""), child(path, "ip"))
    if address.get("hostname"):
        errors += dns_label(address["hostname"], child(path, "hostname"))
    if address.get("nodeName") is not None:
        name = address["nodeName"]
        errors += [invalid(child(path, "nodeName"), name, text) for text in is_dns1123_subdomain(name)]
    return errors


def _port(port: View, path: str, *, named: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if port.get("name"):
        errors += dns_label(port["name"], child(path, "name"))
    elif named:
        errors.append(required(child(path, "name")))
    errors += port_number(port.get("port", 0), child(path, "port"))
    protocol, at = port.get("protocol", ""), child(path, "protocol")
    errors += known(protocol, _PROTOCOLS, at) if protocol else [required(at)]
    if port.get("appProtocol") is not None:
        errors += qualified_name(port["appProtocol"], child(path, "appProtocol"))
    return errors
