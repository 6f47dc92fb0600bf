"""Placements: their PlacementDecisions, counts and conditions follow what `gpuaas.placement` decides.

Whatever a decision depends on queues every Placement; news that come together are looked at together. A decision that may
change with time alone (a toleration or a score runs out) is looked at again at that moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.errors import NotFound
from gpuaas.client.ocm import DECISIONS, PLACEMENTS
from gpuaas.client.protocol import Object
from gpuaas.fleet.hub.names import PLACEMENT_LABEL, condition, with_conditions
from gpuaas.fleet.hub.view import FleetView, placement_of, scored, standing, to_all
from gpuaas.placement.groups import Group
from gpuaas.placement.schedule import Result, disabled
from gpuaas.placement.values import GROUP_INDEX_LABEL, GROUP_NAME_LABEL
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import Key, controller_reference, key_of, labels_of
from gpuaas.runtime.writes import write_status

MOST_IN_ONE: Final = 100  # clusters of one PlacementDecision
TOGETHER: Final = 0.05
_SOONEST: Final = 0.5


def decision_objects(placement: Mapping[str, Any], groups: Sequence[Group]) -> list[Object]:
    """The PlacementDecisions a Placement should have, with their status; upstream numbers them from 1 over all groups."""
    metadata = placement["metadata"]
    found: list[Object] = []
    for index, group in enumerate(groups):
        for start in range(0, max(len(group.clusters), 1), MOST_IN_ONE):
            labels = {
                PLACEMENT_LABEL: metadata["name"],
                GROUP_INDEX_LABEL: str(index),
                GROUP_NAME_LABEL: group.name,
            }
            part = group.clusters[start : start + MOST_IN_ONE]
            found.append(
                {
                    "apiVersion": DECISIONS.api_version,
                    "kind": DECISIONS.kind,
                    "metadata": {
                        "name": f"{metadata['name']}-decision-{len(found) + 1}",
                        "namespace": metadata["namespace"],
                        "labels": labels,
                        "ownerReferences": [controller_reference(placement, PLACEMENTS)],
                    },
                    "status": {"decisions": [{"clusterName": name, "reason": ""} for name in part]},
                }
            )
    return found


def placement_status(
    placement: Mapping[str, Any], result: Result, decisions: Sequence[Mapping[str, Any]], now: float
) -> Object:
    groups: list[Object] = []
    for index, group in enumerate(result.groups):
        names = [d["metadata"]["name"] for d in decisions if d["metadata"]["labels"][GROUP_INDEX_LABEL] == str(index)]
        entry = {"decisionGroupIndex": index, "decisionGroupName": group.name, "decisions": names}
        groups.append({**entry, "clusterCount": len(group.clusters)})
    said = [condition(c.type, c.status, c.reason, c.message) for c in result.conditions]
    before = placement.get("status") or {}
    return {
        **before,
        "numberOfSelectedClusters": len(result.clusters),
        "decisionGroups": groups,
        "conditions": with_conditions(before.get("conditions"), said, now),
    }


class PlacementController(Controller):
    name = "placement"
    component = "placement-controller"

    def __init__(self, deps: Deps, view: FleetView) -> None:
        super().__init__(deps)
        self._placements = self.follow(deps.informers.of(PLACEMENTS))
        self._view = view
        every = to_all(self._every)
        self.follow(self._view.clusters, every, delay=TOGETHER, by=standing)
        for informer in (self._view.sets, self._view.bindings):
            self.follow(informer, every, delay=TOGETHER)
        self.follow(self._view.scores, every, delay=TOGETHER, by=scored)
        self.follow(self._view.decisions, _owner)

    def _every(self) -> Iterable[Key]:
        return [key_of(each) for each in self._placements.all()]

    async def reconcile(self, key: Key) -> Requeue | None:
        placement = self._placements.get(*key)
        if placement is None or disabled(placement):
            return None
        now = self.clock.now()
        result = self._view.schedule(placement, now)
        wanted = decision_objects(placement, result.groups)
        for each in wanted:
            await self._keep(placement, each, result)
        kept = {each["metadata"]["name"] for each in wanted}
        for each in self._view.decisions.in_namespace(key.namespace):
            if placement_of(each) == key.name and each["metadata"]["name"] not in kept:
                await self._delete(each)
        await write_status(self.client, PLACEMENTS, placement, placement_status(placement, result, wanted, now))
        if result.look_again is None:
            return None
        return Requeue(max(result.look_again.timestamp() - self.clock.now(), 0.0) + _SOONEST)

    async def _keep(self, placement: Object, wanted: Object, result: Result) -> None:
        name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
        known = self._view.decisions.get(namespace, name)
        if known is None:
            known = await self.client.create(DECISIONS, wanted, namespace)
            words = (
                f"Decision {name} is created with placement {placement['metadata']['name']} in namespace {namespace}"
            )
            self.recorder.event(PLACEMENTS, placement, NORMAL, "DecisionCreate", words)
        elif {**labels_of(known), **wanted["metadata"]["labels"]} != labels_of(known):
            patch = {"metadata": {"labels": wanted["metadata"]["labels"]}}
            known = await self.client.patch(DECISIONS, name, patch, namespace)
        if await write_status(self.client, DECISIONS, known, wanted["status"]):
            words = (
                f"Decision {name} is updated with placement {placement['metadata']['name']} in namespace {namespace}"
            )
            self.recorder.event(PLACEMENTS, placement, NORMAL, "DecisionUpdate", words)
            if result.totals:
                scores = " ".join(f"{cluster}:{total}" for cluster, total in sorted(result.totals.items()))
                self.recorder.event(PLACEMENTS, placement, NORMAL, "ScoreUpdate", scores)

    async def _delete(self, decision: Object) -> None:
        key = key_of(decision)
        try:
            await self.client.delete(DECISIONS, key.name, key.namespace)
        except NotFound:
            return


def _owner(decision: Mapping[str, Any]) -> Iterable[Key]:
    name = placement_of(decision)
    return (Key(decision["metadata"]["namespace"], name),) if name else ()
