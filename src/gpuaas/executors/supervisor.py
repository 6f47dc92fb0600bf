"""The parent of one container's processes: it runs the command, and ends all that the command leaves before it reports.

A script of its own, run by its path as `python -I -S supervisor.py FOLDER LOCK SERVER WORD...` so that an interpreter
starts in a few milliseconds; it imports the standard library only. It is a subreaper (PR_SET_CHILD_SUBREAPER): whatever a
process below it starts, however often it forks or makes sessions, becomes its child when the parent in between ends.
So "no child left" (ECHILD) means that no process of the container is left, and only then the exit code is published.

- FOLDER has the files `pid.new` and `exit.new`, reserved by the server before the start, so that a full disk cannot
  prevent their being filled in; renamed to `pid` before the command starts and to `exit` when nothing of it is left.
- LOCK is a descriptor whose file lock (flock) lasts as long as this process: a reader that finds it free knows that it ended.
- SIGTERM goes on to the command's process group; SIGUSR2 kills all there is below.
- Variables of the command come with a `+` before their names, so that none of them changes this interpreter.

Called as `supervisor.py --beside FOLDER CONTROL TERMINAL WORD...` it runs a command beside a container's (exec), for as
long as the server holds the other end of the socket CONTROL: when that closes, because the client has gone or the server
was killed, all there is of the command is ended. The exit code goes there. TERMINAL is 1 where the standard streams are a
terminal that the command shall control.

Systems without prctl or /proc (macOS) have only the process group: what leaves it is not found there.
"""

from __future__ import annotations

import errno
import math
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing, collections or pathlib would double the time each container needs to start
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

MARK = "GPUAAS_RUN"  # in the environment of every process of a container: its folder
ASKED_TO_KILL = signal.SIGUSR2
GRACE = 2.0  # seconds for what is left behind, from SIGTERM to SIGKILL
_LOOKS = 100  # passes over all processes to stop what forks, before what was found is killed
_CHASES = 1000  # looks at the own children alone
_PAUSE = 0.05
_PATIENCE = 10.0  # seconds of killing until the log says that something cannot be killed
_SUBREAPER, _DEATH_SIGNAL = 36, 1  # of prctl


def parents() -> dict[int, int]:
    """The parent of every process that has not ended."""
    found: dict[int, int] = {}
    for pid in processes():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                text = file.read()
        except OSError:
            continue
        state, parent = text.rpartition(b")")[2].split()[:2]
        if state not in (b"Z", b"X"):
            found[pid] = int(parent)
    return found


