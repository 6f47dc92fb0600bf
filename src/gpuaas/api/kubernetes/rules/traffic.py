"""Who may talk to whom, and what comes in from outside: network policies, ingresses and their classes, endpoint slices."""

import ipaddress
import re
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import dns_label, each, known, one_of, port_name, port_number, unchanged
from gpuaas.api.kubernetes.rules.networks import address_of, endpoint_address, ip_address, ip_range
from gpuaas.api.metadata import View, label_messages, qualified_messages, validate_label_selector
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, required, too_long, too_many
from gpuaas.base.names import is_dns1123_subdomain, is_path_segment

_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_WITHIN: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_THE_END: Final = ("/..", "/.")
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WILDCARD: Final = rf"\*\.{_LABEL}(\.{_LABEL})*"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_MOST_PORTS: Final = 20_000


class NetworkPolicy(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for rule, at in each(spec, direction, "spec"):
                for port, where in each(rule, "ports", at):
                    errors += _policy_port(port, where)
                for peer, where in each(rule, peers, at):
                    errors += _peer(peer, where)
        types = spec.get("policyTypes") or []
        if len(types) > 2:
            return [*errors, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
        for index, name in enumerate(types):
            errors += known(name, ("Ingress", "Egress"), f"spec.policyTypes[{index}]", sort=False)
        return errors


def _policy_port(port: View, path: str) -> list[FieldError]:
    protocol = port.get("protocol")
    errors = known(protocol, _PROTOCOLS, child(path, "protocol"), sort=False) if protocol is not None else []
    number, end, at = port.get("port"), port.get("endPort"), child(path, "endPort")
    if isinstance(number, int):
        errors += port_number(number, child(path, "port"))
        if end is not None and end < number:
            errors.append(invalid(at, number, "must be greater than or equal to `port`"))
        return errors + (port_number(end, at) if end is not None else [])
    if end is not None:
        why = "not specified" if number is None else "non-numeric"
        errors.append(invalid(at, end, f"may not be specified when `port` is {why}"))
    return errors + (port_name(number, child(path, "port")) if number is not None else [])


def _peer(peer: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    selectors = [key for key in ("podSelector", "namespaceSelector") if peer.get(key) is not None]
    for key in selectors:
        errors += validate_label_selector(peer[key], child(path, key))
    block = peer.get("ipBlock")
    if block is not None:
        errors += _ip_block(block, child(path, "ipBlock"))
        if selectors:
            errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selectors:
        errors.append(required(path, "must specify a peer"))
    return errors


def _ip_block(block: View, path: str) -> list[FieldError]:
    cidr, at = block.get("cidr", ""), child(path, "cidr")
    if not cidr:
        return [required(at)]
    errors = ip_range(cidr, at)
    if errors:
        return errors
    whole = ipaddress.ip_network(cidr, strict=False)
    for index, text in enumerate(block.get("except") or ()):
        at = child(path, "except", index)
        wrong = ip_range(text, at)
        if not wrong:
            part: Any = ipaddress.ip_network(text, strict=False)
            inside = part.version == whole.version and part.prefixlen > whole.prefixlen and part.subnet_of(whole)
            wrong = [] if inside else [invalid(at, text, "must be a strict subset of `cidr`")]
        errors += wrong
    return errors


class Ingress(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        paths = [p for rule in spec.get("rules") or () for p in (rule.get("http") or {}).get("paths") or ()]
        for backend in (spec.get("defaultBackend"), *(path.get("backend") for path in paths)):
            if backend and backend.get("resource") is not None:
                backend["resource"].setdefault("apiGroup", None)  # Go writes it even when it is not said

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        backend, rules, name = spec.get("defaultBackend"), spec.get("rules"), spec.get("ingressClassName")
        errors: list[FieldError] = []
        if not rules and backend is None:
            errors.append(invalid("spec", rules, "either `defaultBackend` or `rules` must be specified"))
        if backend is not None:
            errors += _backend(backend, "spec.defaultBackend")
        for rule, at in each(spec, "rules", "spec"):
            errors += _ingress_rule(rule, at)
        for entry, at in each(spec, "tls", "spec"):
            for index, host in enumerate(entry.get("hosts") or ()):
                errors += _host(host, child(at, "hosts", index))
            if secret := entry.get("secretName"):
                errors += [invalid(child(at, "secretName"), secret, text) for text in is_dns1123_subdomain(secret)]
        if name is not None:
            errors += [invalid("spec.ingressClassName", name, text) for text in is_dns1123_subdomain(name)]
        return errors + _contradiction(obj, name)

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        """That the annotation and the field agree is asked of new ingresses only."""
        annotation = f"annotations.{_INGRESS_CLASS}"
        return [error for error in self.validate(obj) if error.path != annotation]

    def warnings(self, obj: View, old: View | None) -> list[str]:
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if old is not None or _INGRESS_CLASS not in annotations or (obj.get("spec") or {}).get("ingressClassName"):
            return []
        return [f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _contradiction(obj: View, name: str | None) -> list[FieldError]:
    said = ((obj.get("metadata") or {}).get("annotations") or {}).get(_INGRESS_CLASS)
    if said is None or name is None or said == name:
        return []
    text = "must match `ingressClassName` when both are specified"
    return [invalid(f"annotations.{_INGRESS_CLASS}", said, text)]


def _host(host: str, path: str) -> list[FieldError]:
    if "*" not in host:
        return [invalid(path, host, text) for text in is_dns1123_subdomain(host)]
    if re.fullmatch(_WILDCARD, host):
        return []
    text = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of"
        " lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        f" (e.g. '*.example.com', regex used for validation is '{_WILDCARD}')"
    )
    return [invalid(path, host, text)]


def _ingress_rule(rule: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if host := rule.get("host"):
        if address_of(host) is not None:
            errors.append(invalid(child(path, "host"), host, "must be a DNS name, not an IP address"))
        errors += _host(host, child(path, "host"))
    http = rule.get("http")
    if http is None:
        return errors
    if not http.get("paths"):
        errors.append(required(child(path, "http", "paths")))
    for entry, at in each(http, "paths", child(path, "http")):
        errors += _http_path(entry, at)
    return errors


def _http_path(entry: View, path: str) -> list[FieldError]:
    kind, text, at = entry.get("pathType"), entry.get("path", ""), child(path, "path")
    if kind is None:
        return [required(child(path, "pathType"), "pathType must be specified")]
    errors = known(kind, _PATH_TYPES, child(path, "pathType"))
    if not errors and not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        errors.append(invalid(at, text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        errors += [invalid(at, text, f"must not contain '{part}'") for part in _NOT_WITHIN if part in text]
        errors += [invalid(at, text, f"cannot end with '{end}'") for end in _NOT_AT_THE_END if text.endswith(end)]
    return errors + _backend(entry.get("backend") or {}, child(path, "backend"))


def _backend(backend: View, path: str) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference(resource, child(path, "resource"))
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    at, name, port = child(path, "service"), service.get("name", ""), service.get("port") or {}
    if name:
        errors = dns_label(name, child(at, "name"))
    else:
        errors = [required(child(at, "name"))]
    match bool(port.get("name")), bool(port.get("number")):
        case True, True:
            errors.append(invalid(path, "", "cannot set both port name & port number"))
        case True, False:
            errors += port_name(port["name"], child(at, "port", "name"))
        case False, True:
            errors += port_number(port["number"], child(at, "port", "number"))
        case _:
            errors.append(required(path, "port name or number is required"))
    return errors


def _reference(reference: View, path: str) -> list[FieldError]:
    """What is named by group, kind and name."""
    group = reference.get("apiGroup")
    wrong = is_dns1123_subdomain(group) if group is not None else []
    errors = [invalid(child(path, "apiGroup"), group, text) for text in wrong]
    for key in ("kind", "name"):
        value, at = reference.get(key, ""), child(path, key)
        errors += [invalid(at, value, text) for text in is_path_segment(value)] if value else [required(at)]
    return errors


class IngressClass(Behaviour):
    def default(self, obj: Object) -> None:
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            parameters.setdefault("scope", "Cluster")

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        controller = spec.get("controller", "")
        errors = [too_long("spec.controller", 250)] if len(controller.encode()) > 250 else []
        errors += _domain_path(controller, "spec.controller")
        parameters, at = spec.get("parameters"), "spec.parameters"
        if parameters is None:
            return errors
        errors += _reference(parameters, at)
        scope, namespace = parameters.get("scope", ""), parameters.get("namespace")
        if wrong := known(scope, ("Cluster", "Namespace"), f"{at}.scope"):
            return errors + wrong
        if scope == "Cluster":
            text = "`parameters.scope` is set to 'Cluster'"
            return errors if namespace is None else [*errors, forbidden(f"{at}.namespace", text)]
        if namespace is None:
            return [*errors, required(f"{at}.namespace", "`parameters.scope` is set to 'Namespace'")]
        return errors + dns_label(namespace, f"{at}.namespace")

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        new, before = ((each.get("spec") or {}).get("controller", "") for each in (obj, old))
        return unchanged(new, before, "spec.controller")


def _domain_path(text: str, path: str) -> list[FieldError]:
    if not text:
        return [required(path)]
    host, _, rest = text.partition("/")
    if not host or not rest:
        return [invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, host, message) for message in is_dns1123_subdomain(host)]
    if not re.fullmatch(_HTTP_PATH, rest):
        errors.append(invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return errors


class EndpointSlice(Behaviour):
    def default(self, obj: Object) -> None:
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate(self, obj: View) -> list[FieldError]:
        kind = obj.get("addressType", "")
        errors = one_of(kind, ("FQDN", "IPv4", "IPv6"), "addressType") + _slice_ports(obj)
        endpoints = obj.get("endpoints") or ()
        if len(endpoints) > _MOST_ENDPOINTS:
            return [*errors, too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
        for endpoint, at in each(obj, "endpoints", ""):
            errors += _endpoint(endpoint, kind, at)
        return errors

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        errors = self.validate(obj)
        if errors and obj.get("endpoints") == old.get("endpoints"):
            errors = [error for error in errors if not error.path.startswith("endpoints")]
        return errors + unchanged(obj.get("addressType"), old.get("addressType"), "addressType")


def _slice_ports(obj: View) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    ports = each(obj, "ports", "")
    if len(ports) > _MOST_PORTS:
        return [too_many("ports", len(ports), _MOST_PORTS)]
    for port, at in ports:
        name, application = port.get("name", ""), port.get("appProtocol")
        errors += dns_label(name, child(at, "name")) if name else []
        if name in names:
            errors.append(duplicate(child(at, "name"), name))
        names.add(name)
        errors += known(port.get("protocol", ""), _PROTOCOLS, child(at, "protocol"))
        if application is not None:
            wrong = qualified_messages(application)
            errors += [invalid(child(at, "appProtocol"), application, text) for text in wrong]
    return errors


def _endpoint(endpoint: View, kind: str, path: str) -> list[FieldError]:
    addresses, at = endpoint.get("addresses") or (), child(path, "addresses")
    errors: list[FieldError] = []
    if not addresses:
        errors.append(required(at, "must contain at least 1 address"))
    elif len(addresses) > _MOST_ADDRESSES:
        errors.append(too_many(at, len(addresses), _MOST_ADDRESSES))
    for index, text in enumerate(addresses):
        errors += _endpoint_address(text, kind, at, index)
    if endpoint.get("nodeName") is not None:
        name = endpoint["nodeName"]
        errors += [invalid(child(path, "nodeName"), name, text) for text in is_dns1123_subdomain(name)]
    if endpoint.get("hostname") is not None:
        errors += dns_label(endpoint["hostname"], child(path, "hostname"))
    zones: set[str] = set()
    for zone, where in each(endpoint.get("hints") or {}, "forZones", child(path, "hints")):
        name = zone.get("name", "")
        errors += [duplicate(child(where, "name"), name)] if name in zones else []
        zones.add(name)
        errors += [invalid(child(where, "name"), name, text) for text in label_messages(name)]
    return errors


def _endpoint_address(text: str, kind: str, path: str, index: int) -> list[FieldError]:
    at = f"{path}[{index}]"
    if kind == "FQDN":
        name = text.removesuffix(".")
        if not text:
            return [required(at)]
        if messages := is_dns1123_subdomain(name):
            return [invalid(at, name, ",".join(messages))]
        few = "should be a domain with at least two segments separated by dots"
        return [invalid(at, name, few)] if "." not in name else []
    if kind not in ("IPv4", "IPv6"):
        return []
    if wrong := ip_address(text, at):
        return wrong
    address = address_of(text)
    assert address is not None
    if kind == "IPv6" and address.version == 6 and text != str(address):
        return [invalid(at, text, f'must be in canonical form ("{address}")')]
    errors = [] if f"IPv{address.version}" == kind else [invalid(path, text, f"must be an {kind} address")]
    return errors + endpoint_address(text, at)
