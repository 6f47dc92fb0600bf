"""Who uses the cards of this machine: processes NVML names, each with the pod it belongs to. Pure, but for `look`.

Sums are by pod and card. A pod that uses more than its budget is over it by a margin: the driver takes memory for a
process that no allocation of its shows (kernels that are loaded, stacks), and who keeps to the budget otherwise is not
stopped for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from gpuaas.devices.budget import budgets_of
from gpuaas.devices.foreign import ForeignProcess
from gpuaas.devices.holding import Held
from gpuaas.executors.supervisor import MARK
from gpuaas.telemetry.nvml import GpuProcess
from gpuaas.telemetry.process_table import Owner

_MIB: Final = 1 << 20
_LEAST_MARGIN, _MOST_MARGIN = 256 * _MIB, 512 * _MIB
POD_MARK: Final = MARK


class Driver(Protocol):
    """What is asked of telemetry.nvml.Nvml here."""

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]: ...


class Table(Protocol):
    """What is asked of telemetry.process_table.ProcessTable here."""

    def owner(self, pid: int) -> Owner | None: ...

    def started(self, pid: int) -> str: ...


@dataclass(frozen=True, slots=True)
class User:
    """A process with memory on a card. `pod` is the uid of the pod whose folder it runs for; `ours`: a part of gpuaas
    itself, an MPS server."""

    card: str  # or the slice
    pid: int
    memory: int
    pod: str = ""
    ours: bool = False
    user: str = ""
    command: str = ""
    started: str = ""


@dataclass(frozen=True, slots=True)
class Overrun:
    pod: str
    card: str
    used: int
    budget: int
    pids: tuple[tuple[int, str], ...]  # with when each started

    @property
    def in_words(self) -> str:
        return f"used {_gib(self.used)} of {_gib(self.budget)} GPU memory on {self.card}"


def look(driver: Driver, table: Table, cards: Iterable[str], pods: Path, others: Path) -> list[User]:
    """In a thread. `pods`: the folder of this cluster's pods; `others`: that of the MPS daemons."""
    found: list[User] = []
    for card in cards:
        for process in driver.processes(card):
            owner = table.owner(process.pid)
            if owner is None:
                continue  # it has ended in between
            began = table.started(process.pid)
            pod = _pod_of(owner.folder, pods)
            ours = not pod and bool(owner.folder) and Path(owner.folder).is_relative_to(others)
            found.append(User(card, process.pid, process.memory, pod, ours, owner.user, owner.command, began))
    return found


def _pod_of(folder: str, pods: Path) -> str:
    try:
        return Path(folder).relative_to(pods).parts[0] if folder else ""
    except (ValueError, IndexError):
        return ""


def limit_of(budget: int) -> int:
    """From what on a pod is stopped."""
    return budget + min(_MOST_MARGIN, max(_LEAST_MARGIN, budget // 50))


def overruns(users: Sequence[User], held: Mapping[str, Sequence[Held]]) -> list[Overrun]:
    """`held`: devices by pod."""
    sums: dict[tuple[str, str], list[User]] = {}
    for user in users:
        if user.pod in held:
            sums.setdefault((user.pod, user.card), []).append(user)
    found: list[Overrun] = []
    for (pod, card), mine in sums.items():
        budget = budgets_of(held[pod]).get(card, 0)
        used = sum(one.memory for one in mine)
        if budget and used > limit_of(budget):
            found.append(Overrun(pod, card, used, budget, tuple((one.pid, one.started) for one in mine)))
    return found


def strangers(
    users: Sequence[User], held: Mapping[str, Sequence[Held]], names: Mapping[str, str]
) -> list[ForeignProcess]:
    """Processes on cards that are not of a pod which holds the card. `names`: of the pods there are, by uid."""
    found: list[ForeignProcess] = []
    for user in users:
        if user.ours or (user.pod and _may_use(user, held, names)):
            continue
        who = f"pod {names[user.pod]}" if user.pod else user.user
        found.append(ForeignProcess(user.card, user.pid, who, user.command, user.memory))
    return sorted(found, key=lambda one: (one.card, one.pid))


def _may_use(user: User, held: Mapping[str, Sequence[Held]], names: Mapping[str, str]) -> bool:
    if user.pod not in names:
        return True  # its pod is gone, and it is about to be ended
    return any(user.card in (one.card, one.uuid) for one in held.get(user.pod, ()))


def _gib(amount: int) -> str:
    return f"{amount / (1 << 30):.2f} GiB"
