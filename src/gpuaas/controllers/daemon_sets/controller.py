"""The loop of daemon sets: a pod for each node that fits and has none, away with those that do not belong.

Updates replace pods node by node, never more than `maxUnavailable` at a time. `maxSurge` is not followed: an update
always takes the old pod away first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Object
from gpuaas.client.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from gpuaas.controllers.daemon_sets.fit import pinned, should_run, target_of
from gpuaas.runtime.backoff import Backoff
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, annotations_of, controller_of, is_deleting, key_of, labels_of, uid_of
from gpuaas.runtime.pods import (
    ORPHANS,
    PodControl,
    is_available,
    is_finished,
    is_ready,
    orphan_index,
    phase_of,
    pod_from_template,
    seconds_to_available,
    selector_of,
    selects,
)
from gpuaas.runtime.revisions import Revisions
from gpuaas.runtime.values import scaled, without_zeros
from gpuaas.runtime.writes import write_status

HASH = "controller-revision-hash"
GENERATION = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
BURST = 250

ByNode = Mapping[str, Sequence[Object]]


@dataclass(slots=True)
class Plan:
    create: list[str] = field(default_factory=list)  # names of nodes
    delete: list[Object] = field(default_factory=list)
    failed: list[tuple[str, Object]] = field(default_factory=list)  # (node, pod): to be replaced with a pause
    succeeded: list[tuple[str, Object]] = field(default_factory=list)


def decide(daemon_set: Mapping[str, Any], nodes: Sequence[Object], pods: ByNode) -> Plan:
    """Where a pod is missing, and which are too many or in the wrong place."""
    plan = Plan()
    spec = daemon_set["spec"]["template"]["spec"]
    names = {node["metadata"]["name"] for node in nodes}
    for node in nodes:
        name = node["metadata"]["name"]
        wanted, may_stay = should_run(spec, node)
        present = pods.get(name, ())
        staying = [pod for pod in present if not is_deleting(pod)]
        if wanted and not present:
            plan.create.append(name)
        elif not may_stay:
            plan.delete += staying
        else:
            plan.failed += [(name, pod) for pod in staying if phase_of(pod) == "Failed"]
            plan.succeeded += [(name, pod) for pod in staying if phase_of(pod) == "Succeeded"]
            plan.delete += oldest_first([pod for pod in staying if not is_finished(pod)])[1:]
    for name, lost in pods.items():
        if name not in names:
            plan.delete += [pod for pod in lost if not pod["spec"].get("nodeName") and not is_deleting(pod)]
    return plan


def decide_update(
    daemon_set: Mapping[str, Any], nodes: Sequence[Object], pods: ByNode, mark: str, now: float
) -> list[Object]:
    """Old pods to take away now: those that do not work anyway, and as many others as may be missing."""
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    wanted = [node["metadata"]["name"] for node in nodes if should_run(daemon_set["spec"]["template"]["spec"], node)[0]]
    most = scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable"), len(wanted), round_up=True) or 1
    min_ready = daemon_set["spec"].get("minReadySeconds") or 0
    missing, broken, candidates = 0, [], []
    for name in sorted({*wanted, *pods}):
        present = [pod for pod in pods.get(name, ()) if not is_deleting(pod)]
        old = [pod for pod in present if not is_updated(daemon_set, pod, mark)]
        if len(present) != 1:
            missing += 1
        elif not old:
            missing += not is_available(present[0], min_ready, now)
        elif not is_available(old[0], min_ready, now):
            broken.append(old[0])
            missing += 1
        else:
            candidates.append(old[0])
    return broken + candidates[: max(0, most - missing)]


def decide_status(
    daemon_set: Mapping[str, Any], nodes: Sequence[Object], pods: ByNode, mark: str, now: float
) -> Object:
    min_ready = daemon_set["spec"].get("minReadySeconds") or 0
    desired = misplaced = 0
    first: list[Object] = []
    for node in nodes:
        wanted, _ = should_run(daemon_set["spec"]["template"]["spec"], node)
        present = oldest_first(pods.get(node["metadata"]["name"], ()))
        if not wanted:
            misplaced += bool(present)
            continue
        desired += 1
        first += present[:1]
    able = sum(is_available(pod, min_ready, now) for pod in first)
    status = {
        "currentNumberScheduled": len(first),
        "numberMisscheduled": misplaced,
        "desiredNumberScheduled": desired,
        "numberReady": sum(map(is_ready, first)),
        "observedGeneration": daemon_set["metadata"].get("generation"),
        "updatedNumberScheduled": sum(is_updated(daemon_set, pod, mark) for pod in first),
        "numberAvailable": able,
        "numberUnavailable": desired - able,
        "collisionCount": (daemon_set.get("status") or {}).get("collisionCount"),
    }
    always = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    return without_zeros(status, *always)


def is_updated(daemon_set: Mapping[str, Any], pod: Mapping[str, Any], mark: str) -> bool:
    generation = annotations_of(daemon_set).get(GENERATION_ANNOTATION)
    labels = labels_of(pod)
    return labels.get(HASH) == mark or (generation is not None and labels.get(GENERATION) == generation)


def oldest_first(pods: Sequence[Object]) -> list[Object]:
    """Pods that have a node first, then by age."""

    def order(pod: Object) -> tuple[bool, str, str]:
        metadata = pod["metadata"]
        return not pod["spec"].get("nodeName"), metadata["creationTimestamp"], metadata["name"]

    return sorted(pods, key=order)


class DaemonSetController(Controller):
    name = "daemonset-controller"
    component = "daemonset-controller"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._sets = self.follow(deps.informers.of(DAEMON_SETS))
        self._nodes = self.follow(deps.informers.of(NODES), lambda _: map(key_of, self._sets.all()), delay=0.1)
        pods = deps.informers.of(PODS)
        pods.add_index(ORPHANS, orphan_index)
        self._pods = self.follow(pods, self._concerned)
        revisions = self.follow(deps.informers.of(CONTROLLER_REVISIONS), lambda _: ())
        self._revisions = Revisions(self.client, revisions, DAEMON_SETS, HASH)
        self._control = PodControl(self.client, self.recorder, DAEMON_SETS)
        self._pauses: dict[tuple[str, str], tuple[Backoff, float]] = {}  # by set and node: when to replace again

    def _concerned(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        namespace = pod["metadata"]["namespace"]
        reference = controller_of(pod)
        if reference is not None:
            return (Key(namespace, reference["name"]),) if reference["kind"] == "DaemonSet" else ()
        candidates = self._sets.in_namespace(namespace)
        return [key_of(one) for one in candidates if selects(one, labels_of(pod))]

    async def reconcile(self, key: Key) -> Requeue | None:
        daemon_set = self._sets.get(*key)
        if daemon_set is None or is_deleting(daemon_set):
            return None
        known = self._revisions.of(daemon_set)
        collisions = (daemon_set.get("status") or {}).get("collisionCount") or 0
        revision, _ = await self._revisions.current(daemon_set, known, collisions)
        mark = labels_of(revision)[HASH]
        nodes = sorted(self._nodes.all(), key=lambda node: str(node["metadata"]["name"]))
        pods = await self._by_node(daemon_set)
        plan = decide(daemon_set, nodes, pods)
        wait = self._replace_ended(daemon_set, plan)
        now = self.clock.now()
        error: ApiError | None = None
        try:
            await self._apply(daemon_set, plan, mark)
            if not plan.create and not plan.delete:
                for pod in decide_update(daemon_set, nodes, pods, mark, now):
                    await self._control.delete(daemon_set, pod)
        except ApiError as failure:
            error = failure
        await write_status(self.client, DAEMON_SETS, daemon_set, decide_status(daemon_set, nodes, pods, mark, now))
        marks = {labels_of(pod).get(HASH, "") for present in pods.values() for pod in present}
        live = {one["metadata"]["name"] for one in known if labels_of(one).get(HASH) in {mark, *marks}}
        await self._revisions.trim(known, live, daemon_set["spec"].get("revisionHistoryLimit"))
        if error is not None:
            raise error
        min_ready = daemon_set["spec"].get("minReadySeconds") or 0
        everyone = [pod for present in pods.values() for pod in present]
        soon = seconds_to_available(everyone, min_ready, now) if min_ready else None
        waits = [one for one in (wait, soon) if one is not None]
        return Requeue(min(waits)) if waits else None

    async def _by_node(self, daemon_set: Object) -> dict[str, list[Object]]:
        namespace = daemon_set["metadata"]["namespace"]
        candidates = self._pods.owned_by(uid_of(daemon_set)) + self._pods.indexed(ORPHANS, namespace)
        found: dict[str, list[Object]] = {}
        for pod in await self._control.claim(daemon_set, selector_of(daemon_set), candidates):
            if not (is_finished(pod) and is_deleting(pod)):
                found.setdefault(target_of(pod), []).append(pod)
        return found

    def _replace_ended(self, daemon_set: Object, plan: Plan) -> float | None:
        """Ended pods are deleted; one that fails again and again is replaced later and later."""
        now, waits = self.clock.now(), []
        for node, pod in plan.succeeded:
            self._tell_ended(daemon_set, pod, node, NORMAL, "SucceededDaemonPod", "succeeded", "delete")
            plan.delete.append(pod)
        for node, pod in plan.failed:
            backoff, until = self._pauses.get((uid_of(daemon_set), node), (Backoff(1.0, 900.0), 0.0))
            if now < until:
                waits.append(until - now)
                continue
            self._pauses[uid_of(daemon_set), node] = (backoff, now + backoff.next())
            self._tell_ended(daemon_set, pod, node, WARNING, "FailedDaemonPod", "failed", "kill")
            plan.delete.append(pod)
        return min(waits, default=None)

    def _tell_ended(
        self, daemon_set: Object, pod: Object, node: str, type: str, reason: str, how: str, verb: str
    ) -> None:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        message = f"Found {how} daemon pod {name} on node {node}, will try to {verb} it"
        self.recorder.event(DAEMON_SETS, daemon_set, type, reason, message)

    async def _apply(self, daemon_set: Object, plan: Plan, mark: str) -> None:
        await self._control.create_many(daemon_set, [self._pod(daemon_set, node, mark) for node in plan.create[:BURST]])
        for pod in plan.delete[:BURST]:
            await self._control.delete(daemon_set, pod)

    def _pod(self, daemon_set: Object, node: str, mark: str) -> Object:
        pod = pod_from_template(daemon_set["spec"]["template"], daemon_set, DAEMON_SETS)
        labels = {**(pod["metadata"].get("labels") or {}), HASH: mark}
        generation = annotations_of(daemon_set).get(GENERATION_ANNOTATION)
        if generation is not None:
            labels[GENERATION] = generation
        pod["metadata"]["labels"] = labels
        pod["spec"] = pinned(pod["spec"], node)
        return pod
