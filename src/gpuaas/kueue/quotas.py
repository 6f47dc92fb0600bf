"""Queues, cohorts, flavors, namespaces, topologies and nodes as engine values (`kueue.x-k8s.io/v1beta2` in)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.quantity import Quantity, parse_quantity
from gpuaas.engine.amounts import MAX_INT64, UNLIMITED
from gpuaas.engine.constraints import Requirement, Term
from gpuaas.engine.topology_values import Node, Topology
from gpuaas.engine.values import (
    Check,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorQuotas,
    Fungibility,
    LocalQueue,
    Namespace,
    Preemption,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
    StopPolicy,
)
from gpuaas.kueue.pods import requirements, taints, tolerations, units
from gpuaas.kueue.resources import Object

BORROW_STOPS = frozenset({"MayStopSearch", "Borrow"})
PREEMPT_STOPS = frozenset({"MayStopSearch", "Preempt"})


def flavor(obj: Object) -> Flavor:
    spec = obj.get("spec") or {}
    return Flavor(
        obj["metadata"]["name"],
        tuple(sorted((spec.get("nodeLabels") or {}).items())),
        taints(spec.get("nodeTaints")),
        tolerations(spec.get("tolerations")),
        spec.get("topologyName"),
    )


def cohort(obj: Object) -> Cohort:
    spec = obj.get("spec") or {}
    return Cohort(obj["metadata"]["name"], spec.get("parentName") or None, _groups(spec), _weight(spec))


def cluster_queue(obj: Object, checks: Mapping[str, Object] | None = None) -> ClusterQueue:
    """`checks` are the AdmissionCheck objects by name; without them every check counts as active."""
    spec = obj.get("spec") or {}
    preemption = spec.get("preemption") or {}
    # The API server fills in both policies. Where it did not, one that is missing beside the other is no policy at all.
    undefaulted = "" if preemption else "Never"
    within = preemption.get("borrowWithinCohort") or {}
    rules = spec.get("flavorFungibility") or {}
    scope = spec.get("admissionScope") or {}
    return ClusterQueue(
        name=obj["metadata"]["name"],
        groups=_groups(spec),
        cohort=spec.get("cohortName") or None,
        strict=spec.get("queueingStrategy") == "StrictFIFO",
        namespaces=label_term(spec.get("namespaceSelector")),
        fungibility=Fungibility(
            rules.get("whenCanBorrow", "MayStopSearch") in BORROW_STOPS,
            rules.get("whenCanPreempt", "TryNextFlavor") in PREEMPT_STOPS,
            rules.get("preference") == "PreemptionOverBorrowing",
        ),
        preemption=PreemptionPolicy(
            Preemption(preemption.get("withinClusterQueue", undefaulted)),
            Preemption(preemption.get("reclaimWithinCohort", undefaulted)),
            (within.get("policy") or "Never") != "Never",
            within.get("maxPriorityThreshold"),
        ),
        checks=_checks(spec, checks),
        stop=StopPolicy(spec.get("stopPolicy") or "None"),
        weight=_weight(spec),
        usage_based=scope.get("admissionMode") == "UsageBasedAdmissionFairSharing",
    )


def local_queue(obj: Object) -> LocalQueue:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    return LocalQueue(
        metadata["namespace"],
        metadata["name"],
        spec.get("clusterQueue", ""),
        StopPolicy(spec.get("stopPolicy") or "None"),
        _weight(spec),
    )


def cluster_queue_named(local_queue: Mapping[str, Any]) -> str:
    """The ClusterQueue a LocalQueue leads to; "" where it does not say."""
    return str((local_queue.get("spec") or {}).get("clusterQueue", ""))


def namespace(obj: Object) -> Namespace:
    metadata = obj["metadata"]
    return Namespace(metadata["name"], tuple(sorted((metadata.get("labels") or {}).items())))


def topology(obj: Object) -> Topology:
    levels = (obj.get("spec") or {}).get("levels") or ()
    return Topology(obj["metadata"]["name"], tuple(level["nodeLabel"] for level in levels))


def node(obj: Object, other_usage: Mapping[str, int] | None = None) -> Node:
    """`other_usage` is what pods that are not placed through a topology take of it."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    return Node(
        name=obj["metadata"]["name"],
        labels=tuple(sorted((obj["metadata"].get("labels") or {}).items())),
        allocatable=tuple(
            sorted((name, units(name, parse_quantity(q))) for name, q in (status.get("allocatable") or {}).items())
        ),
        taints=taints(spec.get("taints")),
        usable=ready and not spec.get("unschedulable", False),
        other_usage=tuple(sorted((other_usage or {}).items())),
    )


def label_term(selector: Object | None) -> Term | None:
    """A label selector as requirements; none at all selects nothing."""
    if selector is None:
        return None
    labels = tuple(
        Requirement(key, "In", (value,)) for key, value in sorted((selector.get("matchLabels") or {}).items())
    )
    return labels + requirements(selector.get("matchExpressions"))


def quota_units(resource: str, amount: Quantity) -> int:
    """An amount of quota: what 64 bits cannot count is unlimited."""
    limit = MAX_INT64 // 1000 if resource == "cpu" else MAX_INT64
    return UNLIMITED if amount.value >= limit else units(resource, amount)


def _groups(spec: Object) -> tuple[ResourceGroup, ...]:
    return tuple(
        ResourceGroup(
            tuple(group.get("coveredResources") or ()),
            tuple(
                FlavorQuotas(f["name"], tuple(_quotas(f.get("resources") or ()))) for f in group.get("flavors") or ()
            ),
        )
        for group in spec.get("resourceGroups") or ()
    )


def _quotas(resources: Iterable[Object]) -> Iterable[tuple[str, Quota]]:
    for resource in resources:
        name = resource["name"]
        nominal, borrowing, lending = (
            None if resource.get(field) is None else quota_units(name, parse_quantity(resource[field]))
            for field in ("nominalQuota", "borrowingLimit", "lendingLimit")
        )
        yield name, Quota(nominal or 0, borrowing, lending)


def _weight(spec: Mapping[str, Any]) -> float:
    weight = (spec.get("fairSharing") or {}).get("weight")
    return 1.0 if weight is None else parse_quantity(weight).nano / 1e9


def _checks(spec: Object, objects: Mapping[str, Object] | None) -> tuple[Check, ...]:
    rules = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return tuple(_check(rule, None if objects is None else objects.get(rule["name"])) for rule in rules)


def _check(rule: Object, obj: Object | None) -> Check:
    controller = ((obj or {}).get("spec") or {}).get("controllerName", "")
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    active = obj is None or any(c.get("type") == "Active" and c.get("status") == "True" for c in conditions)
    return Check(rule["name"], frozenset(rule.get("onFlavors") or ()), controller, active)
