"""Devices asked for by what they are: claims, templates of claims, classes of devices, and the slices that offer them.

Whether a namespace may have access as an administrator is the namespace's label to say, so the server asks there.
Selectors' expressions are kept as they are: they are not compiled here.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import dns_label, each, known, positive, qualified_name, unchanged
from gpuaas.api.metadata import View, label_messages, validate_annotations, validate_labels
from gpuaas.base.duplicates import duplicates
from gpuaas.base.fielderrors import (
    FieldError,
    child,
    duplicate,
    forbidden,
    invalid,
    keyed,
    required,
    too_long,
    too_many,
)
from gpuaas.base.names import is_dns1123_subdomain

ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_MOST: Final = 32  # requests, constraints, configurations, selectors
_MOST_ALTERNATIVES: Final = 8
_MOST_DEVICES: Final = 128
_LONGEST_POOL: Final = 253
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_NO_IDENTIFIER: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or"
    f" '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER}')"
)
_VALUES: Final = ("int", "bool", "string", "version")
_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


class ResourceClaim(Behaviour):
    generation = False

    def default(self, obj: Object) -> None:
        default_device_requests(obj.get("spec") or {})

    def validate(self, obj: View) -> list[FieldError]:
        return _claim(obj.get("spec") or {}, "spec")

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        return unchanged(obj.get("spec"), old.get("spec"), "spec")


class ResourceClaimTemplate(Behaviour):
    generation = False

    def default(self, obj: Object) -> None:
        default_device_requests((obj.get("spec") or {}).get("spec") or {})

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        metadata = spec.get("metadata") or {}
        errors = validate_labels(metadata.get("labels"), "spec.metadata.labels")
        errors += validate_annotations(metadata.get("annotations"), "spec.metadata.annotations")
        return errors + _claim(spec.get("spec") or {}, "spec.spec")

    def check_update(self, obj: View, old: View) -> list[FieldError]:
        return unchanged(obj.get("spec"), old.get("spec"), "spec")


class DeviceClass(Behaviour):
    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _selectors(spec, "spec")
        for config, at in each(spec, "config", "spec"):
            errors += _opaque(config, at)
        if spec.get("extendedResourceName") is not None:
            errors += _extended(spec["extendedResourceName"], "spec.extendedResourceName")
        return errors


class ResourceSlice(Behaviour):
    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        pool = spec.get("pool") or {}
        errors = _driver(spec.get("driver", ""), "spec.driver") + _pool(pool, "spec.pool")
        if spec.get("nodeName") == "":
            text = "must be either unset or set to a non-empty string"
            errors.append(invalid("spec.nodeName", "", text))
        elif spec.get("nodeName"):
            name = spec["nodeName"]
            errors += [invalid("spec.nodeName", name, text) for text in is_dns1123_subdomain(name)]
        said = [place for place in _PLACES if spec.get(place)]
        text = f"exactly one of {', '.join(f'`{place}`' for place in _PLACES)} is required"
        if not said:
            errors.append(required("spec", text))
        elif len(said) > 1:
            shown = "{" + ", ".join(f"`{place}`" for place in said) + "}"
            errors.append(invalid("spec", shown, f"{text}, but multiple fields are set"))
        devices = each(spec, "devices", "spec")
        if len(devices) > _MOST_DEVICES:
            errors.append(too_many("spec.devices", len(devices), _MOST_DEVICES))
        for device, at in devices:
            errors += _device(device, at)
        return errors + _repeated([device.get("name", "") for device, _ in devices], "spec.devices")

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors = [error for key in ("driver", "nodeName") for error in _kept(spec, before, key)]
        new, was = ((view.get("pool") or {}).get("name") for view in (spec, before))
        return errors + unchanged(new, was, "spec.pool.name")


def default_device_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        asked = [request["exactly"]] if request.get("exactly") is not None else []
        for part in [*asked, *(request.get("firstAvailable") or ())]:
            if not part.get("allocationMode"):
                part["allocationMode"] = "ExactCount"
            if part["allocationMode"] == "ExactCount" and not part.get("count"):
                part["count"] = 1
            for toleration in part.get("tolerations") or ():
                if not toleration.get("operator"):
                    toleration["operator"] = "Equal"


def admin_requests(obj: View) -> list[str]:
    """Where a claim, or that of a template, asks for access as an administrator."""
    spec = obj.get("spec") or {}
    if obj.get("kind") == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    requests = each(spec.get("devices") or {}, "requests", "spec.devices")
    return [f"{at}.adminAccess" for request, at in requests if (request.get("exactly") or {}).get("adminAccess")]


def admin_forbidden(path: str) -> FieldError:
    text = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
    return forbidden(path, text)


def _kept(spec: View, before: View, key: str) -> list[FieldError]:
    return unchanged(spec.get(key), before.get(key), f"spec.{key}")


def _claim(spec: View, path: str) -> list[FieldError]:
    devices, path = spec.get("devices") or {}, child(path, "devices")
    names: dict[str, set[str]] = {}
    for request in devices.get("requests") or ():
        names[request.get("name", "")] = {part.get("name", "") for part in request.get("firstAvailable") or ()}
    errors: list[FieldError] = []
    for key in ("requests", "constraints", "config"):
        count = len(devices.get(key) or ())
        if count > _MOST:
            errors.append(too_many(child(path, key), count, _MOST))
    for request, at in each(devices, "requests", path):
        errors += _request(request, at)
    errors += _repeated([request.get("name", "") for request in devices.get("requests") or ()], f"{path}.requests")
    for constraint, at in each(devices, "constraints", path):
        errors += _references(constraint, names, at) + _constraint(constraint, at)
    for config, at in each(devices, "config", path):
        errors += _references(config, names, at) + _opaque(config, at)
    return errors


def _repeated(names: Sequence[str], path: str) -> list[FieldError]:
    return [duplicate(f"{path}[{index}]", name) for index, name in duplicates(names)]


def _request(request: View, path: str) -> list[FieldError]:
    errors = dns_label(request.get("name", ""), child(path, "name"))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        return [*errors, required(path, text)]
    if exactly is not None and alternatives:
        return [*errors, invalid(path, None, f"{text}, but multiple fields are set")]
    if exactly is not None:
        return errors + _asked(exactly, child(path, "exactly"))
    if len(alternatives or ()) > _MOST_ALTERNATIVES:
        errors.append(too_many(child(path, "firstAvailable"), len(alternatives or ()), _MOST_ALTERNATIVES))
    for part, at in each(request, "firstAvailable", path):
        errors += dns_label(part.get("name", ""), child(at, "name")) + _asked(part, at)
    return errors + _repeated([part.get("name", "") for part in alternatives or ()], child(path, "firstAvailable"))


def _asked(asked: View, path: str) -> list[FieldError]:
    name, mode, count = asked.get("deviceClassName", ""), asked.get("allocationMode", ""), asked.get("count", 0)
    at = child(path, "deviceClassName")
    errors = [invalid(at, name, text) for text in is_dns1123_subdomain(name)] if name else [required(at)]
    errors += _selectors(asked, path)
    match mode:
        case "All":
            text = "must not be specified when allocationMode is 'All'"
            errors += [invalid(child(path, "count"), count, text)] if count else []
        case "ExactCount":
            errors += positive(count, child(path, "count"))
        case _:
            errors += known(mode, ("All", "ExactCount"), child(path, "allocationMode"))
    for toleration, at in each(asked, "tolerations", path):
        errors += _toleration(toleration, at)
    return errors


def _toleration(toleration: View, path: str) -> list[FieldError]:
    key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
    errors = qualified_name(key, child(path, "key")) if key else []
    match operator:
        case "Exists" if value:
            text = "must be empty for operator `Exists`"
            errors.append(invalid(child(path, "value"), value, text))
        case "Equal":
            errors += [invalid(child(path, "value"), value, text) for text in label_messages(value)]
        case "Exists":
            pass
        case _:
            errors += known(operator, ("Equal", "Exists"), child(path, "operator"))
    if toleration.get("effect"):
        errors += known(toleration["effect"], ("NoExecute", "NoSchedule", "None"), child(path, "effect"))
    return errors


def _selectors(owner: View, path: str) -> list[FieldError]:
    selectors = each(owner, "selectors", path)
    errors = [too_many(child(path, "selectors"), len(selectors), _MOST)] if len(selectors) > _MOST else []
    for selector, at in selectors:
        cel = selector.get("cel")
        if cel is None:
            errors.append(required(child(at, "cel")))
        elif len(cel.get("expression", "").encode()) > 10 * 1024:
            errors.append(too_long(child(at, "cel", "expression"), 10 * 1024))
    return errors


def _references(owner: View, names: dict[str, set[str]], path: str) -> list[FieldError]:
    """Names of requests, or of a request and one of its alternatives."""
    errors: list[FieldError] = []
    said = owner.get("requests") or ()
    for index, name in enumerate(said):
        at = child(path, "requests", index)
        request, slash, part = name.partition("/")
        if "/" in part:
            errors.append(invalid(at, name, _NO_REQUEST))
            continue
        errors += [error for piece in name.split("/") for error in dns_label(piece, at)]
        if request not in names or (slash and part not in names[request]):
            errors.append(invalid(at, name, _NO_REQUEST))
    return errors + _repeated(said, child(path, "requests"))


def _constraint(constraint: View, path: str) -> list[FieldError]:
    for key in ("matchAttribute", "distinctAttribute"):
        if constraint.get(key) is not None:
            return _attribute(constraint[key], child(path, key))
    text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [required(path, text)]


def _attribute(name: str, path: str) -> list[FieldError]:
    """The name of an attribute with its domain."""
    domain, _, identifier = name.rpartition("/")
    errors = [invalid(path, domain, text) for text in is_dns1123_subdomain(domain)] if domain else []
    errors += [] if re.fullmatch(_IDENTIFIER, identifier) else [invalid(path, identifier, _NO_IDENTIFIER)]
    text = "a fully qualified name must be a domain and a name separated by a slash"
    return errors if domain else [*errors, invalid(path, name, text)]


def _opaque(config: View, path: str) -> list[FieldError]:
    opaque, at = config.get("opaque"), child(path, "opaque")
    if opaque is None:
        return [required(at)]
    errors = _driver(opaque.get("driver", ""), child(at, "driver"))
    return errors if opaque.get("parameters") is not None else [*errors, required(child(at, "parameters"))]


def _driver(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    errors = [too_long(path, 63)] if len(name) > 63 else []
    return errors + [invalid(path, name, text) for text in is_dns1123_subdomain(name.lower())]


def _pool(pool: View, path: str) -> list[FieldError]:
    name = pool.get("name", "")
    errors = [] if name else [required(child(path, "name"))]
    if len(name) > _LONGEST_POOL:
        return [*errors, too_long(child(path, "name"), _LONGEST_POOL)]
    for part in name.split("/") if name else ():
        errors += [invalid(child(path, "name"), part, text) for text in is_dns1123_subdomain(part)]
    errors += positive(pool.get("resourceSliceCount", 0), child(path, "resourceSliceCount"))
    generation = pool.get("generation", 0)
    text = "must be greater than or equal to zero"
    return errors + ([invalid(child(path, "generation"), generation, text)] if generation < 0 else [])


def _device(device: View, path: str) -> list[FieldError]:
    errors = dns_label(device.get("name", ""), child(path, "name"))
    for name, value in (device.get("attributes") or {}).items():
        at = keyed(child(path, "attributes"), name)
        errors += _attribute_value(value or {}, at)
    return errors


def _attribute_value(value: View, path: str) -> list[FieldError]:
    said = [key for key in _VALUES if value.get(key) is not None]
    if len(said) != 1:
        shown: Any = "" if not said else dict(value)
        return [invalid(path, shown, "exactly one value must be specified")]
    text = value.get("string") or value.get("version") or ""
    at = child(path, said[0])
    errors = [too_long(at, 64)] if len(text.encode()) > 64 else []
    if said == ["version"] and not _SEMVER.fullmatch(value["version"]):
        errors.append(invalid(at, value["version"], "must be a string compatible with semver.org spec 2.0.0"))
    return errors


def _extended(name: str, path: str) -> list[FieldError]:
    if "/" not in name or name.startswith("kubernetes.io/") or ".kubernetes.io/" in name:
        return [invalid(path, name, "must be a valid extended resource name")]
    return qualified_name(name, path)
