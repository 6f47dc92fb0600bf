"""What the spec of a pod, or of a template of pods, must say as a whole. Its parts are in the modules beside this one."""

from typing import Final

from gpuaas.api.kubernetes.rules.checks import (
    MAX_INT32,
    dns_label,
    dns_subdomain,
    each,
    in_range,
    one_of,
    qualified_name,
)
from gpuaas.api.kubernetes.rules.containers import (
    PodContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from gpuaas.api.kubernetes.rules.placement import validate_affinity, validate_spread, validate_tolerations
from gpuaas.api.kubernetes.rules.pod_annotations import annotation_errors
from gpuaas.api.kubernetes.rules.resources import (
    pod_resource_name,
    resource_requirements,
)
from gpuaas.api.kubernetes.rules.volumes import validate_volumes
from gpuaas.api.metadata import View, validate_annotations, validate_labels
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, required
from gpuaas.base.memo import Repeats

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_looked_at: Final = Repeats[list[FieldError]]()


def validate_pod_template(template: View | None, path: str) -> list[FieldError]:
    """Labels, annotations and spec of a template."""
    template = template or {}
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = validate_labels(metadata.get("labels"), child(path, "labels"))
    annotations = metadata.get("annotations")
    errors += validate_annotations(annotations, child(path, "annotations"))
    errors += annotation_errors(annotations, spec, child(path, "annotations"))
    at = child(path, "spec")
    errors += _looked_at.of((at, spec), lambda: validate_pod_spec(spec, at))
    if spec.get("ephemeralContainers"):
        errors.append(
            forbidden(child(path, "spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
        )
    return errors


def validate_pod_spec(spec: View, path: str, *, is_pod: bool = False) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.append(required(child(path, "terminationGracePeriodSeconds")))
    volumes, wrong_volumes = validate_volumes(spec, path)
    errors += wrong_volumes
    errors += _claims(spec, path)
    pod = PodContext(
        volumes=volumes,
        claims=tuple(claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")),
        grace=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
    )
    errors += validate_containers(spec, pod, path)
    errors += validate_init_containers(spec, pod, path)
    errors += validate_ephemeral_containers(spec, pod, path)
    errors += _pod_resources(spec, path)
    errors += _host_network(spec, path, is_pod)
    errors += one_of(spec.get("restartPolicy"), RESTART_POLICIES, child(path, "restartPolicy"), sort=False)
    errors += validate_labels(spec.get("nodeSelector"), child(path, "nodeSelector"))
    errors += validate_affinity(spec.get("affinity"), child(path, "affinity"))
    errors += _gates(spec, path)
    errors += validate_spread(spec, path)
    errors += _names(spec, path)
    errors += validate_tolerations(spec, path)
    return errors + _rest(spec, path)


def _claims(spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for claim, at in each(spec, "resourceClaims", path):
        name = claim.get("name", "")
        if not name:
            errors.append(required(child(at, "name")))
        elif name in seen:
            errors.append(duplicate(child(at, "name"), name))
        else:
            errors += dns_label(name, child(at, "name"))
        seen.add(name)
        given = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(key) is not None]
        if len(given) == 2:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(at, _claim_shown(claim), text))
        if not given:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(at, _claim_shown(claim), text))
        for key in given:
            errors += dns_subdomain(claim[key], child(at, key))
    return errors


def _claim_shown(claim: View) -> dict[str, str | None]:
    return {
        "Name": claim.get("name", ""),
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def _pod_resources(spec: View, path: str) -> list[FieldError]:
    resources, at = spec.get("resources"), child(path, "resources")
    if resources is None:
        return []
    errors: list[FieldError] = []
    if resources.get("claims") is not None:
        errors.append(forbidden(child(at, "claims"), "claims may not be set for Resources at pod-level"))
    return errors + resource_requirements(resources, at, name_check=pod_resource_name)


def _host_network(spec: View, path: str, is_pod: bool) -> list[FieldError]:
    if not spec.get("hostNetwork"):
        return []
    errors: list[FieldError] = []
    for container, container_at in each(spec, "containers", path):
        for port, at in each(container, "ports", container_at):
            host = port.get("hostPort", 0)
            if (is_pod or host) and host != port.get("containerPort", 0):
                text = "must match `containerPort` when `hostNetwork` is true"
                errors.append(invalid(child(at, "hostPort"), host, text))
    return errors


def _gates(spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for gate, at in each(spec, "readinessGates", path):
        errors += qualified_name(gate.get("conditionType", ""), child(at, "conditionType"))
    seen: set[str] = set()
    for gate, at in each(spec, "schedulingGates", path):
        name = gate.get("name", "")
        errors += qualified_name(name, at)
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
    return errors


def _names(spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            errors += dns_subdomain(spec[field], child(path, field))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        errors += in_range(deadline, 1, MAX_INT32, child(path, "activeDeadlineSeconds"))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += dns_label(spec[field], child(path, field))
    return errors


def _rest(spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("priorityClassName", "runtimeClassName"):
        if spec.get(field):
            errors += dns_subdomain(spec[field], child(path, field))
    if spec.get("preemptionPolicy") is not None:
        choices = ("PreemptLowerPriority", "Never")
        errors += one_of(spec["preemptionPolicy"], choices, child(path, "preemptionPolicy"), sort=False)
    if spec.get("overhead"):
        errors += resource_requirements({"limits": spec["overhead"]}, child(path, "overhead"))
    return errors
