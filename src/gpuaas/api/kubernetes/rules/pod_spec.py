"""What the spec of a pod, or of a template of pods, must say as a whole. Its parts are in the modules beside this one."""

import re
from typing import Final

from gpuaas.api.kubernetes.rules.checks import (
    MAX_INT32,
    dns_label,
    dns_subdomain,
    each,
    in_range,
    known,
    one_of,
    qualified_name,
)
from gpuaas.api.kubernetes.rules.containers import (
    PodContext,
    identity,
    seccomp,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from gpuaas.api.kubernetes.rules.networks import ip_address
from gpuaas.api.kubernetes.rules.placement import validate_affinity, validate_spread, validate_tolerations
from gpuaas.api.kubernetes.rules.pod_annotations import annotation_errors
from gpuaas.api.kubernetes.rules.resources import (
    pod_resource_name,
    resource_requirements,
)
from gpuaas.api.kubernetes.rules.volumes import validate_volumes
from gpuaas.api.metadata import View, validate_annotations, validate_labels
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, required
from gpuaas.base.repeats import Repeats

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_LONGEST_SYSCTL: Final = 253
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_HOST_SYSCTLS: Final = {
    "hostNetwork": ("net.",),
    "hostIPC": ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."),
}
_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
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


def validate_pod_spec(spec: View, path: str, *, pod_name: str = "", is_pod: bool = False) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.append(required(child(path, "terminationGracePeriodSeconds")))
    volumes, wrong_volumes = validate_volumes(spec, pod_name, path, is_pod=is_pod)
    errors += wrong_volumes
    errors += _claims(spec, path)
    pod = PodContext(
        volumes=volumes,
        claims=tuple(claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")),
        grace=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers") is not False,
    )
    errors += validate_containers(spec, pod, path)
    errors += validate_init_containers(spec, pod, path)
    errors += validate_ephemeral_containers(spec, pod, path)
    errors += _pod_resources(spec, path)
    errors += _host_network(spec, path, is_pod)
    errors += one_of(spec.get("restartPolicy"), RESTART_POLICIES, child(path, "restartPolicy"), sort=False)
    errors += one_of(spec.get("dnsPolicy"), _DNS_POLICIES, child(path, "dnsPolicy"), sort=False)
    errors += validate_labels(spec.get("nodeSelector"), child(path, "nodeSelector"))
    errors += _security(spec, child(path, "securityContext"))
    errors += validate_affinity(spec.get("affinity"), child(path, "affinity"))
    errors += _dns(spec, child(path, "dnsConfig"))
    errors += _gates(spec, path)
    errors += validate_spread(spec, path)
    errors += _host_processes(spec, path)
    errors += _host_users(spec, path)
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


def _security(spec: View, path: str) -> list[FieldError]:
    context = spec.get("securityContext") or {}
    errors = identity(context, path, ("fsGroup", "runAsUser", "runAsGroup"))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        errors += in_range(group, 0, MAX_INT32, child(path, "supplementalGroups", index))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(child(path, "shareProcessNamespace"), True, text))
    errors += _sysctls(spec, context, child(path, "sysctls"))
    policy = context.get("fsGroupChangePolicy")
    if policy is not None:
        errors += known(policy, ("Always", "OnRootMismatch"), child(path, "fsGroupChangePolicy"))
    policy = context.get("supplementalGroupsPolicy")
    if policy is not None:
        errors += known(policy, ("Merge", "Strict"), child(path, "supplementalGroupsPolicy"))
    return errors + seccomp(context.get("seccompProfile"), child(path, "seccompProfile"))


def _sysctls(spec: View, context: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, said in enumerate(context.get("sysctls") or ()):
        name, at = said.get("name", ""), child(path, index, "name")
        if not name:
            errors.append(required(at))
        elif len(name) > _LONGEST_SYSCTL or not _SYSCTL.fullmatch(name):
            text = f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL.pattern}$"
            errors.append(invalid(at, name, text))
        elif name in names:
            errors.append(duplicate(at, name))
        for field, owned in _HOST_SYSCTLS.items():
            if spec.get(field) and name.replace("/", ".").startswith(owned):
                errors.append(invalid(at, name, f"may not be specified when '{field}' is true"))
        names.add(name)
    return errors


def _host_processes(spec: View, path: str) -> list[FieldError]:
    """A pod is of the host with all of its containers or with none (Windows)."""
    containers = [pair for kind in _CONTAINERS for pair in each(spec, kind, path)]
    if not any(
        (holder.get("securityContext") or {}).get("windowsOptions") for holder, _ in ((spec, path), *containers)
    ):
        return []
    whole, said = _host_process(spec), [(_host_process(container), where) for container, where in containers]
    text = f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
    errors = [
        invalid(child(where, "securityContext", "windowsOptions", "hostProcess"), own, text)
        for own, where in said
        if whole is not None and own is not None and own != whole
    ]
    count = sum(bool(whole if own is None else own) for own, _ in said)
    if count and count != len(said):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", text))
    if count and not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(child(path, "hostNetwork"), False, text))
    return errors


def _host_process(holder: View) -> bool | None:
    found: bool | None = ((holder.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    return found


def _host_users(spec: View, path: str) -> list[FieldError]:
    if spec.get("hostUsers") is not False:
        return []
    fields = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    return [forbidden(child(path, said), "when `hostUsers` is false") for field, said in fields if spec.get(field)]


def _dns(spec: View, path: str) -> list[FieldError]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(child(path, "nameservers"), text)]
    if config is None:
        return []
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    errors: list[FieldError] = []
    if len(servers) > 3:
        errors.append(invalid(child(path, "nameservers"), list(servers), "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        errors += ip_address(server, child(path, "nameservers", index))
    if len(searches) > 32:
        errors.append(invalid(child(path, "searches"), list(searches), "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        errors.append(invalid(child(path, "searches"), list(searches), text))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(child(path, "options", index), "must not be empty"))
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
    for alias, at in each(spec, "hostAliases", path):
        errors += ip_address(alias.get("ip", ""), child(at, "ip"))
        for index, name in enumerate(alias.get("hostnames") or ()):
            errors += dns_subdomain(name, child(at, "hostnames", index))
    for field in ("priorityClassName", "runtimeClassName"):
        if spec.get(field):
            errors += dns_subdomain(spec[field], child(path, field))
    if spec.get("preemptionPolicy") is not None:
        choices = ("PreemptLowerPriority", "Never")
        errors += one_of(spec["preemptionPolicy"], choices, child(path, "preemptionPolicy"), sort=False)
    if spec.get("overhead"):
        errors += resource_requirements({"limits": spec["overhead"]}, child(path, "overhead"))
    system = spec.get("os")
    if system is not None:
        name, at = system.get("name"), child(path, "os")
        errors += known(name, ("linux", "windows"), at) if name else [required(child(at, "name"), "cannot be empty")]
    return errors
