"""Topology assignments: the list of (domain values, pod count) of v1beta1, and the packed slices of v1beta2.

A slice holds domains of which much is alike: a value all share is written once, values that begin or end alike keep
only their middles. Where the lowest level is the host name, runs of hosts with a common prefix (`pool-a-`) get a slice
of their own if that comes out shorter. `unpack(pack(x)) == x`; which packing is chosen is Kueue's choice, so that an
object written by either side looks the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from gpuaas.api.kinds import Object
from gpuaas.base.errors import BadRequest

HOSTNAME = "kubernetes.io/hostname"
MAX_DOMAINS = 100_000  # in one slice
MAX_SLICES = 1_000

Domain = Mapping[str, Any]  # {"values": [...], "count": n}


def unpack(assignment: Mapping[str, Any]) -> list[Object]:
    """The domains of a v1beta2 assignment, one by one."""
    return [domain for piece in assignment.get("slices") or () for domain in _domains(piece)]


def _domains(piece: Mapping[str, Any]) -> Iterator[Object]:
    counts = piece["podCounts"]
    for at in range(piece["domainCount"]):
        count = counts["universal"] if "universal" in counts else counts["individual"][at]
        yield {"values": [_value(level, at) for level in piece["valuesPerLevel"]], "count": count}


def _value(level: Mapping[str, Any], at: int) -> str:
    if "universal" in level:
        return str(level["universal"])
    individual = level["individual"]
    return f"{individual.get('prefix', '')}{individual['roots'][at]}{individual.get('suffix', '')}"


def pack(levels: Sequence[str], domains: Sequence[Domain]) -> Object:
    """The v1beta2 assignment of these domains. Conversion comes before validation, so the shape is checked here."""
    if not all(_well_formed(domain, len(levels)) for domain in domains):
        raise BadRequest(
            f"topologyAssignment.domains: each needs a count and a value for each of the {len(levels)} levels"
        )
    by_prefix = _packed(levels, _runs(levels, domains))
    if len(by_prefix["slices"]) <= 1 or len(domains) > MAX_DOMAINS:
        return by_prefix
    single = _packed(levels, [list(domains)])
    return single if _size(single) < _size(by_prefix) else by_prefix


def _well_formed(domain: Any, depth: int) -> bool:
    if not isinstance(domain, dict) or type(domain.get("count")) is not int:
        return False
    values = domain.get("values")
    return isinstance(values, list) and len(values) == depth and all(isinstance(value, str) for value in values)


def _packed(levels: Sequence[str], runs: Sequence[Sequence[Domain]]) -> Object:
    slices = [
        _slice(len(levels), run[start : start + MAX_DOMAINS])
        for run in runs
        for start in range(0, len(run), MAX_DOMAINS)
    ]
    return {"levels": list(levels), "slices": slices}


def _slice(depth: int, domains: Sequence[Domain]) -> Object:
    counts = [domain["count"] for domain in domains]
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_level([domain["values"][level] for domain in domains]) for level in range(depth)],
        "podCounts": {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts},
    }


def _level(values: Sequence[str]) -> Object:
    low, high = min(values), max(values)
    if low == high:
        return {"universal": low}
    prefix = _common(low, high)
    backwards = [value[::-1] for value in values]
    suffix = _common(min(backwards), max(backwards))[::-1]
    shortest = min(len(value) for value in values)
    if len(prefix) + len(suffix) > shortest:
        prefix = prefix[: shortest - len(suffix)]
    individual: Object = {"prefix": prefix} if prefix else {}
    if suffix:
        individual["suffix"] = suffix
    individual["roots"] = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    return {"individual": individual}


def _common(low: str, high: str) -> str:
    """The prefix of two strings; of the smallest and largest of a set, it is the prefix of all."""
    for at, (one, other) in enumerate(zip(low, high, strict=False)):
        if one != other:
            return low[:at]
    return low[: len(high)]


def _size(assignment: Object) -> int:
    return len(msgspec.json.encode(assignment))


# -- runs of hosts with a common prefix -------------------------------------------------------------------------------


def _runs(levels: Sequence[str], domains: Sequence[Domain]) -> list[list[Domain]]:
    if not domains:
        return []
    if len(domains) == 1 or not levels or levels[-1] != HOSTNAME:
        return [list(domains)]
    keys = _prefix_keys([domain["values"][-1] for domain in domains])
    keyed = groupby(zip(keys, domains, strict=True), key=lambda pair: pair[0])
    return [[domain for _, domain in run] for _, run in keyed]


def _prefix_keys(hosts: Sequence[str]) -> list[str]:
    """For each host the longest prefix ending in `-` that another host shares, shortened until the runs are few enough."""
    prefixes = [[host[: at + 1] for at, char in enumerate(host[:-1]) if char == "-"] for host in hosts]
    shared = Counter(prefix for own in prefixes for prefix in own)
    for depth in range(max(map(len, prefixes)), 0, -1):
        keys = [next((prefix for prefix in reversed(own[:depth]) if shared[prefix] > 1), "") for own in prefixes]
        lengths = (sum(1 for _ in run) for _, run in groupby(keys))
        if sum(-(-length // MAX_DOMAINS) for length in lengths) <= MAX_SLICES:
            return keys
    return [""] * len(hosts)
