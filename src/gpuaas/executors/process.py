"""The kubelet of this machine: pods of the runtime class gpuaas-process run here as plain processes.

Others are refused with words; the taint of the node keeps them away in the first place. A pod's processes are those its
folder knows (`processes`), so that a control plane that comes back adopts what still runs, counts what has ended, and
fails what nobody can say anything about. Nothing is ever started twice at the same time.
"""

import os
import shutil
import signal
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import CONFIG_MAPS, PODS, SECRETS
from gpuaas.executors import statuses
from gpuaas.executors.environment import Missing, command_of, environment_of
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.process_logs import note_sizes
from gpuaas.executors.processes import Command, Process
from gpuaas.executors.statuses import Ending
from gpuaas.nodefit.names import PROCESS_CLASS
from gpuaas.runtime.backoff import Backoff
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, finalizers_of, is_deleting, key_of, uid_of
from gpuaas.runtime.pods import is_finished, phase_of
from gpuaas.runtime.writes import merge_diff

_MANAGER = "kubelet"
_RESTARTS = Backoff(first=10.0, limit=300.0)
_LOOK_EVERY = 1.0
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_INHERITED_PREFIXES = ("LC_", "CONDA_", "CUDA_", "NVIDIA_")


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
    overdue: bool = False
    watched: set[str] = field(default_factory=set)


