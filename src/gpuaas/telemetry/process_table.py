"""Whose a process is: the pod of this machine it belongs to, its unix user, its command. Read from /proc.

Every process of a pod has a supervisor among its ancestors (the supervisor is a subreaper), and the environment a
supervisor was started with names the pod's folder. So the pod is found from outside, whatever the process did to its own
environment, and also after the control plane was started again. Only a mark in the environment of a process of the
server's own user counts: another user cannot pass off a process as a pod's.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuaas.base.numbers import natural

_DEEPEST: Final = 256  # ancestors that are looked at
_REMEMBERED: Final = 4096
_COMMAND: Final = 64  # characters of a command that are shown


@dataclass(frozen=True, slots=True)
class Owner:
    """`folder`: what the mark names, a container's folder or the home of our MPS daemons; empty for a foreign process."""

    folder: str = ""
    user: str = ""
    command: str = ""


UNKNOWN_OWNER: Final = Owner()


class ProcessTable:
    """`marks`: variables of the environment that name a folder, the first found on the way up counts."""

    def __init__(self, marks: Iterable[str], proc: Path = Path("/proc")) -> None:
        self._marks = tuple(f"{mark}=".encode() for mark in marks)
        self._proc = proc
        self._known: dict[tuple[int, str], Owner] = {}

    def started(self, pid: int) -> str:
        """When it started, in ticks; with its number it names a process for good. Empty where it is gone."""
        return _field(self._stat(pid), 19)

    def owner(self, pid: int) -> Owner | None:
        """None where the process is gone."""
        began = self.started(pid)
        if not began:
            return None
        known = self._known.get((pid, began))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[pid, began] = Owner(self._folder(pid), self._user(pid), self._command(pid))
        return known

    def _folder(self, pid: int) -> str:
        for _ in range(_DEEPEST):
            if pid <= 1:
                break
            if found := self._mark(pid):
                return found
            pid = natural(_field(self._stat(pid), 1)) or 0
        return ""

    def _mark(self, pid: int) -> str:
        path = self._proc / str(pid)
        try:
            if path.stat().st_uid not in (os.geteuid(), 0):
                return ""
            environment = (path / "environ").read_bytes()
        except OSError:
            return ""
        for each in environment.split(b"\0"):
            for mark in self._marks:
                if each.startswith(mark):
                    return os.fsdecode(each[len(mark) :])
        return ""

    def _stat(self, pid: int) -> bytes:
        try:
            return (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return b""

    def _user(self, pid: int) -> str:
        try:
            number = (self._proc / str(pid)).stat().st_uid
        except OSError:
            return ""
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)

    def _command(self, pid: int) -> str:
        try:
            words = (self._proc / str(pid) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return ""
        return Path(os.fsdecode(words[0])).name[:_COMMAND] if words[0] else ""


def _field(stat: bytes, number: int) -> str:
    """Of what stands behind the command's name, counted from 0: state, parent, ..."""
    fields = stat.rpartition(b")")[2].split()
    return fields[number].decode() if len(fields) > number and fields[0] not in (b"Z", b"X") else ""
