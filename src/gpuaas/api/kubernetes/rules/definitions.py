"""CustomResourceDefinitions: names, versions, columns and subresources. Their schemas are checked by the machinery.

Where all versions say the same, the real server speaks of `spec.additionalPrinterColumns` and `spec.subresources`
(and, for schemas, of `spec.validation.openAPIV3Schema`) instead of the version; `shared_path` knows when.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import each, one_of, unchanged
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, quote, required
from gpuaas.base.names import is_dns1035_label, is_dns1123_subdomain

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MIXED_CASE: Final = "may have mixed case, but should otherwise match: "
_WEBHOOK_ONLY: Final = "should not be set when strategy is not set to Webhook"
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")
_APPROVED: Final = "api-approved.kubernetes.io"
_WITH_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s]+([/?#]\S*)?$")  # a URL that says where it leads


class CustomResourceDefinition(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = names.get("kind", "")
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if kind and not names.get("listKind"):
            names["listKind"] = f"{kind}List"
        conversion = spec.setdefault("conversion", {"strategy": "None"})
        service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)
        _stored_version(obj)

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
        _stored_version(obj)

    def prepare_update(self, obj: Object, old: View) -> None:
        obj["status"] = dict(old.get("status") or {})
        _stored_version(obj)

    def validate(self, obj: View) -> list[FieldError]:
        spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name", "")
        errors: list[FieldError] = []
        group, names = spec.get("group", ""), spec.get("names") or {}
        if name != f"{names.get('plural', '')}.{group}":
            errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
        errors += _group(group)
        errors += one_of(spec.get("scope"), ("Cluster", "Namespaced"), "spec.scope", sort=False)
        errors += _versions(spec)
        errors += _names(names)
        errors += _conversion(spec.get("conversion") or {})
        if spec.get("preserveUnknownFields"):
            text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
            errors.append(invalid("spec.preserveUnknownFields", True, text))
        errors += _stored(obj)
        return errors + _approval(obj, group)

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        conditions = (old.get("status") or {}).get("conditions") or ()
        if not any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions):
            return []
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors: list[FieldError] = []
        for field in ("group", "scope"):
            errors += unchanged(spec.get(field), before.get(field), f"spec.{field}")
        for field in ("plural", "kind"):
            new, was = ((s.get("names") or {}).get(field) for s in (spec, before))
            errors += unchanged(new, was, f"spec.names.{field}")
        return errors


def shared_path(versions: Sequence[View], key: str, index: int) -> str:
    """Where the real server says a version's `key` is: at the top when all versions agree."""
    first = versions[0].get(key) if versions else None
    if all(version.get(key) == first for version in versions):
        return "spec"
    return f"spec.versions[{index}]"


def _stored_version(obj: Object) -> None:
    """The storage version belongs to the versions that objects were ever stored in."""
    for version in (obj.get("spec") or {}).get("versions") or ():
        if version.get("storage"):
            status = obj.get("status") or {}
            stored = status.get("storedVersions") or []
            if version.get("name") not in stored:
                obj["status"] = {**status, "storedVersions": [*stored, version.get("name", "")]}
            return


