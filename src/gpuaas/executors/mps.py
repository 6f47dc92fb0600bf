"""CUDA MPS on this machine: one control daemon for each card that is shared by MPS, started, watched and started again.

A daemon runs in a session of its own and outlives the control plane, with the clients it serves; who comes back finds it
by its pipe directory. It serves several unix users at once (`-multiuser-server`; a default daemon lets the second user
wait until the first has gone). The compute mode of the card is left as it is. Calls block: make them in a thread.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

CONTROL: Final = "nvidia-cuda-mps-control"
MARK: Final = "GPUAAS_MPS"  # in the environment of daemon and servers: the folder of their card
_LONGEST_PATH: Final = 70  # the daemon makes sockets below it, and a socket's path has at most 107 bytes
_LIMIT: Final = 20.0
_TAIL: Final = 1 << 16  # bytes of a log that are looked at
_FAULT: Final = b"fatal GPU error"


class MpsError(Exception):
    """The daemon could not be started; the text says why and what to do."""


class MpsDaemons:
    def __init__(self, home: Path, control: str = CONTROL) -> None:
        folder = home / "mps"
        if len(str(folder)) > _LONGEST_PATH:
            digest = hashlib.sha256(str(home).encode()).hexdigest()[:8]
            folder = Path("/tmp") / f"gpuaas-mps-{os.getuid()}-{digest}"
        self._folder = folder
        self._control = control

    @property
    def root(self) -> Path:
        return self._folder

    def folder(self, card: str) -> Path:
        return self._folder / hashlib.sha256(card.encode()).hexdigest()[:8]

    def pipe(self, card: str) -> Path:
        return self.folder(card) / "pipe"

    def ensure(self, card: str, limit_mib: int) -> bool:
        """A daemon for the card, with the default limit of pinned memory for each client. Whether it had to be started.
        Raises MpsError."""
        began = not self.is_alive(card)
        if began:
            self._start(card)
        if limit_mib:
            self._say(card, f"set_default_device_pinned_mem_limit 0 {limit_mib}M")
        return began

    def is_alive(self, card: str) -> bool:
        return self.pipe(card).is_dir() and self._say(card, "get_server_list") is not None

    def stop(self, card: str) -> None:
        if self.is_alive(card):
            self._say(card, "quit")

    def faults(self, card: str, position: int) -> tuple[int, bool]:
        """How far the server's log has been read, and whether it reports a fatal error after `position`. It names a
        process, but not the one whose fault it was."""
        try:
            with (self.folder(card) / "log" / "server.log").open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                if position < 0 or position == end:
                    return end, False
                file.seek(max(position if position < end else 0, end - _TAIL))
                return end, _FAULT in file.read()
        except OSError:
            return 0, False

    def _start(self, card: str) -> None:
        if shutil.which(self._control) is None:
            raise MpsError(
                f"{self._control} was not found: install the CUDA driver's MPS programs, or share the card by time-slicing"
            )
        folder = self.folder(card)
        try:
            self._folder.mkdir(mode=0o711, parents=True, exist_ok=True)
            if self._folder.stat().st_uid != os.getuid():
                raise MpsError(f"{self._folder} belongs to another user")
            folder.mkdir(mode=0o711, exist_ok=True)
            for name in ("pipe", "log"):
                (folder / name).mkdir(exist_ok=True)
            (folder / "pipe").chmod(0o777)  # clients of other unix users make their sockets there
        except OSError as error:
            raise MpsError(f"the folder of the MPS daemon cannot be made: {error}") from None
        try:
            done = subprocess.run(
                [self._control, "-d", "-multiuser-server"],
                env=self._environment(card), capture_output=True, text=True, timeout=_LIMIT,
                check=False, start_new_session=True,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MpsError(f"{self._control} did not start: {error}") from None
        if done.returncode and not self.is_alive(card):
            said = (done.stdout + done.stderr).strip().splitlines()
            raise MpsError(f"{self._control} did not start: {said[-1] if said else f'exit {done.returncode}'}")

    def _say(self, card: str, words: str) -> str | None:
        """What the daemon answers; None where there is none."""
        try:
            done = subprocess.run(
                [self._control], env=self._environment(card), input=f"{words}\n", capture_output=True, text=True,
                timeout=_LIMIT, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return None if done.returncode or "Cannot find MPS control daemon" in done.stdout + done.stderr else done.stdout

    def _environment(self, card: str) -> dict[str, str]:
        folder = self.folder(card)
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "HOME") if name in os.environ}
        return kept | {
            "CUDA_VISIBLE_DEVICES": card,
            "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
            MARK: str(folder),
        }
