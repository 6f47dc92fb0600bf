"""Ways out that `why` shows: commands that work as they stand, and words where no command would.

Pure words from objects. A way that the server would refuse, or that would change nothing, is worse than none: labels that
no user can change are not proposed, and a running job's queue is set together with holding it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from gpuaas.base.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, LabelSelector, Requirement, from_label_selector
from gpuaas.kueue.activity import check_names, flavor_names
from gpuaas.kueue.explain.evidence import given_flavors, has_labels, larger_than_nodes, offered, pod_requests
from gpuaas.kueue.explain.snapshot import Picture, owner_of
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.nodefit.constraints import untolerated

View = Mapping[str, Any]
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
MINIMUM_ANNOTATION = "kueue.x-k8s.io/job-min-parallelism"
_OWN_NAME = "kubernetes.io/metadata.name"  # the server writes it, whatever anybody says
_NOT_LABELLED = ("Pod", "Workload")  # their queue is not changed by a label
_HELD_BY_SUSPEND = ("Job", "JobSet", "RayCluster", "RayJob")
_FEW = 3
_PROVISIONING = "kueue.x-k8s.io/provisioning-request"
_COMPLAINTS = ("affinity/selector", "untolerated taint", "Insufficient", "runtime class gpuaas-process")


def relabelled(kind: str, name: str, namespace: str, key: str, value: str) -> str:
    return f"kubectl label {kind.lower()} {name} -n {namespace} {key}={value} --overwrite"


def queued(kind: str, name: str, namespace: str, queue: str, *, runs: bool) -> str:
    """Into a queue. What runs must be held in the same breath: its queue cannot be changed while it does."""
    if runs and kind in _HELD_BY_SUSPEND:
        patch = json.dumps({"metadata": {"labels": {QUEUE_LABEL: queue}}, "spec": {"suspend": True}})
        return f"kubectl patch {kind.lower()} {name} -n {namespace} --type merge -p '{patch}'"
    return relabelled(kind, name, namespace, QUEUE_LABEL, queue)


def nearest(name: str, known: Sequence[str]) -> str:
    return next(iter(get_close_matches(name, known, n=1)), "")


def other_queue(workload: View, queue: str) -> str:
    kind, name = owner_of(workload)
    if kind in _NOT_LABELLED:
        return f"use the queue {queue}"
    return relabelled(kind, name, workload["metadata"]["namespace"], QUEUE_LABEL, queue)


def selecting(picture: Picture, workload: View, cluster: View) -> Iterator[str]:
    """For a workload whose namespace its ClusterQueue does not take."""
    namespace, name = workload["metadata"]["namespace"], cluster["metadata"]["name"]
    labels = _labels(picture.namespace(namespace))
    selector = _selector(cluster)
    lacking = [each for each in (selector.requirements if selector else ()) if not each.matches(labels)]
    if lacking and all(each.key != _OWN_NAME for each in lacking):
        overwrite = " --overwrite" if any(each.key in labels for each in lacking) else ""
        yield f"kubectl label namespace {namespace} {' '.join(map(_label, lacking))}{overwrite}"
    for local in picture.local_queues:
        found = picture.cluster_queue(local["spec"]["clusterQueue"]) if _in(local, namespace) else None
        takes = _selector(found) if found is not None else None
        if takes is not None and takes.matches(labels):
            yield other_queue(workload, local["metadata"]["name"])
            break
    yield f"let it take {namespace}: spec.namespaceSelector of ClusterQueue {name}"


def new_local_queue(picture: Picture, namespace: str, name: str) -> str:
    """For a namespace without any queue: which ClusterQueues would take it."""
    labels = _labels(picture.namespace(namespace))
    takes = [
        str(each["metadata"]["name"])
        for each in picture.cluster_queues
        if (selector := _selector(each)) is not None and selector.matches(labels)
    ]
    if not takes:
        return f"let a ClusterQueue take namespace {namespace} (spec.namespaceSelector): none does"
    others = "" if len(takes) <= _FEW else f" and {len(takes) - _FEW} more"
    return f"make LocalQueue {name} in namespace {namespace} for one of: {', '.join(takes[:_FEW])}{others}"


def activating(picture: Picture, cluster: View) -> Iterator[str]:
    """For a ClusterQueue that is not active: what it names that is not there, or does not work."""
    queue = cluster["metadata"]["name"]
    flavors = [str(each["metadata"]["name"]) for each in picture.flavors]
    yield from (_made("ResourceFlavor", each, flavors, queue) for each in flavor_names(cluster) if each not in flavors)
    if "checks" not in picture.hidden:
        checks = {str(each["metadata"]["name"]): each for each in picture.checks}
        for name in check_names(cluster):
            if name not in checks:
                yield _made("AdmissionCheck", name, list(checks), queue)
            elif not is_true(conditions_of(checks[name]).get("Active")):
                controller = (checks[name].get("spec") or {}).get("controllerName", "")
                yield f"run {controller}, which has to say that AdmissionCheck {name} is active, or take it out of {queue}"
    yield f"kubectl describe clusterqueue {queue}"


def _made(kind: str, name: str, known: Sequence[str], queue: str) -> str:
    near = nearest(name, known) or ", ".join(known[:_FEW])
    return f"make {kind} {name}" + (f", or name another in ClusterQueue {queue}: {near}" if near else "")


def _selector(cluster: View) -> LabelSelector | None:
    return from_label_selector((cluster.get("spec") or {}).get("namespaceSelector"))


def _labels(obj: View | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _in(obj: View, namespace: str) -> bool:
    return bool(obj["metadata"]["namespace"] == namespace)


def selected(cluster: View) -> str:
    """Which namespaces a ClusterQueue takes, as kubectl writes selectors."""
    selector = _selector(cluster)
    if selector is None:
        return "no namespace at all"
    return ", ".join(map(_requirement, selector.requirements))


def _requirement(each: Requirement) -> str:
    if each.operator == IN and len(each.values) == 1:
        return f"{each.key}={each.values[0]}"
    if each.operator in (IN, NOT_IN):
        return f"{each.key} {each.operator} ({', '.join(each.values)})"
    return f"!{each.key}" if each.operator == DOES_NOT_EXIST else each.key


def _label(lacking: Requirement) -> str:
    """What makes a namespace meet a requirement it does not meet."""
    if lacking.operator == IN:
        return f"{lacking.key}={lacking.values[0]}"
    return f"{lacking.key}=true" if lacking.operator == EXISTS else f"{lacking.key}-"


def higher_priority(picture: Picture, workload: View, number: int) -> str:
    """How to get a priority of at least that; nothing where no class gives it."""
    enough = [
        (int(each["value"]), str(each["metadata"]["name"])) for each in picture.priorities if each["value"] >= number
    ]
    kind, name = owner_of(workload)
    if picture.priorities and not enough:
        highest = max(picture.priorities, key=lambda each: int(each["value"]))
        return f"no WorkloadPriorityClass gives it, the highest is {highest['metadata']['name']} ({highest['value']})"
    if not enough or kind in _NOT_LABELLED:
        return ""
    return relabelled(kind, name, workload["metadata"]["namespace"], PRIORITY_LABEL, min(enough)[1])


def agreeing(picture: Picture, flavors: Sequence[str], reasons: Mapping[str, str]) -> Iterator[str]:
    """For pods that flavors with quota do not suit: what each of them says is wrong."""
    others = []
    for name in flavors:
        spec = (picture.flavor(name) or {}).get("spec") or {}
        reason = reasons.get(name, "")
        if "requested level" in reason:
            yield f"ask for a level that Topology {spec.get('topologyName')} of {name} has: {_levels(picture, spec)}"
        elif "untolerated taint" in reason and spec.get("nodeTaints"):
            yield f"tolerate {', '.join(map(_taint, spec['nodeTaints']))} in its pods, to use {name}"
        else:
            others.append(name)
    if others:
        yield f"make its node selector, affinity and tolerations agree with one of: {', '.join(others)}"


def _levels(picture: Picture, flavor: View) -> str:
    found = (each for each in picture.topologies if each["metadata"]["name"] == flavor.get("topologyName"))
    return ", ".join(str(level["nodeLabel"]) for each in found for level in each["spec"].get("levels") or ())


def _taint(taint: View) -> str:
    """As kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def answering(picture: Picture, workload: View, check: str) -> str:
    """For a workload that waits for a check: who has to agree."""
    found = next((each for each in picture.checks if each["metadata"]["name"] == check), None)
    controller = ((found or {}).get("spec") or {}).get("controllerName", "")
    if controller == _PROVISIONING:
        return f"a cluster autoscaler has to answer: kubectl get provreq -n {workload['metadata']['namespace']}"
    who = f"{controller} has to agree: " if controller else ""
    return f"{who}kubectl describe admissioncheck {check}"


