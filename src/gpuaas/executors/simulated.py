"""The kubelet of simulated nodes: pods that are bound there start, run, write and end, in time and on paper only.

Level-triggered like any controller: what a pod should look like now follows from the pod, the clock and its life
(`lives`). The moment a container started is kept to the fraction of a second while the process lives, and to the
second, from the status, after a restart. A lost node does nothing at all. What passes a limit (module limits) fails to
start, or ends, with the limit in the container's state.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import CONFIG_MAPS, NODES, PODS, SECRETS
from gpuaas.devices import memory
from gpuaas.devices.holding import held_by
from gpuaas.executors import statuses
from gpuaas.executors.addresses import Addresses
from gpuaas.executors.annotations import NO_IMAGE, checkpoint_signal, is_lost
from gpuaas.executors.clock_steps import ClockSteps
from gpuaas.executors.devices import ON_NODE, DeviceBook
from gpuaas.executors.environment import Lookup
from gpuaas.executors.kubelet import Kubelet
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.owners import Owners
from gpuaas.executors.references import refers, unmounted, unset
from gpuaas.executors.script import Script
from gpuaas.executors.simulated_lifetimes import ContainerLife, Life, life_of
from gpuaas.executors.statuses import Ending
from gpuaas.nodefit.admit import Rejection, rejection
from gpuaas.nodefit.book import place_of, read_pod
from gpuaas.runtime.backoff import Backoff
from gpuaas.runtime.controller import Deps, Requeue
from gpuaas.runtime.events import BURST, NORMAL, WARNING
from gpuaas.runtime.metadata import Key, annotations_of, finalizers_of, is_deleting, key_of, uid_of
from gpuaas.runtime.pods import condition_of, is_finished, is_ready, phase_of

_PATIENCE = 1.0  # seconds
_RESTARTS = Backoff(first=10.0, limit=300.0)


@dataclass(slots=True)
class Run:
    """One pod on its node, as the kubelet remembers it."""

    life: Life
    accepted: float
    started: float | None = None  # the containers run since then
    ready: bool = False
    restarts: int = 0
    resting: float | None = None  # until then
    stopping: float | None = None
    grace: float = math.inf
    refers: bool = False  # to config maps or secrets that were not looked for yet, or not found
    reported: tuple[str, ...] = ()  # messages about missing references

    def put_back(self, seconds: float) -> None:
        """The clock was: what has happened so far stays as long ago as it was."""
        self.accepted -= seconds
        self.started = None if self.started is None else self.started - seconds
        self.resting = None if self.resting is None else self.resting - seconds
        self.stopping = None if self.stopping is None else self.stopping - seconds


class SimulatedKubelet(Kubelet):
    name = "simulated-kubelet"
    workers = 16

    def __init__(self, deps: Deps, specs: Sequence[NodeSpec], speed: float = 1.0) -> None:
        super().__init__(deps)
        self._hosts = {spec.name: spec.address for spec in specs}
        self._speed = speed
        self._owners = Owners(deps.client, deps.discovery)
        self._runs: dict[str, Run] = {}
        self._accepted: set[str] = set()
        self._turned_away: dict[str, float] = {}  # when their status is written
        self._bypassed: set[str] = set()  # nodes with a pod that bypassed the scheduler
        pods = deps.informers.of(PODS)
        pods.add_index(ON_NODE, _node_of)
        self._devices = DeviceBook(specs, pods)
        self._pods = self.follow(pods, self._ours)
        self._nodes = self.follow(deps.informers.of(NODES), self._on_node)
        # Both are followed anyway; what is in them is read only for who refers to one.
        for informer in (deps.informers.outline(CONFIG_MAPS), deps.informers.of(SECRETS)):
            self.follow(informer, self._waiting_in)
        self._waiting: dict[str, set[Key]] = {}  # by namespace, pods that lack what they refer to
        self._addresses = Addresses()
        self._steps = ClockSteps(deps.clock)
        pods.subscribe(self._addresses.follow)
        pods.subscribe(self._forget)

    def _forget(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._runs.pop(uid_of(old), None)
            self._devices.release(old["spec"].get("nodeName", ""), uid_of(old))
            self._accepted.discard(uid_of(old))
            self._turned_away.pop(uid_of(old), None)
            self._waits_no_more(key_of(old))

    def _ours(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        return (key_of(pod),) if pod["spec"].get("nodeName") in self._hosts else ()

    def _on_node(self, node: Mapping[str, Any]) -> Iterable[Key]:
        """A node that is lost or found again concerns all its pods."""
        name = node["metadata"]["name"]
        return [key_of(pod) for pod in self._pods.indexed(ON_NODE, name)] if name in self._hosts else ()

    def _waiting_in(self, source: Mapping[str, Any]) -> Iterable[Key]:
        return self._waiting.get(source["metadata"]["namespace"], ()) if self._waiting else ()

    def _waits_no_more(self, key: Key) -> None:
        others = self._waiting.get(key.namespace)
        if others is not None:
            others.discard(key)
            if not others:
                del self._waiting[key.namespace]

    async def reconcile(self, key: Key) -> Requeue | None:
        if back := self._steps.back():
            for each in self._runs.values():
                each.put_back(back)
        return await super().reconcile(key)

    async def sync(self, pod: Object) -> Requeue | None:
        node = self._nodes.get("", pod["spec"]["nodeName"])
        if node is None or is_lost(node):
            return None
        if is_finished(pod):
            self._devices.release(pod["spec"]["nodeName"], uid_of(pod))
            if is_deleting(pod):
                await self._remove(pod)
            return None
        run = self._runs.get(uid_of(pod))
        if run is None:
            why = self._rejection(pod, node)
            if why is not None:
                return await self._reject(pod, why)
            self._accepted.add(uid_of(pod))
            if not is_deleting(pod):
                found = await self._take_devices(pod, node)
                if found is None or isinstance(found, Requeue):
                    return found
                pod = found
            run = await self._begin(pod)
        if is_deleting(pod):
            return await self._stop(pod, run)
        left = statuses.seconds_left(pod, self.clock.now(), self._speed)
        if left <= 0:
            await self._cut_short(pod, run)
            return None
        if run.started is not None and (excess := _excess(pod)) is not None:
            await self._end_for(pod, run, memory.OVER_LIMIT, str(excess))
            return None
        wait = await self._start(pod, run) if run.started is None else await self._go_on(pod, run)
        if left == math.inf or uid_of(pod) not in self._runs:
            return wait
        return Requeue(left if wait is None else min(left, wait.after))

    async def _cut_short(self, pod: Object, run: Run) -> None:
        now = self.clock.now()
        span = None if run.started is None else now - run.started
        endings = {one.name: self._ending(run, 137, span) for one in run.life.containers if run.started is not None}
        await self._write(pod, statuses.overdue(pod, self._host(pod), now, endings))
        message = "Pod was active on the node longer than the specified deadline"
        self.recorder.event(PODS, pod, NORMAL, "DeadlineExceeded", message)
        self._runs.pop(uid_of(pod), None)

    async def _end_for(self, pod: Object, run: Run, reason: str, message: str) -> None:
        """Stop what passed a limit of its card; the pod fails with the reason, its neighbours go on."""
        now = self.clock.now()
        endings = {one.name: self._ending(run, 137, now - (run.started or now)) for one in run.life.containers}
        status = statuses.ended(pod, self._host(pod), now, endings)
        await self._write(pod, {**status, "phase": "Failed", "reason": reason, "message": message})
        self.recorder.event(PODS, pod, WARNING, reason, f"stopped: {message}")
        self._runs.pop(uid_of(pod), None)

    def _rejection(self, pod: Object, node: Object) -> Rejection | None:
        """Whom the scheduler placed has been counted, but on nodes where others went past it."""
        if self._is_accepted(pod) or is_deleting(pod):
            return None
        name = pod["spec"]["nodeName"]
        if _was_scheduled(pod):
            if name not in self._bypassed:
                return None
        else:
            self._bypassed.add(name)
        others = [one for one in self._pods.indexed(ON_NODE, name) if not is_finished(one) and self._is_accepted(one)]
        return rejection(read_pod(pod), place_of(node, others), self._devices.resources(node))

    def _is_accepted(self, pod: Mapping[str, Any]) -> bool:
        return uid_of(pod) in self._accepted or bool((pod.get("status") or {}).get("startTime"))

    async def _reject(self, pod: Object, why: Rejection) -> Requeue | None:
        """Not at once: who makes a new one each time, as replica sets do, must not keep everybody busy."""
        now = self.clock.now()
        due = self._turned_away.setdefault(uid_of(pod), now + _PATIENCE)
        if now < due:
            return Requeue(due - now)
        words = f"Pod was rejected: {why.message}"
        await self._write(pod, statuses.refused(pod, why.reason, words, now))
        self.recorder.event(PODS, pod, WARNING, why.reason, why.message)
        return None

    async def _begin(self, pod: Object) -> Run:
        """Take the pod on, or, after a restart of ours, up again."""
        life = life_of(pod, await self._owners.wishes(pod), self._speed)
        run = Run(life.without_lines(), self.clock.now(), refers=refers(pod["spec"]))
        for one in (pod.get("status") or {}).get("containerStatuses") or ():
            run.restarts = max(run.restarts, int(one.get("restartCount", 0)))
            running = (one.get("state") or {}).get("running")
            if running:
                run.started = min(parse_rfc3339(running["startedAt"]), run.accepted)  # the clock may have been put back
                run.ready = is_ready(pod)
        self._runs[uid_of(pod)] = run
        return run

    async def _start(self, pod: Object, run: Run) -> Requeue | None:
        now, host = self.clock.now(), self._host(pod)
        if run.life.no_image:
            image = pod["spec"]["containers"][0].get("image", "")
            message = f'Back-off pulling image "{image}"'
            if await self._write(pod, statuses.creating(pod, host, now, NO_IMAGE, message)):
                self.recorder.event(PODS, pod, WARNING, "BackOff", message)
            return None
        begins = run.resting if run.resting is not None else run.accepted + run.life.start_after
        if now < begins:
            if run.resting is None:
                await self._write(pod, statuses.creating(pod, host, now))
            return Requeue(begins - now)
        if run.refers and await self._lacks(pod, run):
            return None
        if run.life.failing is not None:
            return await self._fail_to_begin(pod, run, run.life.failing)
        run.started, run.resting = now, None
        if run.life.never_starts:
            return await self._go_on(pod, run)
        await self._write_running(pod, run)
        self._tell_start(pod)
        return self._next(run)

    async def _lacks(self, pod: Object, run: Run) -> bool:
        """Whether something it refers to is missing; that is reported, and waited for."""
        now, host, key = self.clock.now(), self._host(pod), key_of(pod)
        self._waiting.setdefault(key.namespace, set()).add(key)  # first: what comes while it is looked for is news
        mounts = await unmounted(pod, self._look_up(key.namespace))
        values, refusals = ({}, {}) if mounts else await unset(pod, self._look_up(key.namespace))
        if not mounts and not values:
            run.life = run.life.with_refusals(refusals)
            run.refers = False
            self._waits_no_more(key)
            return False
        status = statuses.creating(pod, host, now) if mounts else statuses.unconfigured(pod, host, now, values)
        await self._write(pod, status)
        said = tuple(mounts or [f"Error: {words}" for words in values.values()])
        for words in said[:BURST] if said != run.reported else ():
            self.recorder.event(PODS, pod, WARNING, "FailedMount" if mounts else "Failed", words)
        run.reported = said
        return True

    def _look_up(self, namespace: str) -> Lookup:
        async def data(kind: str, name: str) -> Mapping[str, Any]:
            found = await self.client.get(CONFIG_MAPS if kind == "ConfigMap" else SECRETS, name, namespace)
            return {**(found.get("binaryData") or {}), **(found.get("data") or {})}

        return data

    async def _fail_to_begin(self, pod: Object, run: Run, failing: ContainerLife) -> Requeue | None:
        """An init container fails: that is the end of the pod, or it is tried again after a pause."""
        now, host, span = self.clock.now(), self._host(pod), failing.script.seconds or 0.0
        script = failing.script
        ending = Ending(script.exit_code, script.reason, script.message, started=now - span, finished=now)
        self._tell_limits(pod, (failing,))
        if pod["spec"].get("restartPolicy", "Always") == "Never":
            await self._write(pod, statuses.stuck(pod, host, now, failing.name, ending))
            self._runs.pop(uid_of(pod), None)
            return None
        pause = _RESTARTS.delay(run.restarts) / self._speed
        run.restarts += 1
        run.resting = now + pause + span
        await self._write(pod, statuses.stuck(pod, host, now, failing.name, ending, run.restarts, pause))
        self._tell_back_off(pod, failing.name)
        return Requeue(pause + span)

    async def _write_running(self, pod: Object, run: Run) -> None:
        assert run.started is not None
        now, after = self.clock.now(), run.life.ready_after
        run.ready = after is not None and now >= run.started + after
        address = (pod.get("status") or {}).get("podIP") or self._addresses.take(uid_of(pod))
        status = statuses.running(pod, self._host(pod), address, run.started, run.restarts, ready=run.ready, now=now)
        await self._write(pod, status)

    def _next(self, run: Run) -> Requeue | None:
        """When there is something to do about it without anybody's asking."""
        assert run.started is not None
        spans = (run.life.seconds, None if run.ready else run.life.ready_after)
        moments = [run.started + span for span in spans if span is not None]
        return Requeue(max(0.0, min(moments) - self.clock.now())) if moments else None

    def _tell_start(self, pod: Object) -> None:
        """Of as many containers as one source may tell of at once (module events)."""
        for one in pod["spec"]["containers"][:BURST]:
            image = one.get("image", "")
            self.recorder.event(PODS, pod, NORMAL, "Pulled", f'Container image "{image}" already present on machine')
            self.recorder.event(PODS, pod, NORMAL, "Created", "Container created")
            self.recorder.event(PODS, pod, NORMAL, "Started", "Container started")

    async def _go_on(self, pod: Object, run: Run) -> Requeue | None:
        assert run.started is not None
        seconds, after, now = run.life.seconds, run.life.ready_after, self.clock.now()
        if seconds is None or now < run.started + seconds:
            due = not run.ready and after is not None and now >= run.started + after
            if due or phase_of(pod) == "Pending":  # the write that said it runs was lost
                await self._write_running(pod, run)
            elif statuses.is_behind(pod):
                await self._write(pod, statuses.followed(pod, now))
            return self._next(run)
        self._tell_limits(pod, run.life.containers)
        if self._starts_again(pod, run):
            return await self._rest(pod, run)
        await self._end(pod, {one.name: self._ending_of(run, one.script, seconds) for one in run.life.containers})
        return None

    def _starts_again(self, pod: Object, run: Run) -> bool:
        match pod["spec"].get("restartPolicy", "Always"):
            case "Always":
                return True
            case "OnFailure":
                return run.life.exit_code != 0
            case _:
                return False

    async def _rest(self, pod: Object, run: Run) -> Requeue:
        now = self.clock.now()
        pause = _RESTARTS.delay(run.restarts) / self._speed
        ending = self._ending_of(run, run.life.decisive, run.life.seconds)
        run.restarts += 1
        run.started, run.resting = None, now + pause
        await self._write(pod, statuses.resting(pod, self._host(pod), now, ending, run.restarts, pause))
        for one in pod["spec"]["containers"]:
            self._tell_back_off(pod, one["name"])
        return Requeue(pause)

    def _tell_limits(self, pod: Object, containers: Iterable[ContainerLife]) -> None:
        for one in [one for one in containers if one.script.message][:BURST]:
            self.recorder.event(PODS, pod, WARNING, "Failed", f"Error: container {one.name}: {one.script.message}")

    def _tell_back_off(self, pod: Object, container: str) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        words = f"Back-off restarting failed container {container} in pod {name}_{namespace}({uid_of(pod)})"
        self.recorder.event(PODS, pod, WARNING, "BackOff", words)

    async def _stop(self, pod: Object, run: Run) -> Requeue | None:
        """Deleted: the containers get SIGTERM and the grace period."""
        now, grace = self.clock.now(), float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        if run.stopping is None:
            run.stopping = now + min(run.life.stop, grace)
            if run.started is not None:
                if (signal := checkpoint_signal(annotations_of(pod))) and grace > 0:
                    self.recorder.event(PODS, pod, NORMAL, "CheckpointSignal", f"{signal} sent before SIGTERM")
                for one in pod["spec"]["containers"]:
                    self.recorder.event(PODS, pod, NORMAL, "Killing", f"Stopping container {one['name']}")
        elif grace < run.grace:  # deleted again with a shorter grace period
            run.stopping = min(run.stopping, now + grace)
        run.grace = grace
        if now < run.stopping:
            return Requeue(run.stopping - now)
        if run.started is not None:
            ending = self._ending(run, 143, now - run.started)
            await self._end(pod, {one.name: ending for one in run.life.containers})
        elif finalizers_of(pod):
            await self._end(pod, {})  # it never ran, and stays until its finalizers are gone: it takes no room
        await self._remove(pod)
        return None

    def _ending_of(self, run: Run, script: Script, whole: float | None) -> Ending:
        """How a container ended by itself, or with the others when one of them passed a limit."""
        if script.seconds is None or (whole is not None and whole < script.seconds):
            return self._ending(run, 137, whole)
        found = self._ending(run, script.exit_code, script.seconds)
        return replace(found, reason=script.reason, message=script.message) if script.message else found

    def _ending(self, run: Run, code: int, seconds: float | None) -> Ending:
        started = run.started or 0.0
        finished = started + seconds if seconds is not None else self.clock.now()
        return Ending(code, run.life.ending if code == 137 else "", started=started, finished=finished)

    async def _end(self, pod: Object, endings: Mapping[str, Ending]) -> None:
        await self._write(pod, statuses.ended(pod, self._host(pod), self.clock.now(), endings))
        self._runs.pop(uid_of(pod), None)

    async def _remove(self, pod: Object) -> None:
        self._runs.pop(uid_of(pod), None)
        metadata = pod["metadata"]
        try:
            await self.client.delete(PODS, metadata["name"], metadata["namespace"], uid=uid_of(pod), grace=0)
        except NotFound:
            return

    def _address(self, node: Mapping[str, Any]) -> str:
        return self._hosts[node["metadata"]["name"]]

    def _host(self, pod: Object) -> str:
        return self._hosts[pod["spec"]["nodeName"]]


def _excess(pod: Mapping[str, Any]) -> memory.Excess | None:
    used = annotations_of(pod).get(memory.USED)
    return memory.excess_of(held_by(pod), used) if used else None


def _was_scheduled(pod: Mapping[str, Any]) -> bool:
    placed = condition_of(pod, "PodScheduled")
    return placed is not None and placed["status"] == "True"


def _node_of(pod: Mapping[str, Any]) -> Iterable[str]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()
