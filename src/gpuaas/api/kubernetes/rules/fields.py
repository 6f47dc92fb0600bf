"""References from a container or a volume to fields and resources of the pod itself (the downward API)."""

import re
from typing import Final

from gpuaas.api.kubernetes.rules.checks import known, qualified_name
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, invalid, required
from gpuaas.base.quantity import parse_quantity

_OF_FILES: Final = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_OF_VARIABLES: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
# What the server can turn into a field of its own, whether or not it is allowed in this place.
_KNOWN: Final = {*_OF_FILES, *_OF_VARIABLES, "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"}
_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_SUBSCRIPT: Final = re.compile(r"(.*)\['(.*)'\]")
_SIZES: Final = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


def file_reference(item: View, path: str) -> list[FieldError]:
    """A file of a downward API volume: exactly one of a field and a resource."""
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        errors = field_reference(field, _OF_FILES, child(path, "fieldRef"))
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", text))
        return errors
    if resource is not None:
        return resource_reference(resource, child(path, "resourceFieldRef"), needs_container=True)
    return [required(path, "one of fieldRef and resourceFieldRef is required")]


def variable_reference(field: View, path: str) -> list[FieldError]:
    return field_reference(field, _OF_VARIABLES, path)


def field_reference(field: View, allowed: tuple[str, ...], path: str) -> list[FieldError]:
    for key in ("apiVersion", "fieldPath"):
        if not field.get(key):
            return [required(child(path, key))]
    name, at = field["fieldPath"], child(path, "fieldPath")
    if field["apiVersion"] != "v1":
        return [invalid(at, name, f"error converting fieldPath: unsupported pod version: {field['apiVersion']}")]
    subscript = _SUBSCRIPT.fullmatch(name)
    if subscript:
        match subscript[1]:
            case "metadata.annotations":
                return qualified_name(subscript[2].lower(), path)
            case "metadata.labels":
                return qualified_name(subscript[2], path)
            case _:
                return [
                    invalid(at, name, f"error converting fieldPath: field label does not support subscript: {name}")
                ]
    if name not in _KNOWN:
        return [invalid(at, name, f"error converting fieldPath: field label not supported: {name}")]
    return known(name, allowed, at)


def resource_reference(reference: View, path: str, *, needs_container: bool) -> list[FieldError]:
    resource = reference.get("resource", "")
    errors: list[FieldError] = []
    if needs_container and not reference.get("containerName"):
        errors.append(required(child(path, "containerName")))
    elif not resource:
        errors.append(required(child(path, "resource")))
    elif not resource.startswith(("requests.hugepages-", "limits.hugepages-")):
        errors += known(resource, _RESOURCES, child(path, "resource"))
    return errors + _divisor(resource, reference, path)


def _divisor(resource: str, reference: View, path: str) -> list[FieldError]:
    divisor = parse_quantity(reference.get("divisor", "0"))
    if divisor.nano == 0:
        return []
    kind = resource.partition(".")[2]
    at = child(path, "divisor")
    if kind == "cpu":
        text = "only divisor's values 1m and 1 are supported with the cpu resource"
        return [] if str(divisor) in ("1m", "1") else [invalid(at, resource, text)]
    names = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
    name = "hugepages" if kind.startswith("hugepages-") else names.get(kind)
    if name is None or str(divisor) in _SIZES.split(", "):
        return []
    return [invalid(at, resource, f"only divisor's values {_SIZES} are supported with the {name} resource")]
