"""The kubelet of this machine: pods of the runtime class gpuaas-process run here as plain processes.

Others are refused with words; the taint of the node keeps them away in the first place. A pod's processes are those its
folder knows (`processes`), so that a control plane that comes back adopts what still runs, counts what has ended, and
fails containers whose state is lost. Nothing is ever started twice at the same time, and a container has ended only
when none of its processes is left.

Keys are those of pods; one without a namespace is the uid of a pod that is gone, whose folder is to be removed.
"""

import asyncio
import os
import shutil
import signal
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import CONFIG_MAPS, NODES, PODS, SECRETS
from gpuaas.devices.holding import held_by
from gpuaas.executors import statuses
from gpuaas.executors.annotations import checkpoint_signal
from gpuaas.executors.devices import ON_NODE, DeviceBook
from gpuaas.executors.environment import Environment, Missing, check_words, environment_of
from gpuaas.executors.evictions import Evictions
from gpuaas.executors.gpu_environment import container_variables
from gpuaas.executors.gpu_guard import GpuGuard
from gpuaas.executors.kubelet import Kubelet
from gpuaas.executors.limits import Budget, ExecRefused
from gpuaas.executors.mps import MpsError
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.notebook_paths import NotebookPaths
from gpuaas.executors.process_environment import inherited
from gpuaas.executors.process_logs import LogKeeper
from gpuaas.executors.processes import Command, NotRecorded, Process, end_leftovers
from gpuaas.executors.statuses import Ending
from gpuaas.executors.verdicts import Verdict, read_verdict, withdraw
from gpuaas.nodefit.names import PROCESS_CLASS
from gpuaas.runtime.backoff import Backoff
from gpuaas.runtime.controller import Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, annotations_of, finalizers_of, is_deleting, key_of, uid_of
from gpuaas.runtime.pods import is_finished

_RESTARTS = Backoff(first=10.0, limit=300.0)
_LOOK_EVERY = 1.0
_TRY_AGAIN = 10.0
_SOON = 0.2


class Refused(Exception):
    """The node does not take the pod; the text says why and what would be right."""


@dataclass(slots=True)
class Run:
    """One pod here, as far as it is not in its folder."""

    processes: dict[str, Process]
    started: float
    restarts: int = 0
    resting: float | None = None
    killed_at: float | None = None  # when those who did not listen are killed
    term_at: float = 0.0  # when SIGTERM is sent: later where a checkpoint signal comes first
    termed: bool = False
    overdue: bool = False
    watched: set[str] = field(default_factory=set)


