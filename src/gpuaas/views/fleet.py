"""Rows of clusters: connection, free GPUs by product, jobs, scores, and the last error with its fix.

Read from the hub's own objects alone; a worker is never asked. Linear in the clusters and placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gpuaas.client.ocm import DRAINED, SUMMARY, TROUBLE

View = Mapping[str, Any]
_PLACEMENT_LABEL: Final = "cluster.open-cluster-management.io/placement"
_SCORE: Final = "resource-usage-score"
_PARTS: Final = {"Joined": "ManagedClusterJoined", "Available": "ManagedClusterConditionAvailable"}


class FleetRow(msgspec.Struct, rename="camel"):
    name: str
    url: str
    local: bool
    accepted: bool
    joined: str  # True, False, Unknown, or empty where nothing was said yet
    available: str
    connected: str  # of MultiKueue; Unknown before its first word, empty where there is no MultiKueueCluster
    drained: bool
    gpus: list[FleetGpus]
    free_gpus: int
    total_gpus: int
    largest_gang: int
    running: int
    waiting: int
    oldest_waiting_seconds: int
    scores: dict[str, int]
    scores_by_hand: list[str]
    placements: list[str]  # namespace/name of those that select it
    problem: str
    fix: str
    labels: dict[str, str]


class FleetGpus(msgspec.Struct):
    product: str
    total: int
    free: int


def fleet_rows(
    clusters: Iterable[View],
    scores: Iterable[View],
    connections: Iterable[View],
    decisions: Iterable[View],
) -> list[FleetRow]:
    """By name, the hub itself last. `connections` are MultiKueueClusters."""
    scored = {s["metadata"]["namespace"]: s for s in scores if s["metadata"]["name"] == _SCORE}
    connected = {c["metadata"]["name"]: c for c in connections}
    selected = _selected(decisions)
    rows = [
        _row(c, scored.get(c["metadata"]["name"]), connected.get(c["metadata"]["name"]), selected) for c in clusters
    ]
    return sorted(rows, key=lambda row: (row.local, row.name))


def _row(cluster: View, score: View | None, connection: View | None, selected: Mapping[str, list[str]]) -> FleetRow:
    metadata, spec = cluster["metadata"], cluster.get("spec") or {}
    name, labels = metadata["name"], dict(metadata.get("labels") or {})
    summary = _summary(score)
    gpus = [
        FleetGpus(product, int(found.get("total", 0)), int(found.get("free", 0)))
        for product, found in sorted((summary.get("gpus") or {}).items())
    ]
    problem, fix = _problem(cluster, connection)
    configs: list[View] = spec.get("managedClusterClientConfigs") or [{}]
    return FleetRow(
        name=name,
        url=str(configs[0].get("url", "")),
        local=labels.get("local-cluster") == "true",
        accepted=bool(spec.get("hubAcceptsClient")),
        joined=_status(cluster, _PARTS["Joined"]),
        available=_status(cluster, _PARTS["Available"]),
        connected="" if connection is None else _status(connection, "Active") or "Unknown",
        drained=any(each.get("key") == DRAINED for each in spec.get("taints") or ()),
        gpus=gpus,
        free_gpus=sum(each.free for each in gpus),
        total_gpus=sum(each.total for each in gpus),
        largest_gang=int(summary.get("largestGang", 0)),
        running=int(summary.get("running", 0)),
        waiting=int(summary.get("waiting", 0)),
        oldest_waiting_seconds=int(summary.get("oldestWaitingSeconds", 0)),
        scores={s["name"]: int(s["value"]) for s in ((score or {}).get("status") or {}).get("scores") or ()},
        scores_by_hand=_by_hand(score),
        placements=selected.get(name, []),
        problem=problem,
        fix=fix,
        labels=labels,
    )


def _summary(score: View | None) -> View:
    text = (((score or {}).get("metadata") or {}).get("annotations") or {}).get(SUMMARY) or "{}"
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _by_hand(score: View | None) -> list[str]:
    """The scores that are not as they were measured last, which the condition Measured lists as name=value."""
    said = str(_condition(score, "Measured").get("message", ""))
    if not said:
        return []
    measured = set(said.removeprefix("measured: ").partition("; ")[0].split(","))
    shown = ((score or {}).get("status") or {}).get("scores") or ()
    return [each["name"] for each in shown if f"{each['name']}={each['value']}" not in measured]


def _problem(cluster: View, connection: View | None) -> tuple[str, str]:
    """What the hub's parts noted first; else what the connection or the availability says."""
    name = cluster["metadata"]["name"]
    for key, words in sorted((cluster["metadata"].get("annotations") or {}).items()):
        if key.startswith(TROUBLE):
            problem, _, fix = str(words).partition("; fix: ")
            return problem, fix
    active = _condition(connection, "Active")
    if active.get("status") == "False":
        return f"{active.get('reason')}: {active.get('message')}", f"gpuaas fleet describe {name}"
    if not (cluster.get("spec") or {}).get("hubAcceptsClient"):
        patch = '\'{"spec":{"hubAcceptsClient":true}}\''
        return "not accepted", f"kubectl patch managedcluster {name} --type merge -p {patch}"
    available = _condition(cluster, _PARTS["Available"])
    if not available:
        return "not joined yet", f"gpuaas fleet join {name} --from KUBECONFIG"
    if available.get("status") != "True":
        return str(available.get("message")), "check that the cluster runs and that the hub may reach its API server"
    return "", ""


def _selected(decisions: Iterable[View]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in decisions:
        placement = (each["metadata"].get("labels") or {}).get(_PLACEMENT_LABEL)
        for decision in (each.get("status") or {}).get("decisions") or ():
            if placement:
                found.setdefault(decision["clusterName"], []).append(f"{each['metadata']['namespace']}/{placement}")
    return {name: sorted(set(placements)) for name, placements in found.items()}


def _condition(obj: View | None, kind: str) -> View:
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == kind), {})


def _status(obj: View | None, kind: str) -> str:
    return str(_condition(obj, kind).get("status", ""))
