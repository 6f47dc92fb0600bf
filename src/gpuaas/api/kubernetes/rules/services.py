"""Services: their defaults, and a cluster IP that stays once it was given.

Nothing is routed here, so addresses, ports and traffic policies are stored as the schema allows. `wants_cluster_ip` says
whether an accepted service still lacks an address; `give_cluster_ip` fills it in.
"""

from collections.abc import Mapping
from typing import Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import each, one_of, port_number
from gpuaas.api.metadata import View, validate_labels
from gpuaas.base.fielderrors import FieldError, child, duplicate, invalid, required
from gpuaas.base.names import is_dns1123_label

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_ADDRESS: Final = ("ClusterIP", "NodePort", "LoadBalancer")
_EXTERNAL: Final = ("NodePort", "LoadBalancer")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_NONE: Final = "None"
_NO_PORT: Final = {"Name": "", "Protocol": "", "AppProtocol": None, "Port": 0, "TargetPort": 0, "NodePort": 0}


class Service(Behaviour):
    allow_create_on_update = True
    generation = False
    name_messages = staticmethod(is_dns1123_label)
    field_selectors = ("spec.clusterIP", "spec.type")

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        if spec["sessionAffinity"] == "ClientIP":
            spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10_800}})
        elif spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if spec["type"] in _EXTERNAL and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if spec["type"] in _WITH_ADDRESS:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        obj.setdefault("status", {}).setdefault("loadBalancer", {})

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}
        if obj["spec"]["type"] in _WITH_ADDRESS:
            _default_families(obj["spec"])

    def prepare_update(self, obj: Object, old: View) -> None:
        """An update that does not name the address keeps it, unless the new type has none."""
        spec, before = obj["spec"], old.get("spec") or {}
        if before.get("type") not in _WITH_ADDRESS:
            return
        for field in ("clusterIP", "clusterIPs"):
            if spec["type"] not in _WITH_ADDRESS:
                spec.pop(field, None)
            elif not spec.get(field) and before.get(field):
                spec[field] = before[field]
        if spec.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]  # a patch that changes only the one field means both
        if spec["type"] in _WITH_ADDRESS:
            _default_families(spec)

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        if not spec.get("ports") and spec.get("type") != "ExternalName" and spec.get("clusterIP") != _NONE:
            errors.append(required("spec.ports"))
        names: set[str] = set()
        numbers: set[tuple[str, int]] = set()
        for port, at in each(spec, "ports", "spec"):
            name = port.get("name", "")
            if len(spec["ports"]) > 1 and not name:
                errors.append(required(child(at, "name")))
            elif name in names:
                errors.append(duplicate(child(at, "name"), name))
            names.add(name)
            number = port.get("protocol", ""), port.get("port", 0)
            errors += port_number(number[1], child(at, "port"))
            errors += one_of(number[0], _PROTOCOLS, child(at, "protocol"))
            if number in numbers:
                errors.append(duplicate(at, {**_NO_PORT, "Protocol": number[0], "Port": number[1]}))
            numbers.add(number)
        errors += validate_labels(spec.get("selector"), "spec.selector")
        errors += one_of(spec.get("sessionAffinity"), ("ClientIP", "None"), "spec.sessionAffinity")
        return errors + one_of(spec.get("type"), _TYPES, "spec.type")

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        new, had = (((one.get("spec") or {}).get("clusterIPs") or [""])[0] for one in (obj, old))
        if not had or not new or new == had:
            return []
        return [invalid("spec.clusterIPs[0]", [new], "may not change once set")]

    def fields(self, obj: View) -> Mapping[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def wants_cluster_ip(service: View) -> bool:
    spec = service.get("spec") or {}
    return spec.get("type") in _WITH_ADDRESS and not spec.get("clusterIP")


def give_cluster_ip(service: Object, address: str) -> None:
    service["spec"]["clusterIP"] = address
    service["spec"]["clusterIPs"] = [address]


def _default_families(spec: Object) -> None:
    """One stack, IPv4. A headless service without a selector could be anything, so it asks for both."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    both = spec.get("clusterIP") == _NONE and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "RequireDualStack" if both else "SingleStack"
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if both else ["IPv6" if ":" in spec.get("clusterIP", "") else "IPv4"]
