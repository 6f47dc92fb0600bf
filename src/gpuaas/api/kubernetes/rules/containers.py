"""What a container must say: name, image, ports, environment, probes, hooks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuaas.api.kubernetes.rules.checks import (
    dns_label,
    dns_subdomain,
    each,
    known,
    nonnegative,
    one_of,
    port_name,
    port_number,
    port_number_or_name,
)
from gpuaas.api.kubernetes.rules.fields import resource_reference, variable_reference
from gpuaas.api.kubernetes.rules.resources import resource_requirements
from gpuaas.api.kubernetes.rules.volumes import PULL_POLICIES, no_backsteps, validate_mounts
from gpuaas.api.metadata import View, prefix_as_name
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, not_found, required, too_many
from gpuaas.base.names import is_config_key, is_dns1123_subdomain

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_VARIABLE: Final = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_VARIABLE_NAME: Final = re.compile(r"[ -<>-~]+").fullmatch
_ONE_HANDLER: Final = "may not specify more than 1 handler type"
_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL: Final = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy")


@dataclass(frozen=True, slots=True)
class PodContext:
    """What a container must know of its pod."""

    volumes: Mapping[str, View]
    claims: Sequence[str]
    grace: int | None
    restart_policy: str


def validate_containers(spec: View, pod: PodContext, path: str) -> list[FieldError]:
    if not spec.get("containers"):
        return [required(child(path, "containers"))]
    errors: list[FieldError] = []
    names: set[str] = set()
    for container, at in each(spec, "containers", path):
        errors += _container(container, pod, at) + _unique(container, names, at)
        errors += _running(container, pod, at) + _restart_rules(container, at)
    return errors + _host_ports(spec["containers"], child(path, "containers"))


def validate_init_containers(spec: View, pod: PodContext, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names = {container.get("name", "") for container in spec.get("containers") or ()}
    for container, at in each(spec, "initContainers", path):
        errors += _container(container, pod, at) + _restart_rules(container, at)
        errors += _unique(container, names, at)
        errors += _host_ports([container], child(path, "initContainers"))
        if container.get("restartPolicy") == "Always":
            errors += _running(container, pod, at)
            continue
        hooks = ("lifecycle", *_PROBES)
        errors += [forbidden(child(at, hook), _ONLY_SIDECARS) for hook in hooks if container.get(hook) is not None]
        for policy, policy_at in each(container, "resizePolicy", at):
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                errors.append(invalid(child(policy_at, "restartPolicy"), "RestartContainer", text))
    return errors


def validate_ephemeral_containers(spec: View, pod: PodContext, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    others = {c.get("name", "") for key in ("containers", "initContainers") for c in spec.get(key) or ()}
    names = set(others)
    for container, at in each(spec, "ephemeralContainers", path):
        errors += _container(container, pod, at) + padded_image(container, at) + _unique(container, names, at)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(not_found(child(at, "targetContainerName"), target))
        text = "cannot be set for an Ephemeral Container"
        errors += [forbidden(child(at, key), text) for key in _NOT_EPHEMERAL if container.get(key)]
        for mount, mount_at in each(container, "volumeMounts", at):
            errors += [forbidden(child(mount_at, key), text) for key in ("subPath", "subPathExpr") if mount.get(key)]
    return errors


def padded_image(container: View, path: str) -> list[FieldError]:
    """Only pods themselves are refused for this, not their templates."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(child(path, "image"), image, "must not have leading or trailing whitespace")]


def _unique(container: View, names: set[str], path: str) -> list[FieldError]:
    name = container.get("name", "")
    if name in names:
        return [duplicate(child(path, "name"), name)]
    names.add(name)
    return []


def _container(container: View, pod: PodContext, path: str) -> list[FieldError]:
    name = container.get("name", "")
    errors = dns_label(name, child(path, "name")) if name else [required(child(path, "name"))]
    if not container.get("image"):
        errors.append(required(child(path, "image")))
    errors += one_of(
        container.get("terminationMessagePolicy"),
        ("File", "FallbackToLogsOnError"),
        child(path, "terminationMessagePolicy"),
        sort=False,
    )
    errors += _ports(container, path)
    errors += _variables(container, path)
    errors += validate_mounts(container, pod.volumes, path)
    errors += one_of(container.get("imagePullPolicy"), PULL_POLICIES, child(path, "imagePullPolicy"))
    errors += resource_requirements(container.get("resources") or {}, child(path, "resources"), pod.claims)
    return errors + _resize_policies(container, pod, child(path, "resizePolicy"))


