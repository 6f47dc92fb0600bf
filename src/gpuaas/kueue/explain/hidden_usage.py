"""What workloads hold that the user may not see: the queues' statuses less what can be seen.

Someone who may read the quotas but only the workloads of one namespace would otherwise see that everything others use
is free. What is left over stands in the picture as one workload for each ClusterQueue, which is no preemption candidate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpuaas.base.quantity import ZERO, Quantity, parse_quantity
from gpuaas.engine.explain import Explanation, Holder, Remedy
from gpuaas.kueue.workloads import holds_quota

Object = dict[str, Any]
Held = dict[tuple[str, str], Quantity]  # by flavor and resource
NAMESPACE = "other-namespaces"
_STAND_IN = re.compile(rf"\b{NAMESPACE}/in-[a-z0-9.-]*[a-z0-9]")
_NUMBER = re.compile(r"^[0-9]+ workload\(s\) leaving")
_LONG_AGO = "1970-01-01T00:00:00Z"
_HIGHEST = 2**31 - 1


def unseen(cluster_queues: Iterable[Mapping[str, Any]], workloads: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    seen: dict[str, Held] = {}
    for obj in filter(holds_quota, workloads):
        admission = obj["status"]["admission"]
        held = seen.setdefault(admission["clusterQueue"], {})
        for given in admission.get("podSetAssignments") or ():
            for resource, amount in (given.get("resourceUsage") or {}).items():
                key = ((given.get("flavors") or {}).get(resource, ""), resource)
                held[key] = held.get(key, ZERO) + parse_quantity(amount)
    for queue in cluster_queues:
        name = queue["metadata"]["name"]
        left = _left(queue, seen.get(name, {}))
        if left:
            yield _stand_in(name, left)


def hidden(found: Explanation, may_see: Callable[[str], bool]) -> Explanation:
    """What an engine that knows all workloads explains, for someone who may see only those of some namespaces.

    Amounts stay: the queues' statuses tell them too. A workload that may not be seen is named as its stand-in is."""
    name = f"{NAMESPACE}/in-{found.cluster_queue}"

    def shown(key: str) -> str:
        return key if not key or may_see(key.partition("/")[0]) else name

    def holder(each: Holder) -> Holder:
        largest = tuple((shown(key), amount) for key, amount in each.largest)
        others = sum(amount for key, amount in largest if key == name)
        seen = tuple(pair for pair in largest if pair[0] != name)
        return replace(each, largest=(*seen, (f"{NAMESPACE}/in-{each.cluster_queue}", others)) if others else seen)

    def remedy(each: Remedy) -> Remedy:
        keys = tuple(dict.fromkeys(map(shown, each.keys)))
        if keys == each.keys:
            return each
        return replace(each, keys=keys, words=f"{len(keys)} workload(s) leaving: {', '.join(keys)}")

    return replace(
        found,
        first=shown(found.first),
        victims=tuple({shown(key): rule for key, rule in found.victims}.items()),
        numbers=tuple(replace(each, holders=tuple(map(holder, each.holders))) for each in found.numbers),
        remedies=tuple(map(remedy, found.remedies)),
    )


def in_words(text: str) -> str:
    """What stands for others has a name that would lead nowhere: called what it is."""
    named = _STAND_IN.sub("jobs of other namespaces", text)
    return named if named == text else _NUMBER.sub("whose leaving would help", named)  # how many they are is not known


def _left(queue: Mapping[str, Any], seen: Held) -> Held:
    left: Held = {}
    for flavor in (queue.get("status") or {}).get("flavorsReservation") or ():
        for each in flavor.get("resources") or ():
            key = (flavor["name"], each["name"])
            amount = parse_quantity(each.get("total", 0)) - seen.get(key, ZERO)
            if amount.nano > 0:
                left[key] = amount
    return left


def _stand_in(queue: str, left: Held) -> Object:
    flavors = sorted({flavor for flavor, _ in left})
    names = {flavor: f"set-{number}" for number, flavor in enumerate(flavors)}
    given = [
        {
            "name": names[flavor],
            "count": 1,
            "flavors": {resource: flavor for of, resource in left if of == flavor},
            "resourceUsage": {resource: str(amount) for (of, resource), amount in left.items() if of == flavor},
        }
        for flavor in flavors
    ]
    sets = [{"name": name, "count": 1, "template": {"spec": {"containers": []}}} for name in names.values()]
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "", "message": "", "lastTransitionTime": _LONG_AGO}
    metadata = {"name": f"in-{queue}", "namespace": NAMESPACE, "uid": f"unseen-{queue}", "creationTimestamp": _LONG_AGO}
    return {
        "metadata": {**metadata, "generation": 1},
        "spec": {"queueName": "", "priority": _HIGHEST, "podSets": sets},
        "status": {"conditions": [reserved], "admission": {"clusterQueue": queue, "podSetAssignments": given}},
    }
