"""Publishes the AddOnPlacementScore `resource-usage-score` of each cluster, measured on the cluster every few seconds.

`validUntil` is always set and moved on while the cluster answers, so that the scores of a cluster that died stop counting.
A score that a person wrote (`kubectl patch --subresource=status`) stays: the condition Measured lists the values that were
measured, in the same write as the scores, and a score that differs from its entry there is a person's. Deleting the object
has everything measured again.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.kubeconfig import KubeconfigError
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.ocm import MANAGED_CLUSTERS, SCORES, SUMMARY
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import NODES, PODS, SECRETS
from gpuaas.fleet.hub.heartbeat import all_of
from gpuaas.fleet.hub.names import (
    AGENT_SECRET,
    SCORE,
    condition,
    condition_of,
    is_accepted,
    is_local,
    with_conditions,
)
from gpuaas.fleet.hub.trouble import Trouble
from gpuaas.fleet.hub.usage import Summary, measure
from gpuaas.fleet.hub.workers import Workers
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import annotations_of, is_deleting
from gpuaas.runtime.writes import write_status

EVERY: Final = 10.0
VALID_FOR: Final = 60.0
MEASURED: Final = "Measured"
_PATIENCE: Final = 30.0
_RETRY: Final = 10.0
_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


def status_with(known: Mapping[str, Any] | None, scores: Mapping[str, int], now: float) -> Object:
    """The status after a measurement; scores that a person wrote keep their values, and a later end of theirs counts."""
    status = (known or {}).get("status") or {}
    last = _measured(known)
    by_hand = {name: value for name, value in _values(status).items() if last.get(name) != value}
    shown = {**scores, **by_hand}
    listed = ",".join(f"{name}={value}" for name, value in scores.items() if name not in by_hand)
    words = f"measured: {listed}" + (f"; set by hand: {','.join(sorted(by_hand))}" if by_hand else "")
    said = [
        condition("ScoreAvailable", "True", "ScoreUpdated", "Scores are up to date"),
        condition(MEASURED, "False" if by_hand else "True", "SetByHand" if by_hand else "Measured", words),
    ]
    return {
        "conditions": with_conditions(status.get("conditions"), said, now),
        "scores": [{"name": name, "value": value} for name, value in shown.items()],
        "validUntil": rfc3339(max(now + VALID_FOR, _end(status) if by_hand else 0.0)),
    }


def _values(status: Mapping[str, Any]) -> dict[str, int]:
    return {each["name"]: int(each["value"]) for each in status.get("scores") or ()}


def _measured(known: Mapping[str, Any] | None) -> dict[str, int]:
    """What was written at the last measurement, by name; nothing where a person wrote the whole status."""
    words = str((condition_of(known, MEASURED) or {}).get("message", ""))
    entries = words.removeprefix("measured: ").partition("; ")[0].split(",")
    found: dict[str, int] = {}
    for name, _, value in (each.partition("=") for each in entries):
        with contextlib.suppress(ValueError):
            found[name] = int(value)
    return found


def _end(status: Mapping[str, Any]) -> float:
    try:
        return parse_rfc3339(str(status.get("validUntil") or ""))
    except ValueError:
        return 0.0


class ScoreController(Controller):
    """Keys are clusters."""

    name = "score-publisher"
    workers = 8

    def __init__(self, deps: Deps, workers: Workers) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._workers = workers
        self._clusters = self.follow(of(MANAGED_CLUSTERS), lambda c: (c["metadata"]["name"],), by=_decides)
        self.follow(of(SECRETS), _of_cluster)
        self._scores = of(SCORES)
        self._followed.append(self._scores)
        self._trouble = Trouble(deps, "scores")

    async def reconcile(self, key: str) -> Requeue | None:
        cluster = self._clusters.get("", key)
        if cluster is None or is_deleting(cluster) or not is_accepted(cluster) or is_local(cluster):
            return None
        try:
            client = self._workers.of(key)
            if client is None:
                return None
            async with asyncio.timeout(_PATIENCE):
                scores, summary = await look(client, self.clock.now())
        except (ApiError, OSError, TimeoutError, KubeconfigError) as error:
            await self._trouble.note(key, error)
            return Requeue(_RETRY)
        await self._trouble.clear(key)
        await self._publish(key, scores, summary)
        return Requeue(EVERY)

    async def _publish(self, cluster: str, scores: Mapping[str, int], summary: Summary) -> None:
        """Nothing is written while nothing has changed and more than half of the validity is left."""
        known, now = self._scores.get(cluster, SCORE), self.clock.now()
        status = status_with(known, scores, now)
        if known is not None and _is_fresh(known, status, summary, now):
            return
        summary.at = rfc3339(now)
        annotations = {SUMMARY: msgspec.json.encode(summary).decode()}
        if known is None:
            head = {"apiVersion": SCORES.api_version, "kind": SCORES.kind}
            metadata = {"name": SCORE, "namespace": cluster, "annotations": annotations}
            try:
                known = await self.client.create(SCORES, {**head, "metadata": metadata}, cluster)
            except (AlreadyExists, NotFound):
                return  # its namespace comes or goes; the next look sees which
        elif annotations_of(known).get(SUMMARY) != annotations[SUMMARY]:
            known = await self.client.patch(SCORES, SCORE, {"metadata": {"annotations": annotations}}, cluster)
        await write_status(self.client, SCORES, known, status)


def _is_fresh(known: Mapping[str, Any], status: Mapping[str, Any], summary: Summary, now: float) -> bool:
    before = known.get("status") or {}
    try:
        said = msgspec.json.decode(str(annotations_of(known).get(SUMMARY) or "{}"), type=Summary)
    except msgspec.DecodeError:
        return False
    said.at = ""
    same = (
        before.get("scores") == status["scores"]
        and said == summary
        and _measured(known) == _measured({"status": status})
    )
    return same and _end(before) - now > VALID_FOR / 2


async def look(client: Client, now: float) -> tuple[dict[str, int], Summary]:
    nodes = await all_of(client, NODES)
    pods = await all_of(client, PODS, fields=_UNFINISHED)
    workloads = await all_of(client, WORKLOADS)
    return measure(nodes, pods, workloads, now)


def _decides(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    return is_accepted(cluster), cluster["metadata"].get("deletionTimestamp")


def _of_cluster(secret: Mapping[str, Any]) -> Iterable[str]:
    metadata = secret["metadata"]
    return (metadata["namespace"],) if metadata["name"] == AGENT_SECRET else ()