def minimum_along(workload: View, pod_set: str, part: Fraction) -> str:
    """What changes with the number of its pods, where so few would be less than it says it needs."""
    for each in workload["spec"].get("podSets") or ():
        least, pods = each.get("minCount"), int(each.get("count", 1) * part)
        if each["name"] == pod_set and least is not None and pods < least:
            is_job = owner_of(workload)[0] == "Job"
            field = MINIMUM_ANNOTATION if is_job else f"the minCount of pod set {pod_set}"
            return f", and lower {field}, which is {least}"
    return ""


def less_close(workload: View) -> Iterator[str]:
    """For pods that must be together in one place, where none has room for all of them."""
    requests = [each.get("topologyRequest") or {} for each in workload["spec"].get("podSets") or ()]
    for level in sorted({str(each["required"]) for each in requests if each.get("required")}):
        yield f"kueue.x-k8s.io/podset-preferred-topology: {level} instead of required: as few of them as hold its pods"


def placing(
    picture: Picture, workload: View, stuck: Sequence[tuple[View, str]], unmatched: Sequence[str]
) -> Iterator[str]:
    """For pods that got quota and no node: what answers to the scheduler's words about each.

    `unmatched` are flavors no node has. A taint matters only on nodes the pods could otherwise go to, and a node's being
    full only if it could ever hold one of them. A changed flavor changes nothing for pods that have theirs.
    """
    ways = list(_placing(picture, stuck, unmatched))
    yield from (words for words, _ in ways)
    if any("Insufficient" in said for _, said in stuck):
        yield from _larger_nodes(picture, workload)
    if any(flavor for _, flavor in ways) and owner_of(workload)[0] in _HELD_BY_SUSPEND:
        meta = workload["metadata"]
        yield f"after that, to let this one start again: gpuaas delete workload {meta['name']} -n {meta['namespace']}"


