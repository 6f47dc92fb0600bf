"""A preemption as the ledger keeps it: made from the decision and the two workloads, at the moment of the decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from gpuaas.api.owner import owner_named
from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.devices.shares import NO_SHARES, Shares, share_of
from gpuaas.engine.amounts import text
from gpuaas.engine.plan import Preempted
from gpuaas.kueue.workload_state import conditions_of, is_true

View = Mapping[str, Any]


def preemption_entry(
    decided: Preempted,
    victim: View,
    preemptor: View | None,
    now: float,
    shares_of: Callable[[str], Shares] | None = None,
) -> dict[str, Any]:
    """`shares_of(flavor)`: into how many shares its cards are divided; a slice or share counts as its part of a card."""
    ran = _ran_seconds(victim, now)
    freed: dict[str, int] = {}
    cards = Fraction(0)
    for flavor, resource, amount in decided.frees:
        freed[resource] = freed.get(resource, 0) + amount
        if is_gpu(resource):
            cards += amount * share_of(resource, shares_of(flavor) if shares_of is not None else NO_SHARES)
    return {
        "apiVersion": "gpuaas.dev/v1alpha1",
        "kind": "Preemption",
        "metadata": {
            "generateName": f"{victim['metadata']['name'][:50]}-",
            "namespace": victim["metadata"]["namespace"],
        },
        "spec": {
            "at": rfc3339(now),
            "victim": _party(victim, decided.key, decided.cluster_queue),
            "preemptor": _party(preemptor, decided.by, decided.by_queue),
            "rule": decided.rule.value,
            "message": decided.message,
            "freed": {resource: text(resource, amount) for resource, amount in sorted(freed.items())},
            "ranSeconds": ran,
            "gpuSecondsLost": round(cards * ran),
        },
    }


def is_gpu(resource: str) -> bool:
    """`nvidia.com/gpu`, `amd.com/gpu`, shared and MIG slices: what is given out of cards. How much of a card one of it is:
    devices.shares."""
    name = resource.rpartition("/")[2]
    return "/" in resource and (name.startswith(("gpu", "mig-")))


def _ran_seconds(victim: View, now: float) -> int:
    admitted = conditions_of(victim).get("Admitted")
    if admitted is None or not is_true(admitted):
        return 0
    return max(0, int(now - parse_rfc3339(admitted["lastTransitionTime"])))


def _party(workload: View | None, key: str, cluster_queue: str) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    found = workload or {"metadata": {}, "spec": {}}
    owners = found["metadata"].get("ownerReferences") or ()
    owner = next((f"{each['kind']}/{each['name']}" for each in owners if each.get("controller")), "")
    party = {
        "namespace": namespace,
        "name": name,
        "uid": found["metadata"].get("uid", ""),
        "clusterQueue": cluster_queue,
        "priority": (found.get("spec") or {}).get("priority") or 0,
    }
    return {**party, **{key: value for key, value in (("owner", owner), ("user", owner_named(found))) if value}}
