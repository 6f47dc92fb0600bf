"""Services: ports and traffic, addresses that once given stay. Who gives addresses and node ports out is the server.

`wants_cluster_ip` and `ports_without_node_port` say what an accepted service still lacks; `give_cluster_ip` fills it in.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import (
    dns_label,
    dns_subdomain,
    each,
    known,
    one_of,
    port_number,
    port_number_or_name,
    qualified_name,
)
from gpuaas.api.kubernetes.rules.networks import address_of, endpoint_address, ip_address, ip_range
from gpuaas.api.metadata import View, validate_labels
from gpuaas.base.duplicates import duplicates
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, required
from gpuaas.base.names import is_dns1123_label

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_ADDRESS: Final = ("ClusterIP", "NodePort", "LoadBalancer")
_EXTERNAL: Final = ("NodePort", "LoadBalancer")
_NONE: Final = "None"
_DAY: Final = 86_400
_NOT_FOR_NAMES: Final = "may not be set for ExternalName services"
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"


class Service(Behaviour):
    allow_create_on_update = True
    generation = False
    name_messages = staticmethod(is_dns1123_label)
    field_selectors = ("spec.clusterIP", "spec.type")

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        _default_affinity(spec)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if _is_external(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if spec["type"] in _WITH_ADDRESS:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        status = obj.setdefault("status", {})
        status.setdefault("loadBalancer", {})

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}
        if obj["spec"]["type"] in _WITH_ADDRESS:
            _default_families(obj["spec"])

    def prepare_update(self, obj: Object, old: View) -> None:
        """What was given out stays, unless the new type has no use for it."""
        spec, before = obj["spec"], old.get("spec") or {}
        _same_addresses(spec, before)
        if spec["type"] in _WITH_ADDRESS and before.get("type") in _WITH_ADDRESS:
            for field in ("clusterIP", "clusterIPs"):
                if not spec.get(field) and before.get(field):
                    spec[field] = before[field]
        elif before.get("type") in _WITH_ADDRESS:
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                if spec.get(field) == before.get(field):
                    spec.pop(field, None)
        _keep_node_ports(spec, before)
        _keep_health_check(spec, before)
        if not _is_external(spec) and spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
        if spec["type"] in _WITH_ADDRESS:
            _default_families(spec)

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        headless = is_headless(spec)
        if not spec.get("ports") and not headless and spec.get("type") != "ExternalName":
            errors.append(required("spec.ports"))
        errors += _by_type(spec, headless)
        names: set[str] = set()
        for port, at in each(spec, "ports", "spec"):
            errors += _port(port, len(spec["ports"]) > 1, names, at)
        errors += validate_labels(spec.get("selector"), "spec.selector")
        errors += one_of(spec.get("sessionAffinity"), ("ClientIP", "None"), "spec.sessionAffinity")
        errors += _affinity(spec)
        errors += _addresses(spec)
        for index, address in enumerate(spec.get("externalIPs") or ()):
            errors += endpoint_address(address, f"spec.externalIPs[{index}]")
        errors += one_of(spec.get("type"), _TYPES, "spec.type")
        errors += _unique_ports(spec)
        errors += _balancer(spec)
        return errors + _traffic(spec)

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        return _kept_addresses(spec, before) + _kept_health_check(spec, before)

    def warnings(self, obj: View, old: View | None) -> list[str]:
        spec = obj.get("spec") or {}
        found: list[str] = []
        if is_headless(spec):
            ignored = [field for field in ("loadBalancerIP", "externalIPs") if spec.get(field)]
            found += [f"spec.{field} is ignored for headless services" for field in ignored]
            if spec.get("sessionAffinity") != "None":
                found.append("spec.SessionAffinity is ignored for headless services")
        elif spec.get("externalIPs") and spec.get("type") != "ExternalName":
            found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
        if spec.get("type") != "ExternalName" and spec.get("externalName"):
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.get("trafficDistribution") == "PreferClose":
            found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return found

    def fields(self, obj: View) -> Mapping[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def is_headless(spec: View) -> bool:
    return (spec.get("clusterIPs") or []) == [_NONE]


def wants_cluster_ip(service: View) -> bool:
    spec = service.get("spec") or {}
    return spec.get("type") in _WITH_ADDRESS and not spec.get("clusterIP")


def give_cluster_ip(service: Object, address: str) -> None:
    service["spec"]["clusterIP"] = address
    service["spec"]["clusterIPs"] = [address]


def ports_without_node_port(service: Object) -> list[Object]:
    """The ports that are still to get one; set `nodePort` in them."""
    spec = service.get("spec") or {}
    wanted = spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )
    return [port for port in spec.get("ports") or () if wanted and not port.get("nodePort")]


def _kept_addresses(spec: View, before: View) -> list[FieldError]:
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return []
    if is_headless(spec) and is_headless(before):
        return []
    new, had = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if had and not new:
        return [invalid("spec.clusterIPs[0]", new, "primary clusterIP can not be unset")]
    return [
        invalid(f"spec.clusterIPs[{index}]", new, "may not change once set")
        for index, address in enumerate(had)
        if index < len(new) and address != new[index]
    ]


def _kept_health_check(spec: View, before: View) -> list[FieldError]:
    if not (needs_health_check(spec) and needs_health_check(before)):
        return []
    same = spec.get("healthCheckNodePort") == before.get("healthCheckNodePort")
    return [] if same else [forbidden("spec.healthCheckNodePort", "field is immutable")]


def needs_health_check(spec: View) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _default_affinity(spec: Object) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10_800}}


def _default_families(spec: Object) -> None:
    """One stack, IPv4. A headless service without a selector could be anything, so it asks for both."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    both = spec.get("clusterIP") == _NONE and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "RequireDualStack" if both else "SingleStack"
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if both else [_family(spec)]


