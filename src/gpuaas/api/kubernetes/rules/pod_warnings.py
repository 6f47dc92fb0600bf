"""What is accepted in a pod or a template of pods but worth a word: for the Warning header.

`pod_warnings` looks at metadata and spec below a path; `workload_warnings` at a workload's template, and on an update
only when the template changed. Names that make poor host names are told when an object is made.
"""

from collections.abc import Sequence
from typing import Any, Final

from gpuaas.api.kubernetes.rules.checks import each
from gpuaas.api.kubernetes.rules.profiles import APPARMOR, APPARMOR_FIELD, profile_field
from gpuaas.api.kubernetes.rules.volume_warnings import volume_warnings
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import child, keyed
from gpuaas.base.names import is_dns1123_label, is_label_value
from gpuaas.base.quantity import parse_quantity
from gpuaas.base.repeats import Repeats

_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
SPELLED: Final = {"storageos": "storageOS"}  # as the words have it
_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_BYTES: Final = ("memory", "ephemeral-storage")
_CRITICAL: Final = "scheduler.alpha.kubernetes.io/critical-pod"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_looked_at: Final = Repeats[list[str]]()
_MOST_PORTS: Final = 100  # of one number, and warnings about them: each is compared with each
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def name_warnings(name: str, where: str = "Pod names and hostnames") -> list[str]:
    messages = is_dns1123_label(name)
    if not messages:
        return []
    return [
        f"metadata.name: this is used in {where}, which can result in surprising behavior; a DNS label is recommended:"
        f" [{' '.join(messages)}]"
    ]


def workload_warnings(obj: View, old: View | None, *, names: bool = True) -> list[str]:
    """For a workload with its template at spec.template."""
    template = (obj.get("spec") or {}).get("template") or {}
    if old is not None:
        before = (old.get("spec") or {}).get("template") or {}
        return [] if template == before else pod_warnings(template, "spec.template")
    found = name_warnings((obj.get("metadata") or {}).get("name", "")) if names else []
    return found + pod_warnings(template, "spec.template")


def pod_warnings(pod: View, path: str = "") -> list[str]:
    spec, at = pod.get("spec") or {}, child(path, "spec")
    found = _looked_at.of((at, spec), lambda: _spec_warnings(spec, at))
    annotations = (pod.get("metadata") or {}).get("annotations")
    return (
        [*_annotation_warnings(annotations, spec, child(path, "metadata.annotations")), *found]
        if annotations
        else [*found]
    )


def _annotation_warnings(annotations: View, spec: View, at: str) -> list[str]:
    """Annotations that were fields once, and do nothing any more."""
    found = [_CRITICAL] if _CRITICAL in annotations else []
    words = {_CRITICAL: 'non-functional in v1.16+; use the "priorityClassName" field instead'}
    if _SECCOMP_POD in annotations and not (spec.get("securityContext") or {}).get("seccompProfile"):
        found.append(_SECCOMP_POD)
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            key = f"{_SECCOMP_CONTAINER}{container.get('name', '')}"
            if key in annotations and not (container.get("securityContext") or {}).get("seccompProfile"):
                found.append(key)
            key = f"{APPARMOR}{container.get('name', '')}"
            if key in annotations and at != "metadata.annotations" and _unsaid(annotations[key], container, spec):
                found.append(key)
                words[key] = APPARMOR_FIELD
    seccomp = 'non-functional in v1.27+; use the "seccompProfile" field instead'
    return [f"{keyed(at, key)}: {words.get(key, seccomp)}" for key in found]


def _unsaid(profile: str, container: View, pod: View) -> bool:
    """Whether no field says what the annotation does."""
    if (container.get("securityContext") or {}).get("appArmorProfile"):
        return False
    whole = (pod.get("securityContext") or {}).get("appArmorProfile")
    return whole is None or whole != profile_field(profile)


def _spec_warnings(spec: View, at: str) -> list[str]:
    found = [
        f"{keyed(child(at, 'nodeSelector'), key)}: {_NODE_LABELS[key]}"
        for key in spec.get("nodeSelector") or ()
        if key in _NODE_LABELS
    ]
    found += _node_affinity(spec, at) if spec.get("affinity") else []
    for constraint, where in each(spec, "topologySpreadConstraints", at):
        key = constraint.get("topologyKey", "")
        if key in _NODE_LABELS:
            found.append(f"{child(where, 'topologyKey')}: {key} is {_NODE_LABELS[key]}")
        if constraint.get("labelSelector") is None:
            found.append(f"{child(where, 'labelSelector')}: {_NO_SELECTOR}")
    for volume, where in each(spec, "volumes", at):
        if volume.keys() & _VOLUMES.keys():
            found += [
                f"{child(where, SPELLED.get(source, source))}: {text}"
                for source, text in _VOLUMES.items()
                if volume.get(source) is not None
            ]
        claimed = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claimed is not None:
            found += claim_warnings(claimed.get("spec") or {}, child(where, "ephemeral.volumeClaimTemplate.spec"))
    found += [text for volume in spec.get("volumes") or () for text in volume_warnings(volume)]
    found += _host_aliases(spec, at) + _pull_secrets(spec, at)
    found += _fractions(spec.get("overhead"), child(at, "overhead"), _BYTES)
    containers = [pair for kind in _CONTAINERS for pair in each(spec, kind, at)]
    for container, where in containers:
        resources = container.get("resources") or {}
        for name in _BYTES:
            for kind in ("limits", "requests"):
                found += _fractions(resources.get(kind), child(where, "resources", kind), (name,))
        found += _hidden_variables(container, where)
    found += _ports(containers)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{child(at, 'terminationGracePeriodSeconds')}: {text}")
    return found + (_pod_affinity(spec, at) if spec.get("affinity") else [])


