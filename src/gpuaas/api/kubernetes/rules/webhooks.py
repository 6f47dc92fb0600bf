"""Who is asked about writes: webhook configurations, admission policies and their bindings.

What policies and webhooks say is asked of every write (the API server's modules policies and webhooks). A webhook that is
a service is kept and never called, since services have no address here, and who brings one is told so.
"""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import each, known, one_of, qualified_name
from gpuaas.api.metadata import View, validate_label_selector
from gpuaas.base.duplicates import duplicates
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, required, too_many
from gpuaas.base.names import is_dns1035_label, is_dns1123_subdomain, is_path_segment

_FAILURE: Final = ("Fail", "Ignore")
_MATCH: Final = ("Equivalent", "Exact")
_NO_EFFECTS: Final = ("None", "NoneOnDryRun")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_REVIEWS: Final = ("v1", "v1beta1")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_STATIC: Final = ".static.k8s.io"
_FORM: Final = "; desired format: https://host[/path]"
_MOST_CONDITIONS: Final = 64
_MOST_ANNOTATIONS: Final = 20
_LONGEST_EXPRESSION: Final = 5 * 1024  # bytes of what an annotation is computed by
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_CEL_WORDS: Final = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return", "var", "void", "while")
)  # fmt: skip
_NOT_CALLED: Final = "services have no address here: the webhook is kept and never called; one with a url instead is"


class _Registration(Behaviour):
    unconditional_update = False

    def warnings(self, obj: View, old: View | None) -> list[str]:
        if not (obj.get("metadata") or {}).get("name", "").endswith(_STATIC):
            return []
        text = "are reserved for static manifest-based configurations and cannot be managed via the API"
        return [f'metadata.name: names ending with "{_STATIC}" {text}']


class WebhookConfiguration(_Registration):
    def default(self, obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("timeoutSeconds", 10)
            _default_match(webhook)
            if obj.get("kind") == "MutatingWebhookConfiguration":
                webhook.setdefault("reinvocationPolicy", "Never")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")

    def validate(self, obj: View) -> list[FieldError]:
        errors: list[FieldError] = []
        names: set[str] = set()
        for webhook, at in each(obj, "webhooks", ""):
            errors += _webhook(webhook, at)
            errors += _reviews(webhook.get("admissionReviewVersions") or (), child(at, "admissionReviewVersions"))
            name = webhook.get("name", "")
            if name and name in names:
                errors.append(duplicate(child(at, "name"), name))
            names.add(name)
        return errors

    def warnings(self, obj: View, old: View | None) -> list[str]:
        told = super().warnings(obj, old)
        if old is not None and old.get("webhooks") == obj.get("webhooks"):
            return told
        for webhook, at in each(obj, "webhooks", ""):
            if (webhook.get("clientConfig") or {}).get("service"):
                told.append(f"{child(at, 'clientConfig', 'service')}: {_NOT_CALLED}")
        return told


def _webhook(webhook: View, path: str) -> list[FieldError]:
    errors = _full_name(webhook.get("name", ""), child(path, "name"))
    for rule, at in each(webhook, "rules", path):
        errors += _rule(rule, at)
    for key, allowed in (("failurePolicy", _FAILURE), ("matchPolicy", _MATCH)):
        errors += known(webhook[key], allowed, child(path, key)) if webhook.get(key) is not None else []
    effects, at = webhook.get("sideEffects"), child(path, "sideEffects")
    if effects is None:
        errors.append(required(at, f"must specify one of {', '.join(_NO_EFFECTS)}"))
    else:
        errors += known(effects, _NO_EFFECTS, at)
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(child(path, "timeoutSeconds"), seconds, text))
    for key in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(webhook.get(key), child(path, key))
    if webhook.get("reinvocationPolicy") is not None:
        errors += known(webhook["reinvocationPolicy"], ("IfNeeded", "Never"), child(path, "reinvocationPolicy"))
    errors += _client(webhook.get("clientConfig") or {}, child(path, "clientConfig"))
    return errors + _conditions(webhook, path)


def _full_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if wrong := is_dns1123_subdomain(name):
        return [invalid(path, name, ",".join(wrong))]
    few = "should be a domain with at least three segments separated by dots"
    return [] if name.count(".") >= 2 else [invalid(path, name, few)]


