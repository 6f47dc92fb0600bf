"""Does a node fit a daemon's pod: its labels, its affinity, its taints."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.client.protocol import Object
from gpuaas.nodefit.constraints import NAME_FIELD, selects, untolerated
from gpuaas.runtime.metadata import labels_of

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
    name = node["metadata"]["name"]
    if spec.get("nodeName") not in (None, "", name) or not selects(spec, labels_of(node), name):
        return False, False
    tolerations = tolerations_of(spec)
    taints = (node.get("spec") or {}).get("taints") or ()
    if untolerated(taints, tolerations) is None:
        return True, True
    return False, untolerated(taints, tolerations, ("NoExecute",)) is None


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


def _required_terms(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or ()
