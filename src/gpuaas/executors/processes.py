"""Real processes, one for each container, that outlive the control plane and can be found again.

Each runs under a small shell in a session and process group of its own. The shell writes its pid before anything else
and the exit code after everything else into the container's folder, so that nothing about a process has to be
remembered: a control plane that comes back reads whether it runs, how it ended, or that nobody knows. The folder's
path is in the shell's command line, which is how a reused pid is told from ours.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuaas.executors.files import open_log

# The trap keeps the shell alive until the command has ended, so that the exit code is always written.
_WRAPPER = """trap : TERM INT HUP
echo $$ > "$0/pid.new" && mv "$0/pid.new" "$0/pid"
"$@"
code=$?
echo $code > "$0/exit.new" && mv "$0/exit.new" "$0/exit"
exit $code"""


_HATCHING = 5.0  # seconds within which a shell has written its pid


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

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def was_started(self) -> bool:
        return (self.folder / "intent").exists()

    def start(self, command: Command) -> None:
        """Begin. The intent is on disk first: what may have been started is never started a second time."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in ("pid", "exit"):
            (self.folder / left).unlink(missing_ok=True)
        (self.folder / "intent").touch()
        with os.fdopen(open_log(self.log), "ab") as log:
            self._child = subprocess.Popen(
                ["/bin/sh", "-c", _WRAPPER, str(self.folder), *command.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=command.folder,
                env=dict(command.environment),
                start_new_session=True,
            )

    def forget(self) -> None:
        """Before it may be started again."""
        (self.folder / "intent").unlink(missing_ok=True)

    def exit_code(self) -> int | None:
        """None while it runs; 137 when it was killed, or vanished, before it could say."""
        if self._child is not None and self._child.poll() is None:  # the question also reaps it
            return None
        try:
            return int((self.folder / "exit").read_text())
        except (OSError, ValueError):
            pass
        return None if self.pid() else 137

    def ended_at(self) -> float | None:
        """When the exit code was written, even if nobody looked then."""
        try:
            return (self.folder / "exit").stat().st_mtime
        except OSError:
            return None

    def pid(self) -> int:
        """Of the shell, if it is alive; 0 otherwise."""
        if self._child is not None:
            return self._child.pid if self._child.poll() is None else 0
        try:
            pid = int((self.folder / "pid").read_text())
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return 0
        return pid if str(self.folder).encode() in line.split(b"\0") and not _is_zombie(pid) else 0

    def may_still_begin(self, now: float) -> bool:
        """Whether its shell may have been started so recently that it has not written its pid yet."""
        if self._child is not None or (self.folder / "pid").exists() or (self.folder / "exit").exists():
            return False
        try:
            return now - (self.folder / "intent").stat().st_mtime < _HATCHING
        except OSError:
            return False

    def signal(self, number: signal.Signals) -> None:
        """To the whole group: what the command started ends with it."""
        pid = self.pid()
        if not pid:
            return
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return

    def on_end(self, tell: Callable[[], None]) -> bool:
        """`tell` is called from the event loop when the shell ends; False where the system cannot do that."""
        import asyncio

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


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
