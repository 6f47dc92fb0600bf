"""Workloads that find their pods by a selector: it must be there, not be empty, and fit the template's labels."""

from typing import Any

from gpuaas.api.kubernetes.rules.checks import shown_labels, shown_selector
from gpuaas.api.kubernetes.rules.pod_spec import validate_pod_template
from gpuaas.api.metadata import View, validate_label_selector
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, required
from gpuaas.base.selectors import from_label_selector


def selector_errors(spec: View, path: str, kind: str) -> list[FieldError]:
    selector, at = spec.get("selector"), child(path, "selector")
    if selector is None:
        return [required(at)]
    errors = validate_label_selector(selector, at)
    if is_empty(selector):
        errors.append(invalid(at, shown_selector(selector), f"empty selector is invalid for {kind}"))
    return errors


def is_empty(selector: View | None) -> bool:
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def is_readable(selector: View | None) -> bool:
    """Whether it can be turned into a query at all."""
    return not validate_label_selector(selector, "")


def selects(selector: View | None, template: View) -> bool:
    """Whether a readable selector fits the template's labels; none selects nothing."""
    parsed = from_label_selector(selector)
    return parsed is not None and parsed.matches(labels_of(template))


def labels_of(template: View) -> dict[str, str] | None:
    return (template.get("metadata") or {}).get("labels")


def mismatch(template: View, path: str) -> FieldError:
    text = "`selector` does not match template `labels`"
    return invalid(child(path, "metadata", "labels"), shown_labels(labels_of(template)), text)


def template_errors(spec: View, path: str, owner: str) -> list[FieldError]:
    """The template of a workload that keeps its pods running."""
    template: dict[str, Any] = spec.get("template") or {}
    at = child(path, "template")
    errors = validate_pod_template(template, at)
    if not is_empty(spec.get("selector")) and not selects(spec.get("selector"), template):
        errors.insert(0, mismatch(template, at))
    return errors + keeps_running(template.get("spec") or {}, child(at, "spec"), owner)


def keeps_running(pod_spec: View, path: str, owner: str) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = pod_spec.get("restartPolicy", "")
    if policy != "Always":
        body = f'Unsupported value: "{policy}": supported values: "Always"'
        errors.append(FieldError("FieldValueNotSupported", child(path, "restartPolicy"), body))
    if pod_spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden(child(path, "activeDeadlineSeconds"), text))
    return errors
