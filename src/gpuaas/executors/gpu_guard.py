"""Watches the cards of this machine while pods and others use them.

- Memory: while a pod with a budget runs, NVML's memory by process is read every 50 ms. The processes of a pod over its
  budget are killed at once, then all of the pod; its status says why, with the figures. Its neighbours go on.
- Foreign processes: a process on a card that belongs to no pod here is written to the node (devices.foreign), which closes
  the card for new work, unless `gpuaas up --ignore-foreign` was said.
- Health: Xids, row remapping and cards that vanish are written to the node as faults of the card.
- MPS: the daemon of each card in use is started again when it ends. A fault of one client ends all clients of a card, and
  nothing says reliably whose it was: all pods of the card are ended with that reason and return to their queues.

Whatever asks the driver runs in threads. Verdicts are written before anything is ended (module verdicts).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NODES, PODS
from gpuaas.devices.budget import budgets_of
from gpuaas.devices.faults import ANNOTATION as FAULTS
from gpuaas.devices.faults import TOO_HOT
from gpuaas.devices.foreign import FOREIGN, IGNORED, encode_foreign, foreign_processes
from gpuaas.devices.health import xid_filter
from gpuaas.devices.holding import ANNOTATION as HELD
from gpuaas.devices.holding import Held, held_by
from gpuaas.executors import gpu_sight
from gpuaas.executors.devices import ON_NODE
from gpuaas.executors.gpu_environment import MPS, Provision, cards_by_mps
from gpuaas.executors.mps import MARK as MPS_MARK
from gpuaas.executors.mps import MpsDaemons, MpsError
from gpuaas.executors.mps_suspects import Suspects, suspect_of
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.processes import Process
from gpuaas.executors.verdicts import Verdict, pronounce
from gpuaas.runtime.controller import Deps, Loop
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import annotations_of, uid_of
from gpuaas.runtime.pods import is_finished
from gpuaas.telemetry.nvml import DriverError, Nvml, XidEvent
from gpuaas.telemetry.process_table import ProcessTable

_log = logging.getLogger(__name__)

OVER_LIMIT: Final = "GPUMemoryOverLimit"
MPS_FAULT: Final = "GPUFaultOnMPSCard"
GPU_FAULT: Final = "GPUFault"
MPS_ENDED: Final = "MPSDaemonEnded"
BOOT: Final = "gpuaas.dev/boot-id"  # annotation of the node: the boot in which its faults were found
_EVERY: Final = 0.05  # seconds between two looks at memory
_IDLE: Final = 0.1  # seconds between two looks for pods with a budget; this asks the driver nothing
_SOON: Final = 1.0
_COOLER: Final = 5  # degrees below the limit
_LOOK: Final = 2.0  # seconds between two looks at all cards
_RARELY: Final = 600.0  # seconds until a driver that reports no events is asked again
_WAIT: Final = 500  # milliseconds in which an Xid is waited for
_MANAGER: Final = "gpuaas-gpu-guard"
_CHANGED: Final = 0.1  # of its memory: what of a foreign process is worth a write
_IDLE_DAEMON: Final = 60.0
_LATE_NEWS: Final = 1.5  # seconds in which all that report a fault have done so
_FAULT_NEWS: Final = 2.0  # seconds after a client's end in which the news of a fault comes


class GpuGuard(Loop):
    name = "gpu-guard"

    def __init__(
        self,
        deps: Deps,
        node: NodeSpec,
        folder: Path,
        mps: MpsDaemons,
        *,
        library: Path | None = None,
        ignore_foreign: bool = False,
        open_driver: Callable[[], Nvml] = Nvml.open,
    ) -> None:
        super().__init__(deps)
        self._node, self._folder, self._mps = node, folder, mps
        self._library = library
        self._ignores = ignore_foreign
        self._open = open_driver
        self._cards = [card.uuid for card in node.cards()]
        self._pods = deps.informers.of(PODS)
        self._pods.add_index(ON_NODE, lambda pod: (pod["spec"]["nodeName"],) if pod["spec"].get("nodeName") else ())
        self._nodes = deps.informers.of(NODES)
        self.recorder = deps.events.recorder("gpu-guard")
        self._table = ProcessTable((gpu_sight.POD_MARK, MPS_MARK))
        self._threads = ThreadPoolExecutor(3, "gpu-guard")
        self._faults: set[str] = set()  # as the node's annotation has them
        self._written: set[str] = set()
        self._seen_before: set[tuple[str, int]] = set()
        self._suspects = Suspects()
        self._mps_faults: dict[str, float] = {}  # by card, when the last one was reported
        self._ended: set[str] = set()  # pods that share by MPS and were ended by a fault
        self._idle: dict[str, float] = {}  # since when a daemon serves no pod; infinity once it was ended
        self._asked_daemon: dict[str, float] = {}  # when it was last asked whether it lives
        self._positions: dict[str, int] = {}  # in the logs of MPS servers
        self.on_verdict: Callable[[Object], None] = lambda _: None
        self.looked = asyncio.Event()  # foreign processes are known

    # What the kubelet asks

    async def prepare(self, held: Sequence[Held]) -> None:
        """Before a pod with these devices starts. Raises MpsError."""
        for card in cards_by_mps(held):
            limit = max(max(one.budget for one in held if one.card == card), self._largest_budget(card))
            if await asyncio.to_thread(self._mps.ensure, card, limit):
                self._tell(NORMAL, "MPSDaemonStarted", f"the MPS control daemon of card {card} has started")
                self._positions[card] = 0

    def provision(self, held: Sequence[Held]) -> Provision:
        return Provision(self._library, {card: self._mps.pipe(card) for card in cards_by_mps(held)})

    def may_say_more(self, held: Sequence[Held], ended: float | None) -> bool:
        """Whether the reason of a failed process of a card shared by MPS may still come: it is waited for."""
        return bool(cards_by_mps(held)) and ended is not None and self.clock.now() < ended + _FAULT_NEWS

    def runs_alone(self, pod: Mapping[str, Any]) -> bool:
        """Whether the pod shares no card by MPS for now: it may be the one that faults."""
        return self._suspects.runs_alone(pod, self.clock.monotonic())

    def _largest_budget(self, card: str) -> int:
        return max((one.budget for held in self._held().values() for one in held if one.card == card), default=0)

    # The loop

    async def run(self) -> None:
        await self._pods.synced()
        await self._nodes.synced()
        self._threads = ThreadPoolExecutor(3, "gpu-guard")
        try:
            driver = await self._in_thread(self._open)
        except DriverError as error:
            _log.warning("GPUs are not watched: %s; %s", error, error.fix)
            self.looked.set()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_memory(driver), name="gpu-guard memory")
                group.create_task(self._watch_cards(driver), name="gpu-guard cards")
                group.create_task(self._watch_events(driver), name="gpu-guard events")
                group.create_task(self._watch_mps(), name="gpu-guard mps")
        finally:
            self.looked.set()
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _held(self) -> dict[str, tuple[Held, ...]]:
        """Devices by pod, of the pods here that have not ended."""
        return {
            uid_of(pod): held
            for pod in self._pods.indexed(ON_NODE, self._node.name)
            if not is_finished(pod) and (held := _held_as(annotations_of(pod).get(HELD, "")))
        }

    def _look(self, driver: Nvml, cards: Iterable[str]) -> list[gpu_sight.User]:
        return gpu_sight.look(driver, self._table, cards, self._folder, self._mps.root)

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    # Memory

    async def _watch_memory(self, driver: Nvml) -> None:
        while True:
            held = self._held()
            cards = sorted({card for one in held.values() for card in budgets_of(one)})
            if not cards:
                await self.clock.sleep(_IDLE)
                continue
            users = await self._in_thread(partial(self._look, driver, cards))
            for overrun in gpu_sight.overruns(users, self._held()):
                await self._stop_over(overrun)
            await self.clock.sleep(_EVERY)

    async def _stop_over(self, overrun: gpu_sight.Overrun) -> None:
        pod = self._pod(overrun.pod)
        if pod is None:
            return
        words = f"{overrun.in_words}; stopped, its neighbours on the card go on"
        first = await self._in_thread(partial(self._end, overrun.pod, Verdict(OVER_LIMIT, words), overrun.pids))
        self.on_verdict(pod)
        if first:
            self.recorder.event(PODS, pod, WARNING, OVER_LIMIT, words)

    def _end(self, uid: str, verdict: Verdict, pids: Sequence[tuple[int, str]]) -> bool:
        """In a thread: those that hold memory first, then all of the pod."""
        folder = self._folder / uid
        first = pronounce(folder, verdict)
        for pid, started in pids:
            if self._table.started(pid) == started:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        for one in folder.iterdir() if folder.is_dir() else ():
            if (one / "intent").exists():
                Process(one).signal(signal.SIGKILL)
        return first

    def _pod(self, uid: str) -> Object | None:
        return next((pod for pod in self._pods.indexed(ON_NODE, self._node.name) if uid_of(pod) == uid), None)

    # Foreign processes, and cards that do not answer

    async def _watch_cards(self, driver: Nvml) -> None:
        await self._forget_old_faults()
        first = True
        while True:
            users = await self._in_thread(partial(self._look, driver, self._cards))
            await self._note_foreign(users, at_once=first)
            await self._note_lost(driver)
            self.looked.set()
            first = False
            await self.clock.sleep(_LOOK)

    async def _note_foreign(self, users: Sequence[gpu_sight.User], *, at_once: bool) -> None:
        """What is seen twice in a row: a pod that ends may be seen once more without its pod."""
        pods = self._pods.indexed(ON_NODE, self._node.name)
        names = {uid_of(pod): f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods}
        held = {uid_of(pod): held_by(pod) for pod in pods}
        found = gpu_sight.strangers(users, held, names)
        seen = {(one.card, one.pid) for one in found}
        if not at_once:
            found = [one for one in found if (one.card, one.pid) in self._seen_before]
        self._seen_before = seen
        node = self._nodes.get("", self._node.name)
        if node is None:
            return
        text = annotations_of(node).get(FOREIGN, "")
        known = {(one.card, one.pid): one.memory for one in foreign_processes(text)}
        rule = "true" if self._ignores else None
        if annotations_of(node).get(IGNORED) != rule:
            await self._annotate({IGNORED: rule})
        now = {(one.card, one.pid): one.memory for one in found}
        alike = known.keys() == now.keys() and all(abs(now[k] - known[k]) <= known[k] * _CHANGED for k in now)
        if alike:
            return
        await self._annotate({FOREIGN: encode_foreign(found) or None})
        for one in found:
            if (one.card, one.pid) not in known:
                how = "it is ignored" if self._ignores else "the card takes no new work while it runs"
                self._tell(WARNING, "ForeignGPUProcess", f"card {one.card} is used by {one.in_words}; {how}")

    async def _note_lost(self, driver: Nvml) -> None:
        for card in self._cards:
            if card.startswith("unknown-"):
                continue
            why = await self._in_thread(partial(driver.lost, card))
            rows = "" if why else await self._in_thread(partial(driver.broken_rows, card))
            for fault, is_so in (("vanished", bool(why)), ("ecc", bool(rows))):
                if fault == "ecc" and why:
                    continue
                await self._set_fault(f"{card}={fault}", is_so, why or rows)
            if not why:
                await self._note_heat(card, await self._in_thread(partial(driver.temperature, card)))

    async def _note_heat(self, card: str, degrees: int | None) -> None:
        """A card that is too hot comes back when it has cooled down well below."""
        node = self._nodes.get("", self._node.name)
        known = next(
            (one for one in _faults_of(node or {"metadata": {}}) if one.startswith(f"{card}=temperature:")), ""
        )
        if degrees is None:
            return
        if known and degrees < TOO_HOT - _COOLER:
            await self._set_fault(known, False, "")
        elif not known and degrees >= TOO_HOT:
            await self._set_fault(f"{card}=temperature:{degrees}", True, f"{degrees} °C, the limit is {TOO_HOT} °C")

    async def _annotate(self, annotations: Mapping[str, str | None]) -> None:
        patch = {"metadata": {"annotations": dict(annotations)}}
        with suppress(ApiError):
            await self.client.patch(NODES, self._node.name, patch, field_manager=_MANAGER)

    def _tell(self, kind: str, reason: str, words: str) -> None:
        node = self._nodes.get("", self._node.name)
        if node is not None:
            self.recorder.event(NODES, node, kind, reason, words[:1024])

    # Health

    async def _watch_events(self, driver: Nvml) -> None:
        wrong = xid_filter(os.environ)
        pause = _LOOK
        while True:
            try:
                events = await self._in_thread(partial(driver.events, tuple(self._cards)))
                while True:
                    event = await self._in_thread(partial(events.wait, _WAIT))
                    if event is not None:
                        pause = _LOOK
                        await self._on_xid(event, is_ill=wrong.is_unhealthy(event.xid))
            except DriverError as error:
                _log.warning("GPU events: %s; asked again in %d s", error, pause)
                await self.clock.sleep(pause)
                pause = min(pause * 2, _RARELY)

    async def _on_xid(self, event: XidEvent, *, is_ill: bool) -> None:
        cards = self._cards if event.uuid is None else [event.uuid]
        for card in cards:
            if is_ill:
                await self._set_fault(f"{card}=xid:{event.xid}", True, f"Xid {event.xid}")
                continue
            words = f"Xid {event.xid} on card {card}: an error of a program (NVIDIA's ignore list); the card stays in service"
            self._tell(WARNING, "GPUApplicationFault", words)
            await self._on_fault(card)

    async def _set_fault(self, fault: str, is_so: bool, words: str) -> None:
        """Writes the node's faults where they change. What people took out of the annotation is over."""
        node = self._nodes.get("", self._node.name)
        if node is None:
            return
        present = _faults_of(node)
        wanted = present | {fault} if is_so else present - {fault}
        if wanted == present:
            return
        await self._annotate({FAULTS: ",".join(sorted(wanted)) or None, BOOT: _boot() or None})
        card = fault.partition("=")[0]
        if is_so:
            clear = f"kubectl annotate node {self._node.name} {FAULTS}-"
            self._tell(WARNING, "GPUFault", f"card {card}: {words}; it takes no work until it is well ({clear})")
        else:
            self._tell(NORMAL, "GPURecovered", f"card {card} takes work again: {fault.partition('=')[2]} is over")

    async def _forget_old_faults(self) -> None:
        """What was found in an earlier boot of the machine is over."""
        node = self._nodes.get("", self._node.name)
        if node is None or annotations_of(node).get(BOOT, "") in ("", _boot()):
            return
        kept = {one for one in _faults_of(node) if one.partition("=")[0] not in self._cards}
        await self._annotate({FAULTS: ",".join(sorted(kept)) or None, BOOT: None})

    # MPS

    async def _watch_mps(self) -> None:
        while True:
            sharing = {uid: cards for uid, held in self._held().items() if (cards := cards_by_mps(held))}
            self._ended &= sharing.keys()
            cards = sorted({card for each in sharing.values() for card in each})
            for card in cards:
                await self._look_after(card)
            await self._end_idle_daemons(cards)
            await self.clock.sleep(_EVERY * 4 if cards else _SOON)

    async def _look_after(self, card: str) -> None:
        position = self._positions.get(card, -1)
        read, faulted = await asyncio.to_thread(self._mps.faults, card, position)
        self._positions[card] = read
        if faulted:
            await self._on_fault(card)
        now = self.clock.monotonic()
        if now - self._asked_daemon.get(card, -_LOOK) < _LOOK:
            return
        self._asked_daemon[card] = now
        if not await asyncio.to_thread(self._mps.is_alive, card):
            limit = self._largest_budget(card)
            words = f"ended with its MPS daemon: the control daemon of card {card} had ended"
            await self._end_all(card, MPS_ENDED, words)
            try:
                await asyncio.to_thread(self._mps.ensure, card, limit)
            except MpsError as error:
                self._tell(WARNING, MPS_ENDED, f"the MPS control daemon of card {card} has ended: {error}")
            else:
                self._tell(WARNING, MPS_ENDED, f"the MPS control daemon of card {card} had ended and was started again")

    async def _end_idle_daemons(self, cards: Sequence[str]) -> None:
        """A card without pods by MPS needs no daemon after a while: its server holds memory."""
        now = self.clock.monotonic()
        for card in self._cards:
            if card in cards or not self._mps.pipe(card).is_dir():
                self._idle.pop(card, None)
            elif now - self._idle.setdefault(card, now) > _IDLE_DAEMON:
                self._idle[card] = math.inf
                await asyncio.to_thread(self._mps.stop, card)

    async def _on_fault(self, card: str) -> None:
        """All clients of the card's server end. The driver and the server's log both report a fault, up to a second apart;
        pods that have begun since take longer than that to come to a fault of their own."""
        now = self.clock.monotonic()
        if now - self._mps_faults.get(card, -_LATE_NEWS) < _LATE_NEWS:
            return
        victims = [pod for pod in self._on_mps_card(card) if uid_of(pod) not in self._ended]
        if not victims:
            return
        self._mps_faults[card] = now
        self._ended.update(map(uid_of, victims))
        named = ", ".join(sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in victims))
        if self._suspects.on_fault(card, (suspect_of(pod) for pod in victims), now):
            words = "ended by a GPU fault of its own: it was alone on its MPS card"
            await self._end_all(card, GPU_FAULT, words, returns=False)
            self._tell(WARNING, MPS_FAULT, f"card {card}: a GPU fault of {named}, which was alone on it")
            return
        words = f"ended with its MPS card: a GPU fault in one of {named}"
        await self._end_all(card, MPS_FAULT, words)
        apart = [pod for pod in victims if self._suspects.runs_alone(pod, now)]
        then = "; it is not the first within an hour, so they run one by one until one faults alone" if apart else ""
        self._tell(WARNING, MPS_FAULT, f"card {card}: a GPU fault ended all that share it by MPS: {named}{then}")

    async def _end_all(self, card: str, reason: str, words: str, *, returns: bool = True) -> None:
        verdict = Verdict(reason, words, returns)
        for pod in self._on_mps_card(card):
            if await self._in_thread(partial(self._end, uid_of(pod), verdict, ())):
                self.recorder.event(PODS, pod, WARNING, reason, words[:1024])
            self.on_verdict(pod)

    def _on_mps_card(self, card: str) -> list[Object]:
        return [
            pod
            for pod in self._pods.indexed(ON_NODE, self._node.name)
            if not is_finished(pod) and any(one.card == card and one.sharing == MPS for one in held_by(pod))
        ]


@lru_cache(maxsize=1024)
def _held_as(text: str) -> tuple[Held, ...]:
    """What the annotation says, read once: it is looked at many times a second."""
    return held_by({"metadata": {"annotations": {HELD: text}}}) if text else ()


def _faults_of(node: Mapping[str, Any]) -> set[str]:
    return {part.strip() for part in annotations_of(node).get(FAULTS, "").split(",") if part.strip()}


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
