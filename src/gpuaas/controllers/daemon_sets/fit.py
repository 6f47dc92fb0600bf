"""Does a node fit a daemon's pod: its labels, its affinity, its taints."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.client.protocol import Object
from gpuaas.runtime.metadata import labels_of

NAME_FIELD = "metadata.name"

# What a daemon tolerates whatever its template says: it is part of the node and shares its troubles.
_ALWAYS_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def tolerations_of(spec: Mapping[str, Any]) -> list[Object]:
    """The template's tolerations and those every daemon has."""
    added = [*_ALWAYS_TOLERATED, *([_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in added:
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        others = [one for one in tolerations if not (one.get("key") == key and one.get("effect") == effect)]
        tolerations = [*others, wanted]
    return tolerations


def should_run(spec: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether a pod should be there, and whether one that is there may stay."""
    if spec.get("nodeName") not in (None, "", node["metadata"]["name"]) or not _labels_fit(spec, node):
        return False, False
    tolerations = tolerations_of(spec)
    taints = (node.get("spec") or {}).get("taints") or ()
    if _tolerates_all(tolerations, taints, ("NoExecute", "NoSchedule")):
        return True, True
    return False, _tolerates_all(tolerations, taints, ("NoExecute",))


def pinned(spec: Mapping[str, Any], node: str) -> Object:
    """The pod's spec with an affinity that only this node satisfies."""
    terms = [{"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}]
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pinned_affinity = {**node_affinity, required: {"nodeSelectorTerms": terms}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": pinned_affinity}, "tolerations": tolerations_of(spec)}


def target_of(pod: Mapping[str, Any]) -> str:
    """The node a pod runs on or is made for."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    for term in _required_terms(spec):
        for requirement in term.get("matchFields") or ():
            if requirement.get("key") == NAME_FIELD and requirement.get("values"):
                return str(requirement["values"][0])
    return ""


def _labels_fit(spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    labels = labels_of(node)
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    terms = _required_terms(spec)
    fields = {NAME_FIELD: node["metadata"]["name"]}
    return not terms or any(_term_fits(term, labels, fields) for term in terms)


def _required_terms(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or ()


def _term_fits(term: Mapping[str, Any], labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not by_field:
        return False
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, fields) for one in by_field)


def _holds(requirement: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    value = values.get(requirement["key"])
    wanted: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value is not None and value in wanted
        case "NotIn":
            return value is None or value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(wanted[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(wanted[0])
        case _:
            return False


def _tolerates_all(tolerations: Sequence[Object], taints: Iterable[Object], effects: Sequence[str]) -> bool:
    return all(any(_tolerates(one, taint) for one in tolerations) for taint in taints if taint["effect"] in effects)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool((toleration.get("value") or "") == (taint.get("value") or ""))