def processes() -> Iterable[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return ()


def own_children() -> list[int]:
    """Of this process, dead ones too; much quicker than `parents`, where the kernel offers it."""
    return children_of(os.getpid())


def children_of(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def below(roots: Collection[int], parent_of: Mapping[int, int]) -> set[int]:
    """The descendants of `roots`, without them."""
    children: dict[int, list[int]] = {}
    for pid, parent in parent_of.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found - set(roots)


def kill_all(find: Callable[[], set[int]]) -> set[int]:
    """Stops what `find` finds until nothing new is found, so that nothing forks away, and then kills it."""
    stopped: set[int] = set()
    for _ in range(_LOOKS):
        more = find() - stopped
        if not more:
            break
        send(more, signal.SIGSTOP)
        stopped |= more
    send(stopped, signal.SIGKILL)
    return stopped


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:  # it has ended, or belongs to another user
            continue


def publish(descriptor: int, folder: str, name: str, text: str) -> None:
    """Fills in the reserved file and gives it its name: no space is needed, and no reader sees half of it."""
    os.pwrite(descriptor, f"{text}\n".encode(), 0)
    os.rename(f"{folder}/{name}.new", f"{folder}/{name}")


class Supervisor:
    def __init__(self, folder: str, server: int) -> None:
        self._folder = folder
        self._server = server
        self._reaps = _prctl(_SUBREAPER, 1) and os.path.exists("/proc/self/stat")
        self._asked: set[int] = set()
        self._wake, writer = os.pipe()
        for descriptor in (self._wake, writer):
            os.set_blocking(descriptor, False)
        for number in (signal.SIGTERM, ASKED_TO_KILL, signal.SIGCHLD):
            signal.signal(number, lambda number, _: self._asked.add(number))
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._child = 0
        self._code: int | None = None

    def run(self, words: Sequence[str], environment: Mapping[bytes, bytes]) -> int:
        pid, ending = (os.open(f"{self._folder}/{name}.new", os.O_WRONLY) for name in ("pid", "exit"))
        publish(pid, self._folder, "pid", str(os.getpid()))
        os.close(pid)
        me = os.getpid()
        self._child = os.fork()
        if not self._child:
            _become(words, environment, me)
        while self._reap() and self._code is None:
            self._pass_on()
            self._wait(None)
        self._end_rest()
        code = 137 if self._code is None else self._code
        self._report(ending, code)
        return code

    def _reap(self) -> bool:
        """Whether children are left; notes how the command ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code

    def _wait(self, seconds: float | None) -> None:
        """Until a signal has come, at most so long."""
        select.select([self._wake], [], [], seconds)
        try:
            os.read(self._wake, 65536)
        except BlockingIOError:
            return

    def _pass_on(self) -> None:
        if ASKED_TO_KILL in self._asked:
            self._kill()
        elif signal.SIGTERM in self._asked:
            self._asked.discard(signal.SIGTERM)
            self._send_group(signal.SIGTERM)

    # What is left when the command has ended

    def _end_rest(self) -> None:
        if self._is_left():
            self._send(signal.SIGTERM)
        killing = time.monotonic() + GRACE
        while time.monotonic() < killing and self._is_left() and ASKED_TO_KILL not in self._asked:
            self._wait(_PAUSE)
        pause, patience = 0.01, time.monotonic() + _PATIENCE
        while self._is_left():
            self._kill()
            self._wait(pause)
            pause = min(pause * 2, 1.0)
            if time.monotonic() > patience:
                self._say(f"cannot end the processes {sorted(self._find())}: the container ends when they do")
                patience = math.inf

    def _is_left(self) -> bool:
        return self._reap() if self._reaps else self._reap() or self._has_group()

    def _find(self) -> set[int]:
        return below([os.getpid()], parents())

    def _send(self, number: int) -> None:
        if self._reaps:
            send(self._find(), number)
        else:
            self._send_group(number)

    def _kill(self) -> None:
        if not self._reaps:
            self._send_group(signal.SIGKILL)
            return
        kill_all(self._find)
        for _ in range(_CHASES):
            # What forks and ends at once is gone before all processes have been looked at; it is our child by then.
            children = own_children()
            if not children:
                return
            send(children, signal.SIGKILL)
            self._reap()

    def _send_group(self, number: int) -> None:
        try:
            os.killpg(self._child, number)
        except OSError:
            return

    def _has_group(self) -> bool:
        try:
            os.killpg(self._child, 0)
        except OSError as error:
            return error.errno == errno.EPERM
        return True

    # How it ended

    def _report(self, ending: int, code: int) -> None:
        """The server that started this learns the code from the system in any case; a later one has only the file."""
        while True:
            try:
                publish(ending, self._folder, "exit", str(code))
            except FileNotFoundError:  # the pod and its folder are gone: no reader is left
                return
            except OSError as error:
                if os.getppid() == self._server:
                    return
                self._say(f"cannot write the exit code {code}: {error.strerror}")
                self._wait(1.0)
            else:
                return

    def _say(self, text: str) -> None:
        """Into the container's log."""
        try:
            os.write(2, f"gpuaas: {text}\n".encode())
        except OSError:
            return


class Beside(Supervisor):
    """A command beside that of a container; it lasts no longer than the server wants it."""

    def __init__(self, folder: str, control: int, *, terminal: bool) -> None:
        super().__init__(folder, os.getppid())
        self._control = control
        self._terminal = terminal

    def run(self, words: Sequence[str], environment: Mapping[bytes, bytes]) -> int:
        me = os.getpid()
        self._child = os.fork()
        if not self._child:
            _become(words, environment, me, terminal=self._terminal)
        nothing = os.open(os.devnull, os.O_RDWR)  # what the command closes shall be closed
        for descriptor in (0, 1):
            os.dup2(nothing, descriptor)
        while self._reap() and self._code is None and ASKED_TO_KILL not in self._asked:
            self._pass_on()
            self._wait(None)
        if self._is_left():
            self._send(signal.SIGHUP)  # which shells heed that ignore SIGTERM
        self._end_rest()
        code = 137 if self._code is None else self._code
        try:
            os.write(self._control, b"%d\n" % code)
        except OSError:  # no reader is left
            return code
        return code

    def _wait(self, seconds: float | None) -> None:
        ready, _, _ = select.select([self._wake, self._control], [], [], seconds)
        if self._control in ready:
            self._asked.add(ASKED_TO_KILL)
        super()._wait(0)


def _become(words: Sequence[str], environment: Mapping[bytes, bytes], parent: int, *, terminal: bool = False) -> None:
    """The command, in a session of its own; a shell's exit codes where it cannot be run."""
    code = 127
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, ASKED_TO_KILL, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for name in ("SIGPIPE", "SIGXFSZ", "SIGXFZ"):  # which Python ignores
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        if terminal:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)  # it does not outlive its supervisor
        if os.getppid() != parent:
            return  # which is already gone
        try:
            os.execvpe(words[0], list(words), environment)
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # a script without a first line that says of what
                os.execve("/bin/sh", ["sh", *words], environment)
            code = 127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126
            why = "not found" if code == 127 else error.strerror
            os.write(2, f"gpuaas: {words[0]}: {why}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def _prctl(option: int, value: int) -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def main(arguments: Sequence[str]) -> int:
    beside = arguments[0] == "--beside"
    folder, descriptor, said, *words = arguments[1:] if beside else arguments
    os.set_inheritable(int(descriptor), False)
    environment = {name[1:]: value for name, value in os.environb.items() if name.startswith(b"+")}
    environment[MARK.encode()] = os.fsencode(folder)
    if beside:
        return Beside(folder, int(descriptor), terminal=said == "1").run(words, environment)
    server = said
    return Supervisor(folder, int(server)).run(words, environment)


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except BaseException:
        # No exit code is taken from a supervisor that failed: the server sees a killed one and looks for what is left.
        sys.excepthook(*sys.exc_info())
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(status)