def _placing(
    picture: Picture, stuck: Sequence[tuple[View, str]], unmatched: Sequence[str]
) -> Iterator[tuple[str, bool]]:
    """With each way whether it changes a flavor."""
    words = " ".join(said for _, said in stuck)
    pods = [pod for pod, _ in stuck]
    possible = [node for node in picture.nodes if any(has_labels(node, _node_selector(pod)) for pod in pods)]
    taints = _in_the_way(pods, possible)
    if "affinity/selector" in words and "Insufficient" not in words and not taints:
        if unmatched:
            names = ", ".join(unmatched)
            yield f"give ResourceFlavor {names} labels that nodes have, or add a node with its labels", True
        else:
            yield "make the job's node selector and the flavor's node labels agree", False
    if "untolerated taint" in words and (taints or not picture.nodes):
        named = f"a toleration for the taint {taints[0]}" if taints else "the toleration for the taint"
        yield f"put {named} into the flavor, so that every job gets it", True
    if "Insufficient" in words:
        full = "add a node that the flavor selects, or free one: its quota is larger than what the nodes have"
        yield _too_large(pods, possible) or (full, False)
    if "runtime class gpuaas-process" in words:
        yield "leave the image out: gpuaas run -- COMMAND is a process of this machine, which runs no images", False
    if not any(each in words for each in _COMPLAINTS):
        yield "see what the scheduler says: kubectl describe pod", False


def _larger_nodes(picture: Picture, workload: View) -> Iterator[str]:
    """Where the nodes of its flavor are too small, and those of another one of its queue are not."""
    if not any(larger_than_nodes(picture, workload, given_flavors(workload))):
        return
    queue = picture.cluster_queue(workload["status"]["admission"]["clusterQueue"]) or {}
    wanted = _wanted_labels(workload)
    for name in flavor_names(queue):
        labels = ((picture.flavor(name) or {}).get("spec") or {}).get("nodeLabels") or {}
        has_nodes = any(has_labels(node, labels) and has_labels(node, wanted) for node in picture.nodes)
        if labels and has_nodes and not any(larger_than_nodes(picture, workload, [name])):
            selector = ", ".join(f"{key}={value}" for key, value in labels.items())
            yield f"make it again with the node selector {selector}: nodes of flavor {name} are large enough"


def _wanted_labels(workload: View) -> dict[str, str]:
    specs = ((each.get("template") or {}).get("spec") or {} for each in workload["spec"].get("podSets") or ())
    return {key: value for spec in specs for key, value in (spec.get("nodeSelector") or {}).items()}


def _in_the_way(pods: Sequence[View], possible: Sequence[View]) -> list[str]:
    """Taints of nodes that pods could otherwise go to and do not tolerate, as kubectl writes them."""
    found = []
    for taints in ((node.get("spec") or {}).get("taints") or () for node in possible):
        for spec in ((pod.get("spec") or {}) for pod in pods):
            taint = untolerated(taints, spec.get("tolerations") or ())
            if taint is not None:
                found.append(_taint(taint))
    return list(dict.fromkeys(found))


def _node_selector(pod: View) -> Mapping[str, str]:
    return (pod.get("spec") or {}).get("nodeSelector") or {}


def _too_large(pods: Sequence[View], possible: Sequence[View]) -> tuple[str, bool] | None:
    """A pod that asks for more of something than any node has in all: nothing that ends makes room for it."""
    for pod in pods:
        for resource, asked in pod_requests(pod.get("spec") or {}).items():
            largest = max((offered(node, resource) for node in possible), key=lambda each: each.nano, default=asked)
            if asked.nano > largest.nano == 0:
                return f"give the flavor labels of nodes that have {resource}: none of those it may go to has any", True
            if asked.nano > largest.nano:
                return (
                    f"less {resource} in each pod, and more pods: one asks for {asked}, and none of the nodes it may go "
                    f"to has more than {largest}"
                ), False
    return None
