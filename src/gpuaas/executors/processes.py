"""Real processes, one supervisor for each container, that outlive the control plane and can be found again.

The supervisor (module supervisor) is the parent of the container's command and of whatever that leaves behind. What has
to be known about a run is in the container's folder, and there is room for it before the run begins: `intent`, whose
file lock is held as long as the supervisor lives, `pid` of the supervisor, and `exit` with the exit code. So a control
plane that comes back reads whether it runs, how it ended, or that this is not known. The server that started it learns
the exit code from the system and needs the files only when it comes back.

A supervisor can itself be killed. Then `end_leftovers` finds what is left of the container by the variable that marks
every process of it, or by where it writes.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuaas.executors import supervisor

LOST = 137  # the exit code of a process of which none is known, as kubelets give it
_ROOM = b"\n" * 64  # reserved for a pid or an exit code
_RESERVED = ("pid", "exit")
_PASSES = 20  # of ending what is left, until it is left to a later call
_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # what the interpreter may need to start


class NotRecorded(Exception):
    """There is no room to record the run, so nothing was started."""


@dataclass(frozen=True, slots=True)
class Command:
    words: Sequence[str]
    environment: Mapping[str, str]
    folder: Path  # where it runs


class Process:
    """The process of one container, by its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        self._is_reserved = False

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def was_started(self) -> bool:
        """The supervisor writes its pid before it starts the command: where there is none, and it is gone, nothing ran."""
        if not (self.folder / "intent").exists():
            return False
        return any((self.folder / name).exists() for name in _RESERVED) or self.is_alive()

    # Starting

    def reserve(self) -> None:
        """Room for all that is to be recorded, before anything is started."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in _RESERVED:
                (self.folder / name).unlink(missing_ok=True)
                _write_new(self.folder / f"{name}.new", _ROOM)
            _write_new(self.folder / "intent", b"")
            os.close(_open_log(self.log))
        except OSError as error:
            raise NotRecorded(f"the run cannot be recorded in {self.folder}: {error.strerror}") from None
        self._is_reserved = True

    def start(self, command: Command) -> None:
        """Begin. What may have been started is never started a second time."""
        if not self._is_reserved:
            self.reserve()
        self._is_reserved = False
        with _locked(self.folder / "intent") as lock:
            log = _open_log(self.log)
            try:
                self._child = subprocess.Popen(
                    [*interpreter(), str(self.folder), str(lock), str(os.getpid()), *command.words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=command.folder,
                    env=variables_of(self.folder, command.environment),
                    pass_fds=(lock,),
                    start_new_session=True,
                )
            finally:
                os.close(log)

    def forget(self) -> None:
        """Before it may be started again."""
        (self.folder / "intent").unlink(missing_ok=True)

    # How it is

    def is_alive(self) -> bool:
        """Whether its supervisor runs."""
        if self._child is not None and self._child.poll() is None:  # the question also reaps it
            return True
        try:
            descriptor = os.open(self.folder / "intent", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        else:
            return False
        finally:
            os.close(descriptor)

    def exit_code(self) -> int | None:
        """None while anything of it runs; LOST also where it is not known how it ended (`is_lost`)."""
        if self.is_alive():
            return None
        known = self._known_code()
        return LOST if known is None else known

    def is_lost(self) -> bool:
        """It has ended, and nothing says how: something of it may be left (`end_leftovers`)."""
        return not self.is_alive() and self._known_code() is None

    def _known_code(self) -> int | None:
        if self._child is not None and self._child.returncode is not None and self._child.returncode >= 0:
            return self._child.returncode
        return next((code for _, code in self._written()), None)

    def ended_at(self) -> float | None:
        """When the exit code was written, even if the server was down then."""
        for path, _ in self._written():
            with contextlib.suppress(OSError):
                return path.stat().st_mtime
        return None

    def _written(self) -> Iterator[tuple[Path, int]]:
        """The exit code on disk; under its first name where it could not get its last."""
        for name in ("exit", "exit.new"):
            code = _read_number(self.folder / name)
            if code is not None:
                yield self.folder / name, code

    def pid(self) -> int:
        """Of the supervisor, if it is alive; 0 otherwise."""
        if not self.is_alive():
            return 0
        if self._child is not None and self._child.returncode is None:
            return self._child.pid
        return _read_number(self.folder / "pid") or 0

    # Ending

    def signal(self, number: signal.Signals) -> None:
        """SIGKILL ends all there is of the container; others go to the process group of its command."""
        pid = self.pid()
        if not pid:
            return
        if number == signal.SIGKILL:
            supervisor.send([pid], supervisor.ASKED_TO_KILL)
            supervisor.send([pid], signal.SIGCONT)  # a stopped one hears it too
        else:
            supervisor.send([pid], number)

    def signal_command(self, number: int) -> None:
        """To the process group of its command, past the supervisor, for which some signals have a meaning of their own."""
        for child in supervisor.children_of(self.pid()):
            with contextlib.suppress(OSError):
                if os.getsid(child) == child:
                    os.killpg(child, number)

    def on_end(self, tell: Callable[[], None]) -> bool:
        """`tell` is called from the event loop when the supervisor ends; False where the system cannot do that."""
        pid = self.pid()
        if not pid:
            return False
        try:
            descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            return False
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            tell()

        loop.add_reader(descriptor, ended)
        return True


def end_leftovers(folder: Path) -> bool:
    """Kills what a supervisor that was killed has left of its container. Looks at every process of the machine: call it
    in a thread, and only for what is lost. Whether nothing is left; what belongs to another user cannot be ended.
    """
    mark, log = f"{supervisor.MARK}={folder}".encode(), str(folder / "log")

    def find() -> set[int]:
        table = supervisor.parents()
        ours = {pid for pid in table if _is_of(pid, folder, mark, log)}
        return (ours | supervisor.below(ours, table)) - {os.getpid()}

    return any(not supervisor.kill_all(find) for _ in range(_PASSES))


def end_marked(variable: str) -> None:
    """Kills every process with this variable (NAME=VALUE) in its environment, and what is below them; call it in a thread."""

    def find() -> set[int]:
        table = supervisor.parents()
        ours = {pid for pid in table if _has(pid, variable.encode())}
        return (ours | supervisor.below(ours, table)) - {os.getpid()}

    any(not supervisor.kill_all(find) for _ in range(_PASSES))


def _has(pid: int, variable: bytes) -> bool:
    with contextlib.suppress(OSError):
        return variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _is_of(pid: int, folder: Path, mark: bytes, log: str) -> bool:
    """By the mark in its environment, the folder among its words (its supervisor), or by writing into its log."""
    process = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        if mark in (process / "environ").read_bytes().split(b"\0"):
            return True
        if os.fsencode(folder) in (process / "cmdline").read_bytes().split(b"\0"):
            return True
        return any((process / "fd" / name).readlink() == Path(log) for name in ("1", "2"))
    return False


def interpreter() -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", supervisor.__file__)


def variables_of(folder: Path, wanted: Mapping[str, str]) -> dict[str, str]:
    """The command's variables under names that mean nothing to the supervisor's interpreter."""
    own = {name: os.environ[name] for name in _LOADER if name in os.environ}
    return own | {supervisor.MARK: str(folder)} | {f"+{name}": value for name, value in wanted.items()}


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The lock lasts as long as a process has the descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def _open_log(path: Path) -> int:
    """To write at its end. A job may have put something else there, such as a pipe, which is replaced."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(path.lstat().st_mode):
            path.unlink()
    descriptor = os.open(path, flags, 0o600)
    os.set_blocking(descriptor, True)
    return descriptor


def _write_new(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)


def _read_number(path: Path) -> int | None:
    """The number in the first line of a small file; a job may have put anything there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        line, end, _ = os.read(descriptor, len(_ROOM)).partition(b"\n")
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return int(line) if end and line.isdigit() and len(line) < 10 else None
