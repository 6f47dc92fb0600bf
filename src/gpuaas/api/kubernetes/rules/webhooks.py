"""Who is asked about writes: webhook configurations, admission policies and their bindings.

What policies and webhooks say is asked of every write (the API server's modules policies and webhooks). A webhook that is
a service is kept and never called, since services have no address here, and its author gets a warning.
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
        warnings = super().warnings(obj, old)
        if old is not None and old.get("webhooks") == obj.get("webhooks"):
            return warnings
        for webhook, at in each(obj, "webhooks", ""):
            if (webhook.get("clientConfig") or {}).get("service"):
                warnings.append(f"{child(at, 'clientConfig', 'service')}: {_NOT_CALLED}")
        return warnings


def _webhook(webhook: View, path: str) -> list[FieldError]:
    errors = [] if webhook.get("name") else [required(child(path, "name"))]
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


def _reviews(versions: Sequence[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(_REVIEWS)}")]
    errors: list[FieldError] = []
    if not set(versions).intersection(_REVIEWS):
        errors.append(invalid(path, list(versions), f"must include at least one of {', '.join(_REVIEWS)}"))
    return errors


def _client(config: View, path: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url(url, child(path, "url")) if url is not None else []  # a service is never called


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


def _rule(rule: View, path: str) -> list[FieldError]:
    operations, at = list(rule.get("operations") or ()), child(path, "operations")
    errors = [] if operations else [required(at)]
    for index, operation in enumerate(operations):
        errors += known(operation, _OPERATIONS, f"{at}[{index}]")
    for key in ("apiGroups", "apiVersions"):
        if not rule.get(key):
            errors.append(required(child(path, key)))
    if not rule.get("resources"):
        errors.append(required(child(path, "resources")))
    return errors + (known(rule["scope"], _SCOPES, child(path, "scope")) if rule.get("scope") is not None else [])


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
        return errors


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


def _validation(validation: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not validation.get("expression", "").strip():
        errors.append(required(child(path, "expression"), "expression is not specified"))
    if validation.get("reason") is not None:
        errors += known(validation["reason"], _REASONS, child(path, "reason"))
    return errors


def _matched(resources: View, path: str) -> list[FieldError]:
    errors = known(resources.get("matchPolicy", ""), _MATCH, child(path, "matchPolicy"))
    for key in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(resources.get(key), child(path, key))
    for key in ("resourceRules", "excludeResourceRules"):
        for rule, at in each(resources, key, path):
            errors += _rule(rule, at)
    return errors


class AdmissionPolicyBinding(_Registration):
    def default(self, obj: Object) -> None:
        _default_resources((obj.get("spec") or {}).get("matchResources"))

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        name = spec.get("policyName", "")
        errors = [] if name else [required("spec.policyName")]
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
    errors = [forbidden(child(path, "name"), text)] if both else []
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