def _family(spec: View) -> str:
    address = address_of(spec.get("clusterIP", ""))
    return "IPv6" if address is not None and address.version == 6 else "IPv4"


def _same_addresses(spec: Object, before: View) -> None:
    """The one address and the list of them say the same; who changes only the one means both."""
    if spec.get("clusterIP", "") == before.get("clusterIP", ""):
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = before["clusterIPs"]
    elif spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []


def _keep_node_ports(spec: Object, before: View) -> None:
    ports, had = spec.get("ports") or (), before.get("ports") or ()
    if before.get("type") not in _EXTERNAL:
        return
    if spec["type"] in _EXTERNAL:
        given = {port.get("nodePort") for port in ports} & {port.get("nodePort") for port in had}
        by_name = {port.get("name", ""): port.get("nodePort") for port in had}
        for port in ports:
            known_port = by_name.get(port.get("name", ""))
            if not port.get("nodePort") and known_port and known_port not in given:
                port["nodePort"] = known_port
        return
    if {port.get("nodePort") for port in ports} == {port.get("nodePort") for port in had}:
        for port in ports:
            port.pop("nodePort", None)
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"):
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _keep_health_check(spec: Object, before: View) -> None:
    if not needs_health_check(before):
        return
    if not needs_health_check(spec):
        if spec.get("healthCheckNodePort") == before.get("healthCheckNodePort"):
            spec.pop("healthCheckNodePort", None)
    elif not spec.get("healthCheckNodePort") and before.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _is_external(spec: View) -> bool:
    return spec.get("type") in _EXTERNAL or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def _by_type(spec: View, headless: bool) -> list[FieldError]:
    kind = spec.get("type")
    if kind in _EXTERNAL and headless:
        return [invalid("spec.clusterIPs[0]", _NONE, f"may not be set to 'None' for {kind} services")]
    if kind != "ExternalName":
        return []
    errors = [
        forbidden(f"spec.{field}", _NOT_FOR_NAMES)
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    name = spec.get("externalName", "").removesuffix(".")
    return errors + (dns_subdomain(name, "spec.externalName") if name else [required("spec.externalName")])


def _port(port: View, needs_name: bool, names: set[str], path: str) -> list[FieldError]:
    name, errors = port.get("name", ""), list[FieldError]()
    if needs_name and not name:
        errors.append(required(child(path, "name")))
    elif name:
        errors += dns_label(name, child(path, "name"))
        if name in names:
            errors.append(duplicate(child(path, "name"), name))
        names.add(name)
    errors += port_number(port.get("port", 0), child(path, "port"))
    errors += one_of(port.get("protocol"), ("SCTP", "TCP", "UDP"), child(path, "protocol"))
    errors += port_number_or_name(port.get("targetPort", 0), child(path, "targetPort"))
    if port.get("appProtocol") is not None:
        errors += qualified_name(port["appProtocol"], child(path, "appProtocol"))
    return errors


def _unique_ports(spec: View) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[tuple[Any, Any]] = set()
    seen: set[tuple[Any, Any]] = set()
    later: list[FieldError] = []
    for port, at in each(spec, "ports", "spec"):
        protocol, node = port.get("protocol"), port.get("nodePort", 0)
        if node and spec.get("type") == "ClusterIP":
            errors.append(forbidden(child(at, "nodePort"), "may not be used when `type` is 'ClusterIP'"))
        if node and (protocol, node) in taken:
            later.append(duplicate(child(at, "nodePort"), node))
        taken.add((protocol, node))
    for port, at in each(spec, "ports", "spec"):
        key = (port.get("protocol"), port.get("port", 0))
        if key in seen:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            later.append(duplicate(at, shown))
        seen.add(key)
    return errors + later


def _affinity(spec: View) -> list[FieldError]:
    config, at = spec.get("sessionAffinityConfig"), "spec.sessionAffinityConfig"
    if spec.get("sessionAffinity") == "None" and config is not None:
        return [forbidden(at, "must not be set when session affinity is None")]
    if spec.get("sessionAffinity") != "ClientIP":
        return []
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _DAY:
        text = f"must be greater than 0 and less than {_DAY}"
        return [invalid(f"{at}.clientIP.timeoutSeconds", seconds, text)]
    return []


def _addresses(spec: View) -> list[FieldError]:
    if spec.get("type") == "ExternalName":
        return []
    address, addresses = spec.get("clusterIP", ""), list(spec.get("clusterIPs") or ())
    errors: list[FieldError] = []
    if addresses and not address:
        errors.append(invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified"))
    elif addresses and addresses[0] != address:
        errors.append(invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    families: Sequence[str] = spec.get("ipFamilies") or ()
    again = {index for index, _ in duplicates(families)}
    for index, family in enumerate(families):
        errors += known(family, ("IPv4", "IPv6"), f"spec.ipFamilies[{index}]")
        if index in again:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    if spec.get("ipFamilyPolicy"):
        choices = ("PreferDualStack", "RequireDualStack", "SingleStack")
        errors += known(spec["ipFamilyPolicy"], choices, "spec.ipFamilyPolicy")
    for index, entry in enumerate(addresses):
        if index == 0 and entry == _NONE:
            if len(addresses) > 1:
                errors.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
            continue
        errors += ip_address(entry, f"spec.clusterIPs[{index}]")
    if len(addresses) > 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    return errors or _not_served(spec, families) or _address_families(addresses, families)


def _not_served(spec: View, families: Sequence[str]) -> list[FieldError]:
    """Addresses here are of one family. Who asks for none of ours may say what they like."""
    if is_headless(spec) and not spec.get("selector"):
        return []
    policy, absent = spec.get("ipFamilyPolicy"), [index for index, family in enumerate(families) if family == "IPv6"]
    errors = [invalid(f"spec.ipFamilies[{index}]", "IPv6", "not configured on this cluster") for index in absent]
    if policy != "RequireDualStack":
        return errors
    return [invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services"), *errors]


def _address_families(addresses: Sequence[str], families: Sequence[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, (entry, family) in enumerate(zip(addresses, families, strict=False)):
        address = address_of(entry)
        if address is not None and f"IPv{address.version}" != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"spec.clusterIPs[{index}]", entry, text))
    return errors


def _balancer(spec: View) -> list[FieldError]:
    errors: list[FieldError] = []
    balanced = spec.get("type") == "LoadBalancer"
    ranges = spec.get("loadBalancerSourceRanges") or ()
    if ranges and not balanced:
        errors.append(forbidden("spec.LoadBalancerSourceRanges", _ONLY_BALANCED))
    for index, entry in enumerate(ranges):
        errors += ip_range(entry.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED))
    if spec.get("loadBalancerClass") is not None:
        if not balanced:
            errors.append(forbidden("spec.loadBalancerClass", "may only be used when `type` is 'LoadBalancer'"))
        else:
            errors += qualified_name(spec["loadBalancerClass"], "spec.loadBalancerClass")
    return errors


def _traffic(spec: View) -> list[FieldError]:
    errors: list[FieldError] = []
    policy, at = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    if _is_external(spec):
        errors += one_of(policy, ("Cluster", "Local"), at)
    elif policy:
        errors.append(invalid(at, policy, "may only be set for externally-accessible services"))
    check = spec.get("healthCheckNodePort", 0)
    if check and not needs_health_check(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", check, text))
    internal = spec.get("internalTrafficPolicy")
    if internal is not None:
        errors += known(internal, ("Cluster", "Local"), "spec.internalTrafficPolicy")
    distribution = spec.get("trafficDistribution")
    if distribution is not None:
        choices = ("PreferClose", "PreferSameZone", "PreferSameNode")
        errors += known(distribution, choices, "spec.trafficDistribution", sort=False)
    return errors