def _ports(container: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for port, at in each(container, "ports", path):
        name = port.get("name")
        if name:
            wrong = port_name(name, child(at, "name"))
            errors += wrong
            if not wrong and name in names:
                errors.append(duplicate(child(at, "name"), name))
            names.add(name)
        number = port.get("containerPort", 0)
        errors += port_number(number, child(at, "containerPort")) if number else [required(child(at, "containerPort"))]
        if port.get("hostPort"):
            errors += port_number(port["hostPort"], child(at, "hostPort"))
        errors += one_of(port.get("protocol"), PROTOCOLS, child(at, "protocol"))
    return errors


def _host_ports(containers: Sequence[View], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for port, at in each(container, "ports", child(path, index)):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                errors.append(duplicate(child(at, "hostPort"), key))
            taken.add(key)
    return errors


def _variables(container: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if _VARIABLE_NAME(name) and variable.get("valueFrom") is None:
            continue  # most are plain, and there are many
        at = child(path, "env", index)
        errors += _variable_name(name, child(at, "name")) if name else [required(child(at, "name"))]
        errors += _value_from(variable, child(at, "valueFrom"))
    for source, at in each(container, "envFrom", path):
        if source.get("prefix"):
            errors += _variable_name(source["prefix"], child(at, "prefix"))
        references = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        for key in references:
            name = source[key].get("name", "")
            where = child(at, key, "name")
            errors += _prefix_name(name, where) if name else [required(where)]
        if not references:
            text = "must specify one of: `configMapRef` or `secretRef`"
            errors.append(invalid(child(path, "envFrom"), "", text))
        elif len(references) > 1:
            text = "may not have more than one field specified at a time"
            errors.append(invalid(child(path, "envFrom"), "", text))
    return errors


def _prefix_name(name: str, path: str) -> list[FieldError]:
    """Checked like a generateName, as the real server does."""
    return [invalid(path, name, message) for message in is_dns1123_subdomain(prefix_as_name(name))]


def _variable_name(name: str, path: str) -> list[FieldError]:
    return [] if _VARIABLE_NAME(name) else [invalid(path, name, _VARIABLE)]


def _value_from(variable: View, path: str) -> list[FieldError]:
    source = variable.get("valueFrom")
    if source is None:
        return []
    errors: list[FieldError] = []
    count = 0
    for key in ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"):
        reference = source.get(key)
        if reference is None:
            continue
        count += 1
        match key:
            case "fieldRef":
                errors += variable_reference(reference, child(path, key))
            case "resourceFieldRef":
                errors += resource_reference(reference, child(path, key), needs_container=False)
            case "fileKeyRef":
                errors += _file_key(reference, child(path, key))
            case _:
                errors += _key(reference, child(path, key))
    if count == 0:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        return [*errors, invalid(path, "", text)]
    if variable.get("value"):
        return [*errors, invalid(path, "", "may not be specified when `value` is not empty")]
    if count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _key(reference: View, path: str) -> list[FieldError]:
    errors = dns_subdomain(reference.get("name", ""), child(path, "name"))
    key = reference.get("key", "")
    if not key:
        return [*errors, required(child(path, "key"))]
    return errors + [invalid(child(path, "key"), key, message) for message in is_config_key(key)]


def _file_key(reference: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    key, volume, file = (reference.get(field, "") for field in ("key", "volumeName", "path"))
    errors += _variable_name(key, child(path, "key")) if key else [required(child(path, "key"))]
    errors += dns_label(volume, child(path, "volumeName")) if volume else [required(child(path, "volumeName"))]
    return errors + (no_backsteps(file, child(path, "path")) if file else [required(child(path, "path"))])


def _running(container: View, pod: PodContext, path: str) -> list[FieldError]:
    """Hooks and probes of a container that is meant to go on running."""
    errors: list[FieldError] = []
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if lifecycle.get(hook) is not None:
            errors += _handler(lifecycle[hook], pod, child(path, "lifecycle", hook))
    for name in _PROBES:
        if container.get(name) is not None:
            errors += _probe(container[name], name, pod, child(path, name))
    return errors


def _probe(probe: View, name: str, pod: PodContext, path: str) -> list[FieldError]:
    errors = _handler(probe, pod, path)
    counts = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
    for field in counts:
        errors += nonnegative(probe.get(field, 0), child(path, field))
    grace, at = probe.get("terminationGracePeriodSeconds"), child(path, "terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.append(invalid(at, grace, "must be greater than 0"))
    if name == "readinessProbe":
        if grace is not None:
            errors.append(invalid(at, grace, "must not be set for readinessProbes"))
    elif probe.get("successThreshold") != 1:
        errors.append(invalid(child(path, "successThreshold"), probe.get("successThreshold", 0), "must be 1"))
    return errors


def _handler(handler: View, pod: PodContext, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = False
    for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep"):
        action = handler.get(kind)
        if action is None:
            continue
        errors += (
            [forbidden(child(path, kind), _ONE_HANDLER)] if seen else _action(kind, action, pod, child(path, kind))
        )
        seen = True
    return errors if seen else [required(path, "must specify a handler type")]


def _action(kind: str, action: View, pod: PodContext, path: str) -> list[FieldError]:
    match kind:
        case "exec":
            return [] if action.get("command") else [required(child(path, "command"))]
        case "httpGet":
            errors = [] if action.get("path") else [required(child(path, "path"))]
            errors += port_number_or_name(action.get("port", 0), child(path, "port"))
            return errors + known(action.get("scheme", ""), ("HTTP", "HTTPS"), child(path, "scheme"))
        case "sleep":
            seconds = action.get("seconds", 0)
            if pod.grace is None or 0 <= seconds <= pod.grace:
                return []
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({pod.grace})"
            return [invalid(path, seconds, text)]
        case _:
            return port_number_or_name(action.get("port", 0), child(path, "port"))


def _resize_policies(container: View, pod: PodContext, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(child(path, index), resource))
        seen.add(resource)
        errors += one_of(resource, ("cpu", "memory"), path)
        errors += one_of(restart, ("NotRequired", "RestartContainer"), path)
        if pod.restart_policy == "Never" and restart != "NotRequired":
            errors.append(invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return errors


def _restart_rules(container: View, path: str) -> list[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    at = child(path, "restartPolicy")
    errors: list[FieldError] = []
    if policy is None and rules:
        errors.append(required(at, "must specify restartPolicy when restart rules are used"))
    elif policy is not None:
        errors += known(policy, ("Always", "Never", "OnFailure"), at)
    if len(rules) > 20:
        errors.append(too_many(child(path, "restartPolicyRules"), len(rules), 20))
    for rule, rule_at in each(container, "restartPolicyRules", path):
        errors += known(rule.get("action", ""), ("Restart", "RestartAllContainers"), child(rule_at, "action"))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(child(rule_at, "exitCodes"), "must be specified"))
            continue
        errors += known(codes.get("operator", ""), ("In", "NotIn"), child(rule_at, "exitCodes", "operator"))
    return errors