def _reviews(versions: Sequence[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(_REVIEWS)}")]
    errors: list[FieldError] = []
    again = {index for index, _ in duplicates(versions)}
    for index, version in enumerate(versions):
        at = f"{path}[{index}]"
        if index in again:
            errors.append(invalid(at, version, "duplicate version"))
            continue
        errors += [invalid(at, version, text) for text in is_dns1035_label(version)]
    if not set(versions).intersection(_REVIEWS):
        errors.append(invalid(path, list(versions), f"must include at least one of {', '.join(_REVIEWS)}"))
    return errors


def _client(config: View, path: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url(url, child(path, "url")) if url is not None else _service(service or {}, child(path, "service"))


def _url(text: str, path: str) -> list[FieldError]:
    try:
        parts = urlsplit(text)
    except ValueError as problem:
        return [required(path, f"url must be a valid URL: {problem}{_FORM}")]
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(invalid(path, "", f"host must be specified{_FORM}"))
    if user:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _service(service: View, path: str) -> list[FieldError]:
    # The field that is missing is named; Kubernetes confuses the two.
    errors = [required(child(path, key)) for key in ("name", "namespace") if not service.get(key)]
    port = service.get("port", 0)
    if not 1 <= port <= 65_535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(child(path, "port"), port, text))
    where = service.get("path") or "/"
    if where == "/":
        return errors
    at = child(path, "path")
    if where == "//":
        return [*errors, invalid(at, where, "segment[0] may not be empty")]
    if not where.startswith("/"):
        errors.append(invalid(at, where, "must start with a '/'"))
    for index, step in enumerate(where[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(at, where, f"segment[{index}] may not be empty"))
            continue
        errors += [invalid(at, where, f"segment[{index}]: {text}") for text in is_dns1123_subdomain(step)]
    return errors


def _rule(rule: View, path: str) -> list[FieldError]:
    operations, at = list(rule.get("operations") or ()), child(path, "operations")
    errors = [] if operations else [required(at)]
    if len(operations) > 1 and "*" in operations:
        errors.append(invalid(at, operations, "if '*' is present, must not specify other operations"))
    for index, operation in enumerate(operations):
        errors += known(operation, _OPERATIONS, f"{at}[{index}]")
    for key, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values, at = list(rule.get(key) or ()), child(path, key)
        if not values:
            errors.append(required(at))
        if len(values) > 1 and "*" in values:
            errors.append(invalid(at, values, f"if '*' is present, must not specify other {words}"))
        if key == "apiVersions":
            errors += [required(f"{at}[{index}]") for index, value in enumerate(values) if not value]
    errors += _resources(list(rule.get("resources") or ()), child(path, "resources"))
    return errors + (known(rule["scope"], _SCOPES, child(path, "scope")) if rule.get("scope") is not None else [])


def _resources(resources: list[str], path: str) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    below: set[str] = set()  # resources with all that is below them
    above: set[str] = set()  # subresources of everything
    plain = False
    for index, text in enumerate(resources):
        at = f"{path}[{index}]"
        if not text:
            errors.append(required(at))
            continue
        resource, slash, part = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in below:
            errors.append(invalid(at, text, f"if '{resource}/*' is present, must not specify {text}"))
        if part in above:
            errors.append(invalid(at, text, f"if '*/{part}' is present, must not specify {text}"))
        if part == "*":
            below.add(resource)
        if resource == "*":
            above.add(part)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def _conditions(owner: View, path: str) -> list[FieldError]:
    conditions = each(owner, "matchConditions", path)
    errors: list[FieldError] = []
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many(child(path, "matchConditions"), len(conditions), _MOST_CONDITIONS))
    names: set[str] = set()
    for condition, at in conditions:
        name = condition.get("name", "")
        if not condition.get("expression", "").strip():
            errors.append(required(child(at, "expression")))
        errors += qualified_name(name, child(at, "name")) if name else [required(child(at, "name"))]
        if name and name in names:
            errors.append(duplicate(child(at, "name"), name))
        names.add(name)
    return errors


class AdmissionPolicy(_Registration):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        _default_resources(spec.get("matchConstraints"))

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = known(spec.get("failurePolicy", ""), _FAILURE, "spec.failurePolicy")
        constraints, at = spec.get("matchConstraints"), "spec.matchConstraints"
        if spec.get("paramKind") is not None:
            errors += _parameter_kind(spec["paramKind"], "spec.paramKind")
        if constraints is None:
            errors.append(required(at))
        else:
            errors += _matched(constraints, at)
            if not constraints.get("resourceRules"):
                errors.append(required(f"{at}.resourceRules"))
        errors += _conditions(spec, "spec")
        for variable, place in each(spec, "variables", "spec"):
            errors += _variable(variable, place)
        if obj.get("kind") != "ValidatingAdmissionPolicy":
            return errors
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must contain at least one item"
            return errors + [required(f"spec.{key}", text) for key in ("validations", "auditAnnotations")]
        for validation, at in each(spec, "validations", "spec"):
            errors += _validation(validation, at)
        return errors + _annotations(spec, (obj.get("metadata") or {}).get("name", ""))


def _variable(variable: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = variable.get("name", "")
    if not name.strip():
        errors.append(required(child(path, "name"), "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or name in _CEL_WORDS:
        errors.append(invalid(child(path, "name"), name, "must be a valid CEL identifier"))
    if not variable.get("expression", "").strip():
        errors.append(required(child(path, "expression"), "expression is not specified"))
    return errors


def _annotations(spec: View, policy: str) -> list[FieldError]:
    """What is noted in the audit log, under the name of the policy."""
    errors: list[FieldError] = []
    said = list(each(spec, "auditAnnotations", "spec"))
    if len(said) > _MOST_ANNOTATIONS:
        text = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", spec["auditAnnotations"], text))
    keys: set[str] = set()
    for annotation, at in said:
        key, text = annotation.get("key", ""), annotation.get("valueExpression", "").strip()
        errors += qualified_name(f"{policy}/{key}", child(at, "key"))
        if not text:
            errors.append(required(child(at, "valueExpression"), "valueExpression is not specified"))
        elif len(text.encode()) > _LONGEST_EXPRESSION:
            too_much = f"must not exceed {_LONGEST_EXPRESSION} bytes in length"
            errors.append(required(child(at, "valueExpression"), too_much))
        if key in keys:
            errors.append(duplicate(child(at, "key"), key))
        keys.add(key)
    return errors


def _validation(validation: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not validation.get("expression", "").strip():
        errors.append(required(child(path, "expression"), "expression is not specified"))
    for key in ("messageExpression", "message"):
        text = validation.get(key, "")
        if text and not text.strip():
            errors.append(invalid(child(path, key), text, "must be non-empty if specified"))
        elif key == "message" and any(mark in text.strip() for mark in "\n\r"):
            errors.append(invalid(child(path, key), text, "must not contain line breaks"))
    if validation.get("reason") is not None:
        errors += known(validation["reason"], _REASONS, child(path, "reason"))
    return errors


def _parameter_kind(kind: View, path: str) -> list[FieldError]:
    version, name, at = kind.get("apiVersion", ""), kind.get("kind", ""), child(path, "apiVersion")
    errors: list[FieldError] = []
    if not version:
        errors.append(required(at))
    elif version.count("/") > 1:
        errors.append(invalid(at, version, f"unexpected GroupVersion string: {version}"))
    else:
        group, _, last = version.rpartition("/")
        if group and (wrong := is_dns1123_subdomain(group)):
            errors.append(invalid(at, group, ",".join(wrong)))
        if not last:
            errors.append(invalid(at, version, "version must be specified"))
        elif wrong := is_dns1035_label(last):
            errors.append(invalid(at, last, ",".join(wrong)))
    if not name:
        errors.append(required(child(path, "kind")))
    elif wrong := is_dns1035_label(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.append(invalid(child(path, "kind"), name, text))
    return errors


def _matched(resources: View, path: str) -> list[FieldError]:
    errors = known(resources.get("matchPolicy", ""), _MATCH, child(path, "matchPolicy"))
    for key in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(resources.get(key), child(path, key))
    for key in ("resourceRules", "excludeResourceRules"):
        for rule, at in each(resources, key, path):
            names = rule.get("resourceNames") or ()
            again = {index for index, _ in duplicates(names)}
            for index, name in enumerate(names):
                where = child(at, "resourceNames", index)
                errors += [invalid(where, name, text) for text in is_path_segment(name)]
                if index in again:
                    errors.append(duplicate(where, name))
            errors += _rule(rule, at)
    return errors


class AdmissionPolicyBinding(_Registration):
    def default(self, obj: Object) -> None:
        _default_resources((obj.get("spec") or {}).get("matchResources"))

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        name = spec.get("policyName", "")
        if name:
            errors = [invalid("spec.policyName", name, text) for text in is_dns1123_subdomain(name)]
        else:
            errors = [required("spec.policyName")]
        errors += _parameters(spec.get("paramRef"), "spec.paramRef")
        if spec.get("matchResources") is not None:
            errors += _matched(spec["matchResources"], "spec.matchResources")
        if obj.get("kind") == "ValidatingAdmissionPolicyBinding":
            errors += _actions(list(spec.get("validationActions") or ()), "spec.validationActions")
        return errors


def _parameters(reference: View | None, path: str) -> list[FieldError]:
    if reference is None:
        return []
    name, selector = reference.get("name", ""), reference.get("selector")
    both = bool(name) and selector is not None
    text = "name and selector are mutually exclusive"
    errors = [invalid(child(path, "name"), name, message) for message in is_path_segment(name)] if name else []
    errors += [forbidden(child(path, "name"), text)] if both else []
    errors += validate_label_selector(selector, child(path, "selector"))
    errors += [forbidden(child(path, "selector"), text)] if both else []
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    return errors + one_of(action, ("Deny", "Allow"), child(path, "parameterNotFoundAction"), sort=False)


def _actions(actions: list[Any], path: str) -> list[FieldError]:
    if not actions:
        return [required(path, "at least one validation action is required")]
    errors: list[FieldError] = []
    again = {index for index, _ in duplicates(actions)}
    for index, action in enumerate(actions):
        errors += known(action, ("Audit", "Deny", "Warn"), f"{path}[{index}]")
        if index in again:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API"
            " response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, text))
    return errors


def _default_match(part: Object) -> None:
    part.setdefault("matchPolicy", "Equivalent")
    part.setdefault("namespaceSelector", {})
    part.setdefault("objectSelector", {})


def _default_resources(resources: Object | None) -> None:
    if resources is None:
        return
    _default_match(resources)
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in resources.get(field) or ():
            rule.setdefault("scope", "*")