def label_warning(key: str) -> str:
    """What is said of a node's label that has a newer name; "" of all others."""
    return _NODE_LABELS.get(key, "")


def term_warnings(term: View, path: str, *, values: bool = False) -> list[str]:
    """Of a term that selects nodes: labels with newer names and, where asked, values that no label can have."""
    found: list[str] = []
    for expression, at in each(term, "matchExpressions", path):
        key = expression.get("key", "")
        if label_warning(key):
            found.append(f"{child(at, 'key')}: {key} is {label_warning(key)}")
        for index, value in enumerate(expression.get("values") or ()) if values else ():
            found += [f"{child(at, 'values', index)}: {value} is invalid, {text}" for text in is_label_value(value)]
    return found


def claim_warnings(spec: View, path: str) -> list[str]:
    resources = spec.get("resources") or {}
    kinds = ("requests", "limits")
    return [
        text for kind in kinds for text in _fractions(resources.get(kind), child(path, "resources", kind), ("storage",))
    ]


def _node_affinity(spec: View, path: str) -> list[str]:
    affinity, at = spec["affinity"].get("nodeAffinity") or {}, child(path, "affinity.nodeAffinity")
    required = affinity.get(_REQUIRED) or {}
    found: list[str] = []
    for term, where in each(required, "nodeSelectorTerms", child(at, _REQUIRED)):
        found += term_warnings(term, where)
    for preferred, where in each(affinity, _PREFERRED, at):
        found += term_warnings(preferred.get("preference") or {}, child(where, "preference"), values=True)
    return found


def _pod_affinity(spec: View, path: str) -> list[str]:
    found: list[str] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity, at = spec["affinity"].get(kind) or {}, child(path, "affinity", kind)
        terms = list(each(affinity, _REQUIRED, at))
        for weighted, where in each(affinity, _PREFERRED, at):
            terms.append((weighted.get("podAffinityTerm") or {}, child(where, "podAffinityTerm")))
        found += [
            f"{child(where, 'labelSelector')}: {_NO_SELECTOR}"
            for term, where in terms
            if term.get("labelSelector") is None
        ]
    return found


def _host_aliases(spec: View, path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for alias, at in each(spec, "hostAliases", path):
        address = alias.get("ip", "")
        found += [f'{child(at, "ip")}: duplicate ip "{address}"'] if address in seen else []
        seen.add(address)
    return found


def _pull_secrets(spec: View, path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for secret, at in each(spec, "imagePullSecrets", path):
        name = secret.get("name", "")
        if name in seen:
            found.append(f'{child(at, "name")}: duplicate name "{name}"')
        seen.add(name)
    empty = [at for secret, at in each(spec, "imagePullSecrets", path) if not secret.get("name")]
    return found + [f'{child(at, "name")}: invalid empty name ""' for at in empty]


def _fractions(amounts: View | None, path: str, names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        amount = (amounts or {}).get(name)
        if amount is not None and parse_quantity(amount).milli % 1000:
            text = f'fractional byte value "{parse_quantity(amount)}" is invalid, must be an integer'
            found.append(f"{keyed(path, name)}: {text}")
    return found


def _hidden_variables(container: View, path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        extends = variable.get("valueFrom") is None and reference in value and value != reference
        if name in seen and not extends:
            text = f'hides previous definition of "{name}", which may be dropped when using apply'
            found.append(f"{child(path, 'env', index)}: {text}")
        seen.add(name)
    return found


def _ports(containers: Sequence[tuple[View, str]]) -> list[str]:
    ports = [(port, at) for container, where in containers for port, at in each(container, "ports", where)]
    found: list[str] = []
    taken: dict[tuple[Any, Any], list[tuple[View, str]]] = {}
    for port, at in ports:
        key = (port.get("containerPort"), port.get("protocol"))
        others = taken.setdefault(key, [])
        for other, where in others if len(found) < _MOST_PORTS else ():
            if _host(port) == _host(other):
                found.append(f"{at}: duplicate port definition with {where}")
            elif not port.get("hostPort") or not other.get("hostPort"):
                found.append(f"{at}: overlapping port definition with {where}")
            elif port["hostPort"] == other["hostPort"] and bool(port.get("hostIP")) != bool(other.get("hostIP")):
                found.append(f"{at}: dangerously ambiguous port definition with {where}")
        if len(others) < _MOST_PORTS:
            others.append((port, at))
    names: dict[str, str] = {}
    for port, at in ports:
        name = port.get("name")
        if name and name in names:
            where = names[name]
            text = f'duplicate port name "{name}" with {where}, services and probes that select ports by name will use {where}'
            found.append(f"{at}: {text}")
        elif name:
            names[name] = at
    return found


def _host(port: View) -> tuple[Any, Any]:
    return port.get("hostIP", ""), port.get("hostPort", 0)