class ProcessKubelet(Kubelet):
    name = "process-kubelet"
    workers = 4

    def __init__(
        self,
        deps: Deps,
        node: NodeSpec,
        folder: Path,
        foreign: Collection[str] = (),
        guard: GpuGuard | None = None,
        notebooks: NotebookPaths | None = None,
    ) -> None:
        """`foreign`: pod folders of other clusters (`claim`), which are none of ours to remove. `guard`: who watches the
        cards, on a machine that has some. `notebooks`: where those are kept; None where there is no place for them."""
        super().__init__(deps)
        self._guard = guard
        if guard is not None:
            guard.on_verdict = lambda pod: self.queue.add(key_of(pod))
        self._evictions = Evictions(deps, self.component)
        self._node = node
        self._folder = folder
        self._foreign = foreign
        self._notebooks = notebooks
        self._runs: dict[str, Run] = {}
        self._seen_over: set[str] = set()
        self._logs = LogKeeper()
        self._pods = self.follow(deps.informers.of(PODS), self._ours)
        self._nodes = deps.informers.of(NODES)
        self._pods.add_index(ON_NODE, _node_of)
        self._devices = DeviceBook([node], self._pods, self._is_over)
        if guard is not None:
            self._devices.runs_alone = guard.runs_alone
        self._pods.subscribe(self._forget)

    def folder_of(self, pod: Mapping[str, Any]) -> Path:
        return self._folder / uid_of(pod)

    def _ours(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        return (key_of(pod),) if pod["spec"].get("nodeName") == self._node.name else ()

    def _forget(self, old: Object | None, new: Object | None) -> None:
        """A pod that is gone for good takes its folder, its logs and what still runs with it."""
        if new is None and old is not None and old["spec"].get("nodeName") == self._node.name:
            self.queue.add(Key("", uid_of(old)))

    async def run(self) -> None:
        await self._pods.synced()
        kept = {uid_of(pod) for pod in self._pods.all()}.union(self._foreign)
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if folder.name not in kept:
                self.queue.add(Key("", folder.name))  # its pod was deleted while the server was down
        await super().run()

    async def _clear(self, uid: str) -> Requeue | None:
        """Ends what still runs of a pod that is gone, then removes its folder."""
        if await self._still_runs(uid, Key("", uid)):
            return Requeue(_LOOK_EVERY)
        self._seen_over.discard(uid)
        await asyncio.to_thread(shutil.rmtree, self._folder / uid, ignore_errors=True)
        if self._notebooks is not None:
            self._notebooks.forget(uid)
        return None

    async def _still_runs(self, uid: str, key: Key) -> bool:
        """Kills what runs of a pod that is over, or gone; `key` is looked at again when that has ended."""
        folder, run = self._folder / uid, self._runs.get(uid)
        known = [one for one in folder.iterdir() if (one / "intent").exists()] if folder.is_dir() else []
        found = list(run.processes.values()) if run is not None else [Process(one) for one in known]
        alive = [one for one in found if one.is_alive()]
        for process in alive:
            process.signal(signal.SIGKILL)
            process.on_end(lambda: self.queue.add(key))
        if alive or not await _cleared(found):
            return True
        self._runs.pop(uid, None)
        self._devices.release(self._node.name, uid)
        return False

    async def reconcile(self, key: Key) -> Requeue | None:
        if not key.namespace:
            return await self._clear(key.name)
        return await super().reconcile(key)

    async def sync(self, pod: Object) -> Requeue | None:
        if is_finished(pod):
            return await self._over(pod)
        run = self._runs.get(uid_of(pod))
        if run is None:
            return await self._take_on(pod)
        if is_deleting(pod):
            return await self._stop(pod, run)
        if run.overdue or statuses.seconds_left(pod, self.clock.now()) <= 0:
            return await self._cut_short(pod, run)
        if run.resting is not None:
            return await self._again(pod, run)
        return await self._look(pod, run)

    async def _over(self, pod: Object) -> Requeue | None:
        """Also other controllers may end a pod: its processes are stopped in any case."""
        if uid_of(pod) not in self._seen_over:
            if await self._still_runs(uid_of(pod), key_of(pod)):
                return Requeue(_LOOK_EVERY)
            self._seen_over.add(uid_of(pod))
        if is_deleting(pod):
            await self._remove(pod)
        return None

    # Starting

    async def _take_on(self, pod: Object) -> Requeue | None:
        try:
            _check(pod)
            if self._node.found and not is_deleting(pod):
                found = await self._with_devices(pod)
                if found is None or isinstance(found, Requeue):
                    return found
                pod = found
            run = await self._begin(pod)
        except Refused as refusal:
            await self._refuse(pod, str(refusal))
            return None
        except (NotRecorded, MpsError) as problem:
            return await self._put_off(pod, str(problem))
        if run is None:  # deleted before anything was started
            if finalizers_of(pod):  # it stays until they are gone, and takes no room
                await self._write(pod, statuses.ended(pod, self._node.address, self.clock.now(), {}))
            await self._remove(pod)
            return None
        return Requeue(0.0)  # as it is by now

    async def _with_devices(self, pod: Object) -> Object | Requeue | None:
        """As `_take_devices`, once it is known who else uses the cards; a daemon its cards need runs then."""
        if self._guard is not None and not self._guard.looked.is_set():
            return Requeue(_SOON)
        node = self._nodes.get("", self._node.name)
        wishes = await self._evictions.owners.wishes(pod)
        found = Requeue(_LOOK_EVERY) if node is None else await self._take_devices(pod, node, wishes)
        if self._guard is not None and isinstance(found, Mapping):
            await self._guard.prepare(held_by(found))
        return found

    def _is_over(self, pod: Mapping[str, Any]) -> bool:
        return uid_of(pod) in self._seen_over

    async def _begin(self, pod: Object) -> Run | None:
        processes = {one["name"]: Process(self.folder_of(pod) / one["name"]) for one in pod["spec"]["containers"]}
        run = Run(processes, _started(pod) or self.clock.now(), _restarts(pod))
        began = [one.was_started for one in processes.values()]
        if not any(began) and is_deleting(pod) and _started(pod) is None:
            return None
        if not all(began) and not is_deleting(pod) and _started(pod) is None:
            await self._start(pod, run)
        self._runs[uid_of(pod)] = run
        return run

    async def _start(self, pod: Object, run: Run) -> None:
        """Those that have not begun: the server may have ended between two of them."""
        missing = {name: process for name, process in run.processes.items() if not process.was_started}
        budget = Budget()
        commands = {one["name"]: await self._command(pod, one, budget) for one in pod["spec"]["containers"]}
        latest = self._pods.get(*key_of(pod))
        if latest is None or uid_of(latest) != uid_of(pod):
            raise NotFound("", "pods", pod["metadata"]["name"])  # deleted in the meantime
        withdraw(self.folder_of(pod))
        for process in missing.values():
            process.reserve()
        # From here to the last start nothing is awaited: the run is known before news of the pod can come.
        self._runs[uid_of(pod)] = run
        run.started, run.resting = self.clock.now(), None
        for name, process in missing.items():
            try:
                process.start(commands[name])
            except (OSError, ValueError) as error:
                for other in run.processes.values():
                    other.signal(signal.SIGKILL)
                raise Refused(f"container {name} could not be started: {error}") from None
        run.watched.clear()
        await self._write(pod, statuses.running(pod, self._node.address, self._node.address, run.started, run.restarts))
        for _ in missing:
            self.recorder.event(PODS, pod, NORMAL, "Started", "Container started")

    async def _put_off(self, pod: Object, why: str) -> Requeue:
        """Nothing was started, and nothing is wrong with the pod: it waits until there is room."""
        status = statuses.creating(pod, self._node.address, self.clock.now(), "CreateContainerError", why)
        await self._write(pod, status)
        return Requeue(_TRY_AGAIN)

    async def _command(self, pod: Object, container: Mapping[str, Any], budget: Budget) -> Command:
        try:
            environment = await self._environment(pod, container, budget)
            words = environment.words(container)
        except (Missing, ExecRefused) as error:
            raise Refused(f"container {container['name']}: {error}") from None
        if not words:
            raise Refused(
                f"container {container['name']} has no command: a process is not taken from an image, "
                "so spec.containers[].command must say what to run"
            )
        return Command(words, environment.values, self._work_folder(pod, container))

    async def surroundings(self, pod: Object, container: Mapping[str, Any], words: Sequence[str]) -> Command:
        """Another command, in the folder, with the environment and with the cards of a container that runs here."""
        budget = Budget()
        try:
            environment = await self._environment(pod, container, budget)
            check_words(words, budget)
        except (Missing, ExecRefused) as error:
            raise Refused(f"container {container['name']}: {error}") from None
        return Command(list(words), environment.values, self._work_folder(pod, container))

    async def _environment(self, pod: Object, container: Mapping[str, Any], budget: Budget) -> Environment:
        namespace = pod["metadata"]["namespace"]

        async def lookup(kind: str, name: str) -> Mapping[str, Any]:
            if kind == "ConfigMap":
                return (await self.client.get(CONFIG_MAPS, name, namespace)).get("data") or {}
            data = (await self.client.get(SECRETS, name, namespace)).get("data") or {}
            return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}

        environment = await environment_of(pod, container, lookup, inherited(os.environ), budget)
        for name, value in self._gpu_variables(pod, container["name"], environment.values).items():
            environment.set(name, value)
        for name, value in self._notebooks.variables(pod).items() if self._notebooks is not None else ():
            environment.set(name, value)
        return environment

    def _gpu_variables(self, pod: Object, container: str, own: Mapping[str, str]) -> dict[str, str]:
        if self._guard is None:
            return {}
        held = held_by(pod)
        return container_variables(held, container, own, self.folder_of(pod), self._guard.provision(held))

    def _work_folder(self, pod: Object, container: Mapping[str, Any]) -> Path:
        asked = container.get("workingDir")
        if not asked:
            kept = self._notebooks.work_folder(pod) if self._notebooks is not None else None
            folder = kept or self.folder_of(pod) / "work"
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise NotRecorded(f"its folder {folder} cannot be made: {error.strerror}") from None
            return folder
        try:
            is_folder = Path(asked).is_dir()
        except OSError:  # of another user, unreadable
            is_folder = False
        if not is_folder:
            raise Refused(f"container {container['name']}: workingDir {asked} is no folder on this machine")
        return Path(asked)

    # Running

    async def _look(self, pod: Object, run: Run) -> Requeue | None:
        if _started(pod) is None:  # the write that said it runs was lost
            address = self._node.address
            await self._write(pod, statuses.running(pod, address, address, run.started, run.restarts))
        for process in run.processes.values():
            self._logs.look(process.folder, self.clock.now())
        codes = await self._codes(run)
        if codes is None:
            return self._carry_out(pod, run) or self._wait(pod, run)
        run.watched.clear()
        failed = any(codes.values())
        if failed and (again := await self._on_failure(pod, run)) is not None:
            return again
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and failed):
            return await self._rest(pod, run, max(codes.values()))
        await self._end(pod, run, codes)
        return None

    def _carry_out(self, pod: Object, run: Run) -> Requeue | None:
        """The server that pronounced a verdict may have been killed since, or the supervisor had not started yet."""
        if self._guard is None or not held_by(pod) or read_verdict(self.folder_of(pod)) is None:
            return None
        for process in run.processes.values():
            process.signal(signal.SIGKILL)
        self._wait(pod, run)
        return Requeue(_SOON)

    async def _on_failure(self, pod: Object, run: Run) -> Requeue | None:
        """A pod that was ended for no fault of its own leaves with its workload; None where its end is its own."""
        verdict = read_verdict(self.folder_of(pod))
        if verdict is None:
            ended = max((one.ended_at() or 0.0 for one in run.processes.values()), default=0.0)
            waits = self._guard is not None and self._guard.may_say_more(held_by(pod), ended or None)
            return Requeue(_SOON) if waits else None
        if verdict.returns and await self._evictions.evict(pod, verdict.message):
            return Requeue(_LOOK_EVERY)  # it is deleted now
        return None

    def _wait(self, pod: Object, run: Run) -> Requeue:
        """Called when one ends, where the system can; polled in any case, to date their output."""
        key = key_of(pod)
        for name, process in run.processes.items():
            if name not in run.watched and process.on_end(lambda: self.queue.add(key)):
                run.watched.add(name)
        return Requeue(_LOOK_EVERY)

    async def _rest(self, pod: Object, run: Run, code: int) -> Requeue:
        now, pause = self.clock.now(), _RESTARTS.delay(run.restarts)
        ending = Ending(code, started=run.started, finished=now)
        run.restarts += 1
        run.resting = now + pause
        await self._write(pod, statuses.resting(pod, self._node.address, now, ending, run.restarts, pause))
        for process in run.processes.values():
            process.forget()
        return Requeue(pause)

    async def _again(self, pod: Object, run: Run) -> Requeue | None:
        left = (run.resting or 0.0) - self.clock.now()
        if left > 0:
            return Requeue(left)
        for process in run.processes.values():
            process.forget()
        try:
            await self._start(pod, run)
        except Refused as refusal:
            await self._refuse(pod, str(refusal))
            return None
        except NotRecorded:
            return Requeue(_TRY_AGAIN)  # it goes on resting
        return self._wait(pod, run)

    # Ending

    async def _stop(self, pod: Object, run: Run) -> Requeue | None:
        codes = await self._codes(run)
        if codes is None:
            return self._bring_down(pod, run, pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        await self._end(pod, run, codes)
        await self._remove(pod)
        return None

    async def _cut_short(self, pod: Object, run: Run) -> Requeue | None:
        """It has run for longer than it may; unless it had ended by itself by then."""
        codes = await self._codes(run)
        if codes is None:
            run.overdue = True
            return self._bring_down(pod, run, pod["spec"].get("terminationGracePeriodSeconds") or 0)
        if not run.overdue and run.resting is None:
            return await self._look(pod, run)
        endings = {name: self._ending(pod, run, name, code) for name, code in codes.items()}
        await self._write(pod, statuses.overdue(pod, self._node.address, self.clock.now(), endings))
        self._runs.pop(uid_of(pod), None)
        return None

    async def _codes(self, run: Run) -> dict[str, int] | None:
        """How all of them ended; None while anything of them runs."""
        codes = {name: process.exit_code() for name, process in run.processes.items()}
        if run.resting is None and (None in codes.values() or not await _cleared(run.processes.values())):
            return None
        return {name: 143 if code is None else code for name, code in codes.items()}

    def _bring_down(self, pod: Object, run: Run, grace: float) -> Requeue:
        now = self.clock.now()
        if run.killed_at is None:
            run.killed_at = now + grace
            saving = checkpoint_signal(annotations_of(pod)) if grace > 0 else ""
            run.term_at = now + grace / 2 if saving else now
            if saving:
                words = f"{saving} sent, to save its state; SIGTERM follows in {grace / 2:g} s"
                self.recorder.event(PODS, pod, NORMAL, "CheckpointSignal", words)
            for name, process in run.processes.items():
                self.recorder.event(PODS, pod, NORMAL, "Killing", f"Stopping container {name}")
                if saving:
                    process.signal_command(signal.Signals[saving])
        if not run.termed and now >= run.term_at:
            run.termed = True
            for process in run.processes.values():
                process.signal(signal.SIGTERM)
        if now >= run.killed_at:
            for process in run.processes.values():
                process.signal(signal.SIGKILL)
            return self._wait(pod, run)
        self._wait(pod, run)
        return Requeue(min((run.killed_at if run.termed else run.term_at) - now, _LOOK_EVERY))

    async def _end(self, pod: Object, run: Run, codes: Mapping[str, int]) -> None:
        now = self.clock.now()
        verdict = read_verdict(self.folder_of(pod))
        endings = {name: self._ending(pod, run, name, code, verdict) for name, code in codes.items()}
        status = statuses.ended(pod, self._node.address, now, endings)
        if verdict is not None and status["phase"] == "Failed":
            status |= {"reason": verdict.reason, "message": verdict.message}
        await self._write(pod, status)
        self._runs.pop(uid_of(pod), None)
        self._seen_over.add(uid_of(pod))
        self._devices.release(self._node.name, uid_of(pod))

    def _ending(self, pod: Object, run: Run, name: str, code: int, verdict: Verdict | None = None) -> Ending:
        ended = run.processes[name].ended_at()
        if verdict is not None and code:
            finished = ended or self.clock.now()
            return Ending(code, verdict.reason, verdict.message, started=run.started, finished=finished)
        lost = run.processes[name].is_lost() and not is_deleting(pod)
        words = "the process was killed, or gone when the control plane came back, and left no exit code"
        return Ending(
            code,
            "ContainerStatusUnknown" if lost else "",
            words if lost else "",
            started=run.started,
            finished=ended or self.clock.now(),
        )

    def _address(self, node: Mapping[str, Any]) -> str:
        return self._node.address

    async def _refuse(self, pod: Object, why: str) -> None:
        self.recorder.event(PODS, pod, WARNING, "Refused", why)
        await self._write(pod, statuses.refused(pod, "Refused", why, self.clock.now()))

    async def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        try:
            await self.client.delete(PODS, metadata["name"], metadata["namespace"], uid=uid_of(pod), grace=0)
        except NotFound:
            return


def _check(pod: Mapping[str, Any]) -> None:
    spec = pod["spec"]
    found = spec.get("runtimeClassName")
    if found != PROCESS_CLASS:
        said = f'names "{found}"' if found else "has none"
        raise Refused(
            f"this node runs only pods of runtime class {PROCESS_CLASS}, as processes of this machine; "
            f"spec.runtimeClassName of this pod {said}"
        )
    if spec.get("initContainers"):
        raise Refused("spec.initContainers: init containers are not run as processes; put the step into the command")


async def _cleared(processes: Iterable[Process]) -> bool:
    """Ends what is left of those that ended without a word; usually that is none, and this does nothing."""
    cleared = [await asyncio.to_thread(end_leftovers, one.folder) for one in processes if one.is_lost()]
    return all(cleared)


def _started(pod: Mapping[str, Any]) -> float | None:
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        running = (one.get("state") or {}).get("running")
        if running:
            return parse_rfc3339(running["startedAt"])
    return None


def _restarts(pod: Mapping[str, Any]) -> int:
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(one.get("restartCount", 0)) for one in found), default=0)


def _node_of(pod: Mapping[str, Any]) -> Iterable[str]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()
