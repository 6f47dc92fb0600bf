"""Kinds that are stored with their defaults and few rules more."""

from base64 import b64decode

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, invalid, quote, required
from gpuaas.base.names import is_dns1035_label, is_dns1123_subdomain, is_path_segment


class Plain(Behaviour):
    """No rules and no generation: what most kinds without a status are."""

    generation = False


class PathNamed(Plain):
    """A kind whose names only have to fit into a URL."""

    name_messages = staticmethod(is_path_segment)


class GuardedPlain(Plain):
    unconditional_update = False


class CSIDriver(GuardedPlain):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            spec.setdefault(field, False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]


class APIService(Behaviour):
    generation = False
    name_messages = staticmethod(is_path_segment)

    def default(self, obj: Object) -> None:
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def validate(self, obj: View) -> list[FieldError]:
        spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name", "")
        group, version = spec.get("group", ""), spec.get("version", "")
        errors: list[FieldError] = []
        if name and name != f"{version}.{group}" and not is_path_segment(name):
            text = f'must be `spec.version+"."+spec.group`: {quote(f"{version}.{group}")}'
            errors.append(invalid("metadata.name", name, text))
        if not group and version != "v1":
            errors.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
        errors += [invalid("spec.group", group, text) for text in is_dns1123_subdomain(group) if group]
        errors += [invalid("spec.version", version, text) for text in is_dns1035_label(version)]
        for field, most in (("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)):
            if not 0 < spec.get(field, 0) <= most:
                errors.append(invalid(f"spec.{field}", spec.get(field, 0), f"must be positive and less than {most}"))
        return errors + (_elsewhere(spec) if spec.get("service") is not None else _here(spec))


def _here(spec: View) -> list[FieldError]:
    """Who is served by this very server needs no way to it."""
    errors: list[FieldError] = []
    if spec.get("caBundle"):
        size = f"{len(b64decode(spec['caBundle']))} bytes"
        errors.append(invalid("spec.caBundle", size, "local APIServices may not have a caBundle"))
    if spec.get("insecureSkipTLSVerify"):
        text = "local APIServices may not have insecureSkipTLSVerify"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return errors


def _elsewhere(spec: View) -> list[FieldError]:
    service = spec["service"]
    errors = [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port", 0)
    if not 0 < port < 65_536:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid("spec.service.port", port, text))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        errors.append(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return errors


class FlowSchema(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = 1000


class PriorityLevelConfiguration(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for kind, shares in (("exempt", 0), ("limited", 30)):
            if spec.get(kind) is not None:
                if spec[kind].get("nominalConcurrencyShares") is None:
                    spec[kind]["nominalConcurrencyShares"] = shares
                spec[kind].setdefault("lendablePercent", 0)
        queuing = ((spec.get("limited") or {}).get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for field, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                queuing[field] = queuing.get(field) or value
