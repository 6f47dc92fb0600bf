"""The sentences and figures behind the answer of `why` for a workload that waits: each line once, the telling ones first.

Pure words from the engine's explanation and from the nodes; which answer is given is decided in `why`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from gpuaas.base.quantity import ZERO, Quantity, parse_quantity
from gpuaas.engine.amounts import text
from gpuaas.engine.explain import Explanation, Holder, Numbers
from gpuaas.engine.reasons import Token
from gpuaas.kueue.activity import flavor_names
from gpuaas.kueue.explain.snapshot import Picture

View = Mapping[str, Any]
_MOST_LINES = 8
_NEVER = (Token.EXCEEDS_MAX_QUOTA, Token.NO_MATCHING_FLAVOR)
_UNCOVERED = re.compile(r"resource (\S+) unavailable in ClusterQueue")


def sentence(found: Explanation) -> str:
    """The one reason, short; upstream's whole message is in the workload's condition."""
    if found.token in _NEVER or outgrown(found):
        return _never(found)
    if found.token is Token.WAITING_FOR_QUOTA and (best := lacking(found)) is not None:
        return _waiting(found, best)
    if found.token is Token.BEHIND_OTHERS:
        others = "none" if not found.position else f"{found.position} other(s)"
        return f"it fits now: ClusterQueue {found.cluster_queue} looks at it next, with {others} before it"
    if found.token is Token.WAITING_FOR_PREEMPTED and found.victims:
        return f"it takes the place of {', '.join(key for key, _ in found.victims[:3])}, and waits until that is gone"
    return (found.message or "it is about to be looked at").rstrip(".").replace("The workload", "it", 1)


def mismatched(found: Explanation) -> list[str]:
    """Flavors with quota enough that its pods cannot use, where those they could use have none at all."""
    if found.token not in _NEVER:
        return []
    usable = [each for each in found.numbers if not _unsuitable(each) and each.total > each.capacity]
    enough = {each.flavor for each in found.numbers if _unsuitable(each) and each.capacity >= each.total > 0}
    return sorted(enough) if all(each.capacity == 0 for each in usable) else []


def outgrown(found: Explanation) -> bool:
    """It grew beyond what there ever is; whether that fits is otherwise asked only of what comes on top, as upstream does."""
    usable = [each for each in found.numbers if not _unsuitable(each)]
    larger = {each.resource for each in usable if each.held and each.total > each.capacity}
    return any(all(each.total > each.capacity for each in usable if each.resource == one) for one in larger)


def uncovered(found: Explanation) -> str:
    """A resource the queue has no quota for at all; upstream says so in one of its sentences only."""
    said = _UNCOVERED.search(found.message or "")
    return said[1] if said else ""


def _never(found: Explanation) -> str:
    if resource := uncovered(found):
        return f"it asks for {resource}, and ClusterQueue {found.cluster_queue} has no quota for that at all"
    queue, enough = found.cluster_queue, mismatched(found)
    if enough:
        do_not = "has quota, but does not match" if len(enough) == 1 else "have quota, but do not match"
        return f"no flavor of ClusterQueue {queue} suits its pods: {', '.join(enough)} {do_not}"
    most = _most(found)
    if most is None:
        return (found.message or f"no flavor of ClusterQueue {queue} suits it").rstrip(".")
    asked, limit = text(most.resource, most.total), text(most.resource, most.capacity)
    has = f" (it has {text(most.resource, most.held)})" if most.held else ""
    never = f"ClusterQueue {queue} can never give more than {limit} of one flavor"
    return f"it asks for {asked} {most.resource}{has}; {never}"


def _most(found: Explanation) -> Numbers | None:
    """Of the flavors that can never give what is asked, the one that could give most."""
    if found.token not in _NEVER and not outgrown(found):
        return None
    impossible = [each for each in found.numbers if not _unsuitable(each) and each.total > each.capacity]
    return max(impossible, key=lambda each: each.capacity, default=None)


def _waiting(found: Explanation, best: Numbers) -> str:
    asked, free = text(best.resource, best.requested), text(best.resource, best.free)
    left = free if best.free else "none"
    more = f" more than the {text(best.resource, best.held)} it has" if best.held else ""
    there = f"{left} of ClusterQueue {found.cluster_queue}'s {best.flavor} is free"
    return f"it asks for {asked} {best.resource}{more}, and {there}"


def lacking(found: Explanation) -> Numbers | None:
    """What is short: of flavors that could ever hold it the one that lacks least, GPUs before cpu and memory."""
    short = [each for each in _together(found) if each.missing > 0]
    possible = [each for each in short if each.capacity >= each.total] or short
    return min(possible, key=lambda each: (each.resource in ("cpu", "memory"), each.missing), default=None)


def ways_out(
    found: Explanation,
    prioritized: Callable[[int], str] = lambda _: "",
    along: Callable[[str, Fraction], str] = lambda _pod_set, _part: "",
) -> Iterator[str]:
    """The engine's remedies; more quota only where the queue has some already.

    `prioritized` says how to get a priority, `along` what else changes when a pod set has only a part of its pods."""
    if (most := _most(found)) is not None and most.capacity:
        smaller = f"ask for at most {text(most.resource, most.capacity)} {most.resource}"
        yield smaller + along(most.pod_set, Fraction(most.capacity, most.total))
    never = {each.flavor for each in found.numbers if each.requested > 0 and each.capacity == 0}
    best = lacking(found)
    for remedy in found.remedies:
        if remedy.kind == "Quota" and best is not None and any(flavor in never for flavor, _, _ in remedy.amounts):
            yield f"{text(best.resource, best.missing)} more {best.resource} in {best.flavor}"
        elif remedy.kind == "Priority" and (how := prioritized(remedy.number or 0)):
            yield f"{remedy.words}: {how}"
        elif remedy.kind == "FewerPods":
            ((pod_set, _, count),) = remedy.amounts
            yield remedy.words + along(pod_set, Fraction(remedy.number or 0, count))
        elif remedy.kind != "Nothing":
            yield remedy.words


def quota_lines(found: Explanation) -> Iterator[str]:
    if found.position is not None:
        before = f", {found.position} before it" if found.position else ", none before it"
        yield f"position {found.position + 1} in ClusterQueue {found.cluster_queue}{before}"
    if found.token is Token.BEHIND_OTHERS or uncovered(found):
        return  # figures would only confuse
    suitable = [each for each in _together(found) if each.capacity] or _together(found)
    short = [each for each in suitable if each.missing > 0]
    for numbers in (short or suitable)[:_MOST_LINES]:
        yield numbers.line()
        yield from _holders(numbers)
    for flavor, reason in sorted({(each.flavor, each.reason) for each in found.numbers if _unsuitable(each)}):
        yield reason if flavor in reason else f"flavor {flavor}: {reason}"
    for key, rule in found.victims:
        yield f"would preempt {key} ({rule.value})"


def _together(found: Explanation) -> list[Numbers]:
    """One line for a flavor and a resource: what all pod sets that could use it ask for."""
    merged: dict[tuple[str, str], Numbers] = {}
    for each in found.numbers:
        if _unsuitable(each):
            continue
        key = (each.flavor, each.resource)
        before = merged.get(key, replace(each, requested=0, held=0))
        requested, held = each.requested + before.requested, each.held + before.held
        merged[key] = replace(each, requested=requested, held=held, missing=max(0, requested - each.free))
    return list(merged.values())


def _unsuitable(numbers: Numbers) -> bool:
    """The pods cannot use the flavor at all: a taint, a node selector, a flavor that does not exist."""
    return bool(numbers.reason) and not numbers.reason.startswith("insufficient ")


def _holders(numbers: Numbers) -> Iterator[str]:
    for limit in numbers.limits[:3] if numbers.missing else ():
        amount, keeps = text(numbers.resource, limit.amount), text(numbers.resource, limit.keeps)
        yield f"  {keeps} more free, kept from it by the {limit.field} of {limit.owner}: {amount}"
    for holder in numbers.holders[:3]:
        largest = _largest(numbers.resource, holder)
        used, nominal = text(numbers.resource, holder.used), text(numbers.resource, holder.nominal)
        more = f", {text(numbers.resource, holder.used - holder.nominal)} of it borrowed" * (
            holder.used > holder.nominal
        )
        yield f"  held by {holder.cluster_queue}: {used} (its own: {nominal}{more})" + (
            f": {largest}" if largest else ""
        )


def _largest(resource: str, holder: Holder) -> str:
    """Its largest users, and how much the others have."""
    shown = holder.largest[:3]
    rest = holder.used - sum(amount for _, amount in shown)
    named = [f"{key} {text(resource, amount)}" for key, amount in shown]
    return ", ".join([*named, *([f"others {text(resource, rest)}"] if named and rest > 0 else [])])


def fewer_would_do(picture: Picture, workload: View) -> Iterator[str]:
    """Pod sets that may also start smaller than they are asked for."""
    reduces = picture.configuration is None or picture.configuration.counts.reduces
    for each in workload["spec"].get("podSets") or ():
        if reduces and each.get("minCount") is not None:
            yield f"pod set {each['name']} may start with fewer: {each['minCount']} of {each['count']} pods at least"


def flavor_lines(picture: Picture, workload: View) -> Iterator[str]:
    """Flavors of its queue that no node has."""
    for name in flavors_without_nodes(picture, workload):
        yield from no_node_has(picture, name)


def flavors_without_nodes(picture: Picture, workload: View) -> Iterator[str]:
    return (name for name in _flavors(picture, workload) if any(no_node_has(picture, name)))


def _flavors(picture: Picture, workload: View) -> list[str]:
    """Those of its queue."""
    local = picture.local_queue(workload["metadata"]["namespace"], (workload.get("spec") or {}).get("queueName", ""))
    cluster = picture.cluster_queue(local["spec"]["clusterQueue"]) if local is not None else None
    return flavor_names(cluster or {})


def given_flavors(workload: View) -> list[str]:
    """Those it was admitted to."""
    given = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    return sorted({name for each in given for name in (each.get("flavors") or {}).values()})


def larger_than_nodes(
    picture: Picture, workload: View, flavors: Sequence[str] | None = None
) -> Iterator[tuple[str, str]]:
    """What pods ask too much of, and how it stands: pods that none of the nodes would hold that its flavors and its selector leave, were they empty."""
    names = _flavors(picture, workload) if flavors is None else flavors
    wanted = [((picture.flavor(name) or {}).get("spec") or {}).get("nodeLabels") or {} for name in names]
    for pod_set in workload["spec"].get("podSets") or ():
        spec = (pod_set.get("template") or {}).get("spec") or {}
        nodes = [
            node
            for node in picture.nodes
            if has_labels(node, spec.get("nodeSelector") or {}) and any(has_labels(node, each) for each in wanted)
        ]
        for resource, asked in pod_requests(spec).items():
            largest = max((offered(node, resource) for node in nodes), key=lambda each: each.nano, default=asked)
            if asked.nano > largest.nano:
                has = f"none of the nodes it may go to has more than {largest}"
                yield resource, f"a pod of {pod_set['name']} asks for {asked} {resource}, and {has}"


def pod_requests(spec: View) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}  # as pods are defaulted
        for resource, amount in asked.items():
            total[resource] = total.get(resource, ZERO) + parse_quantity(amount)
    return total


def offered(node: View, resource: str) -> Quantity:
    return parse_quantity(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))


def no_node_has(picture: Picture, name: str) -> Iterator[str]:
    labels = ((picture.flavor(name) or {}).get("spec") or {}).get("nodeLabels") or {}
    if labels and picture.nodes and not any(has_labels(node, labels) for node in picture.nodes):
        yield f"flavor {name} matches none of {len(picture.nodes)} nodes{_nearest_label(picture, labels)}"


def has_labels(node: View, labels: Mapping[str, str]) -> bool:
    found = node["metadata"].get("labels") or {}
    return all(found.get(key) == value for key, value in labels.items())


def _nearest_label(picture: Picture, labels: Mapping[str, str]) -> str:
    for key, value in labels.items():
        have = sorted({(node["metadata"].get("labels") or {}).get(key, "") for node in picture.nodes} - {""})
        if value not in have:
            return f": they have {key}={'|'.join(have[:4]) or 'nothing'}, it wants {value}"
    return ""