def _group(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    messages = is_dns1123_subdomain(group)
    if messages:
        return [invalid("spec.group", group, ",".join(messages))]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _versions(spec: View) -> list[FieldError]:
    versions: Sequence[View] = spec.get("versions") or ()
    errors: list[FieldError] = []
    for version, at in each(spec, "versions", "spec"):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            errors.append(required(child(at, "schema", "openAPIV3Schema")))
    shared: list[FieldError] = []
    for index, (version, at) in enumerate(each(spec, "versions", "spec")):
        messages = is_dns1035_label(version.get("name", ""))
        if messages:
            errors.append(invalid(child(at, "name"), version.get("name", ""), ",".join(messages)))
        errors += _deprecation(version, at)
        columns = _columns(version, shared_path(versions, "additionalPrinterColumns", index))
        parts = _subresources(version, shared_path(versions, "subresources", index))
        (shared if _is_top(parts) else errors).extend(parts)
        (shared if _is_top(columns) else errors).extend(columns)
    names = [version.get("name", "") for version in versions]
    if len(set(names)) != len(names):
        errors.append(invalid("spec.versions", _shown(versions), "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", _shown(versions), text))
    messages = is_dns1035_label(names[0]) if names else []
    if messages:  # the first version has an old name too
        errors.append(invalid("spec.version", names[0], ",".join(messages)))
    return errors + list(dict.fromkeys(shared))


def _is_top(errors: list[FieldError]) -> bool:
    return bool(errors) and not errors[0].path.startswith("spec.versions")


def _shown(versions: Sequence[View]) -> list[dict[str, Any]] | None:
    """The versions as messages show them: with Go's names, without what they have in common."""
    return [
        {
            "Name": version.get("name", ""),
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": None,
            "Subresources": None,
            "AdditionalPrinterColumns": None,
            "SelectableFields": None,
        }
        for version in versions
    ] or None


def _deprecation(version: View, path: str) -> list[FieldError]:
    warning, at = version.get("deprecationWarning"), child(path, "deprecationWarning")
    if warning is None:
        return []
    errors: list[FieldError] = []
    if not version.get("deprecated"):
        errors.append(invalid(at, warning, "can only be set for deprecated versions"))
    if not warning:
        errors.append(invalid(at, warning, "must not be an empty string"))
    if len(warning) > 256:
        errors.append(invalid(at, warning, "must be <= 256 characters long"))
    return errors


def _subresources(version: View, path: str) -> list[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        at, value = f"{path}.subresources.scale.{field}", scale.get(field, "")
        if not value:
            errors.append(required(at))
        elif not value.startswith(root):
            errors.append(invalid(at, value, f"should be a json path under {root[:-1]}"))
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        at = f"{path}.subresources.scale.labelSelectorPath"
        errors.append(invalid(at, selector, "should be a json path under either .spec or .status"))
    return errors


def _columns(version: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for column, at in each(version, "additionalPrinterColumns", path):
        kind, form, json_path = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
        types = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("name"):
            errors.append(required(child(at, "name")))
        if not kind:
            errors.append(required(child(at, "type"), types))
        elif kind not in _COLUMN_TYPES:
            errors.append(invalid(child(at, "type"), kind, types))
        if form and form not in _COLUMN_FORMATS:
            errors.append(invalid(child(at, "format"), form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        if not json_path:
            errors.append(required(child(at, "JSONPath")))
        elif not json_path.startswith("."):
            errors.append(invalid(child(at, "JSONPath"), json_path, "must be a simple json path starting with ."))
    return errors


def _names(names: View) -> list[FieldError]:
    errors = [
        required(f"spec.names.{field}") for field in ("plural", "singular", "kind", "listKind") if not names.get(field)
    ]
    for field in ("plural", "singular"):
        messages = is_dns1035_label(names.get(field) or "a")
        if messages:
            errors.append(invalid(f"spec.names.{field}", names[field], ",".join(messages)))
    for field in ("kind", "listKind"):
        messages = is_dns1035_label((names.get(field) or "a").lower())
        if messages:
            errors.append(invalid(f"spec.names.{field}", names[field], _MIXED_CASE + ",".join(messages)))
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            messages = is_dns1035_label(name)
            if messages:
                errors.append(invalid(f"spec.names.{field}[{index}]", name, ",".join(messages)))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        errors.append(invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same"))
    return errors


def _conversion(conversion: View) -> list[FieldError]:
    at, strategy = "spec.conversion", conversion.get("strategy", "")
    errors = one_of(strategy, ("None", "Webhook"), f"{at}.strategy")
    webhook = conversion.get("webhook") or {}
    config = webhook.get("clientConfig")
    if strategy != "Webhook":
        if config is not None:
            errors.append(forbidden(f"{at}.webhookClientConfig", _WEBHOOK_ONLY))
        return errors
    if config is None:
        errors.append(required(f"{at}.webhookClientConfig", "required when strategy is set to Webhook"))
    elif (config.get("url") is None) == (config.get("service") is None):
        errors.append(required(f"{at}.webhookClientConfig", "exactly one of url or service is required"))
    if not webhook.get("conversionReviewVersions"):
        errors.append(required(f"{at}.conversionReviewVersions"))
    return errors


def _stored(obj: View) -> list[FieldError]:
    at = "status.storedVersions"
    stored = list((obj.get("status") or {}).get("storedVersions") or ())
    if not stored:
        return [invalid(at, None, "must have at least one stored version")]
    errors: list[FieldError] = []
    left = dict.fromkeys(stored)  # those not met yet: a version that comes twice is missed the second time
    for version in (obj.get("spec") or {}).get("versions") or ():
        name = version.get("name", "")
        if version.get("storage") and name not in left:
            errors.append(invalid(at, stored, f"must have the storage version {name}"))
        left.pop(name, None)
    return errors + [
        invalid(
            child(at, index),
            version,
            f"missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions"
            f" until a storage migration ensures no data remains persisted in {version} and removes {version} from"
            " status.storedVersions",
        )
        for index, version in enumerate(stored)
        if version in left
    ]


def _approval(obj: View, group: str) -> list[FieldError]:
    state = approval(obj, group)
    if state is None or state[1] in ("ApprovedAnnotation", "UnapprovedAnnotation"):
        return []
    at = f"metadata.annotations[{_APPROVED}]"
    value = _annotation(obj)
    return [invalid(at, value, state[2])] if value else [required(at, state[2])]


def approval(obj: View, group: str) -> tuple[str, str, str] | None:
    """Groups under k8s.io belong to Kubernetes: a definition there names its approval. Status, reason and
    message of the condition for that approval; None for all other groups."""
    if not f".{group}".endswith(_PROTECTED):
        return None
    value = _annotation(obj)
    wanted = f'protected groups must have approval annotation "{_APPROVED}"'
    where = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not value:
        return "False", "MissingAnnotation", f"{wanted}, {where}"
    if value.startswith("unapproved"):
        return "False", "UnapprovedAnnotation", f"not approved: {quote(value)}"
    if _WITH_HOST.match(value):
        return "True", "ApprovedAnnotation", f"approved in {value}"
    return "False", "InvalidAnnotation", f'{wanted} with either a URL or a reason starting with "unapproved", {where}'


def _annotation(obj: View) -> str:
    said: str = ((obj.get("metadata") or {}).get("annotations") or {}).get(_APPROVED) or ""
    return said