class ProcessKubelet(Controller):
    name = "process-kubelet"
    component = "kubelet"
    workers = 4

    def __init__(self, deps: Deps, node: NodeSpec, folder: Path) -> None:
        super().__init__(deps)
        self._node = node
        self._folder = folder
        self._runs: dict[str, Run] = {}
        self._pods = self.follow(deps.informers.of(PODS), self._ours)
        self._pods.subscribe(self._forget)

    def folder_of(self, pod: Mapping[str, Any]) -> Path:
        return self._folder / uid_of(pod)

    def _ours(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        return (key_of(pod),) if pod["spec"].get("nodeName") == self._node.name else ()

    def _forget(self, old: Object | None, new: Object | None) -> None:
        """A pod that is gone for good takes its folder, its logs and what still runs with it."""
        if new is not None or old is None or old["spec"].get("nodeName") != self._node.name:
            return
        self._runs.pop(uid_of(old), None)
        _sweep(self.folder_of(old))

    async def run(self) -> None:
        await self._pods.synced()
        known = {uid_of(pod) for pod in self._pods.all()}
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if folder.name not in known:
                _sweep(folder)  # its pod was deleted while nobody looked
        await super().run()

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.get(*key)
        if pod is None:
            return None
        if is_finished(pod):
            if is_deleting(pod):
                await self._remove(pod)
            return None
        try:
            run = self._runs.get(uid_of(pod)) or await self._begin(pod)
        except Refused as refusal:
            await self._refuse(pod, str(refusal))
            return None
        if run is None:  # deleted before anything was started
            if finalizers_of(pod):  # it stays until they are gone, and takes no room
                await self._write(pod, statuses.ended(pod, self._node.address, self.clock.now(), {}))
            await self._remove(pod)
            return None
        if is_deleting(pod):
            return await self._stop(pod, run)
        if run.overdue or statuses.seconds_left(pod, self.clock.now()) <= 0:
            return await self._cut_short(pod, run)
        if run.resting is not None:
            return await self._again(pod, run)
        return await self._look(pod, run)

    # Starting

    async def _begin(self, pod: Object) -> Run | None:
        _check(pod)
        processes = {one["name"]: Process(self.folder_of(pod) / one["name"]) for one in pod["spec"]["containers"]}
        run = Run(processes, _started(pod) or self.clock.now(), _restarts(pod))
        if not any(one.was_started for one in processes.values()):
            if is_deleting(pod):
                return None
            await self._start(pod, run)
        self._runs[uid_of(pod)] = run
        return run

    async def _start(self, pod: Object, run: Run) -> None:
        commands = {one["name"]: await self._command(pod, one) for one in pod["spec"]["containers"]}
        run.started = self.clock.now()
        for name, process in run.processes.items():
            try:
                process.start(commands[name])
            except OSError as error:
                for other in run.processes.values():
                    other.signal(signal.SIGKILL)
                raise Refused(f"container {name} could not be started: {error}") from None
        run.watched.clear()
        await self._write(pod, statuses.running(pod, self._node.address, self._node.address, run.started, run.restarts))
        for _ in commands:
            self.recorder.event(PODS, pod, NORMAL, "Started", "Container started")

    async def _command(self, pod: Object, container: Mapping[str, Any]) -> Command:
        namespace = pod["metadata"]["namespace"]

        async def lookup(kind: str, name: str) -> Mapping[str, Any]:
            if kind == "ConfigMap":
                return (await self.client.get(CONFIG_MAPS, name, namespace)).get("data") or {}
            data = (await self.client.get(SECRETS, name, namespace)).get("data") or {}
            return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}

        try:
            environment = await environment_of(pod, container, lookup, _inherited())
        except Missing as missing:
            raise Refused(f"container {container['name']}: {missing}") from None
        words = command_of(container, environment)
        if not words:
            raise Refused(
                f"container {container['name']} has no command: a process is not taken from an image, "
                "so spec.containers[].command must say what to run"
            )
        return Command(words, environment, self._work_folder(pod, container))

    def _work_folder(self, pod: Object, container: Mapping[str, Any]) -> Path:
        asked = container.get("workingDir")
        if not asked:
            folder = self.folder_of(pod) / "work"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return folder
        try:
            is_folder = Path(asked).is_dir()
        except OSError:  # of somebody else's, who lets nobody look
            is_folder = False
        if not is_folder:
            raise Refused(f"container {container['name']}: workingDir {asked} is no folder on this machine")
        return Path(asked)

    # Running

    async def _look(self, pod: Object, run: Run) -> Requeue | None:
        if phase_of(pod) == "Pending":  # the write that said it runs was lost
            address = self._node.address
            await self._write(pod, statuses.running(pod, address, address, run.started, run.restarts))
        for process in run.processes.values():
            note_sizes(process.folder, self.clock.now())
        codes = {name: process.exit_code() for name, process in run.processes.items()}
        if None in codes.values():
            return self._wait(pod, run)
        if any(process.may_still_begin(self.clock.now()) for process in run.processes.values()):
            return Requeue(_LOOK_EVERY)
        run.watched.clear()
        failed = any(codes.values())
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and failed):
            return await self._rest(pod, run, max(code or 0 for code in codes.values()))
        await self._end(pod, run, {name: code or 0 for name, code in codes.items()})
        return None

    def _wait(self, pod: Object, run: Run) -> Requeue:
        """Told when one ends, where the system can; looked at now and then in any case, to date what they write."""
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
        for process in run.processes.values():
            process.forget()
        await self._write(pod, statuses.resting(pod, self._node.address, now, ending, run.restarts, pause))
        return Requeue(pause)

    async def _again(self, pod: Object, run: Run) -> Requeue | None:
        left = (run.resting or 0.0) - self.clock.now()
        if left > 0:
            return Requeue(left)
        run.resting = None
        try:
            await self._start(pod, run)
        except Refused as refusal:
            await self._refuse(pod, str(refusal))
            return None
        return self._wait(pod, run)

    # Ending

    async def _stop(self, pod: Object, run: Run) -> Requeue | None:
        codes = self._codes(run)
        if codes is None:
            return self._bring_down(pod, run, pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        await self._end(pod, run, codes)
        await self._remove(pod)
        return None

    async def _cut_short(self, pod: Object, run: Run) -> Requeue | None:
        """It has run for longer than it may; unless it had ended by itself when somebody looked."""
        codes = self._codes(run)
        if codes is None:
            run.overdue = True
            return self._bring_down(pod, run, pod["spec"].get("terminationGracePeriodSeconds") or 0)
        if not run.overdue and run.resting is None:
            return await self._look(pod, run)
        endings = {name: self._ending(pod, run, name, code) for name, code in codes.items()}
        await self._write(pod, statuses.overdue(pod, self._node.address, self.clock.now(), endings))
        self._runs.pop(uid_of(pod), None)
        return None

    def _codes(self, run: Run) -> dict[str, int] | None:
        """How all of them ended; None while one runs."""
        codes = {name: process.exit_code() for name, process in run.processes.items()}
        if None in codes.values() and run.resting is None:
            return None
        return {name: 143 if code is None else code for name, code in codes.items()}

    def _bring_down(self, pod: Object, run: Run, grace: float) -> Requeue:
        now = self.clock.now()
        if run.killed_at is None:
            run.killed_at = now + grace
            for name, process in run.processes.items():
                self.recorder.event(PODS, pod, NORMAL, "Killing", f"Stopping container {name}")
                process.signal(signal.SIGTERM)
        if now >= run.killed_at:
            for process in run.processes.values():
                process.signal(signal.SIGKILL)
            return Requeue(0.05)
        self._wait(pod, run)
        return Requeue(min(run.killed_at - now, _LOOK_EVERY))

    async def _end(self, pod: Object, run: Run, codes: Mapping[str, int]) -> None:
        now = self.clock.now()
        endings = {name: self._ending(pod, run, name, code) for name, code in codes.items()}
        await self._write(pod, statuses.ended(pod, self._node.address, now, endings))
        self._runs.pop(uid_of(pod), None)

    def _ending(self, pod: Object, run: Run, name: str, code: int) -> Ending:
        ended = run.processes[name].ended_at()
        lost = code == 137 and ended is None and not is_deleting(pod)
        words = "the process was killed, or gone when the control plane came back, and left no exit code"
        return Ending(
            code,
            "ContainerStatusUnknown" if lost else "",
            words if lost else "",
            started=run.started,
            finished=ended or self.clock.now(),
        )

    async def _refuse(self, pod: Object, why: str) -> None:
        self.recorder.event(PODS, pod, WARNING, "Refused", why)
        await self._write(pod, statuses.refused(pod, "Refused", why, self.clock.now()))

    async def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        try:
            await self.client.delete(PODS, metadata["name"], metadata["namespace"], uid=uid_of(pod), grace=0)
        except NotFound:
            return

    async def _write(self, pod: Object, status: Object) -> None:
        patch = merge_diff(pod.get("status") or {}, status)
        if patch:
            metadata = pod["metadata"]
            body = {"metadata": {"uid": uid_of(pod)}, "status": patch}
            await self.client.patch(
                PODS, metadata["name"], body, metadata["namespace"], subresource="status", field_manager=_MANAGER
            )


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


def _sweep(folder: Path) -> None:
    """End what still runs there, and remove it."""
    for container in folder.iterdir() if folder.is_dir() else ():
        Process(container).signal(signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def _inherited() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }


def _started(pod: Mapping[str, Any]) -> float | None:
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        running = (one.get("state") or {}).get("running")
        if running:
            return parse_rfc3339(running["startedAt"])
    return None


def _restarts(pod: Mapping[str, Any]) -> int:
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(one.get("restartCount", 0)) for one in found), default=0)
