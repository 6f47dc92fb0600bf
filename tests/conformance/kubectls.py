"""Real kubectl programs on this machine, and a small way to call one: a line as people type it, and what it printed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SECONDS = 30.0
OLDEST = (1, 27)
NONE_HERE = "no kubectl 1.27 or newer on this machine: put one on the PATH, name one in $KUBECTL, or get some with `python -m tests.real build`"


@cache
def found() -> list[Path]:
    """The kubectl named in $KUBECTL; else those in the cache of real parts; else the one on the PATH. Older ones than we
    follow do not count: half of what they would be asked they do not know."""
    if os.environ.get("KUBECTL"):
        return [Path(os.environ["KUBECTL"]).resolve()]
    parts = Path(os.environ.get("GPUAAS_REAL_CACHE") or Path.home() / ".cache" / "gpuaas-real")
    kept = [path for path in sorted(parts.glob("*/kubectl"), reverse=True) if os.access(path, os.X_OK)]
    on_path = shutil.which("kubectl")
    known = kept or ([Path(on_path).resolve()] if on_path else [])
    return [path for path in known if _version(path) >= OLDEST]


def _version(kubectl: Path) -> tuple[int, ...]:
    told = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, check=False).stdout
    try:
        version = json.loads(told)["clientVersion"]
        return int(version["major"]), int(version["minor"].rstrip("+"))
    except (KeyError, ValueError):
        return (0,)


@dataclass
class Kubectl:
    """One kubectl, in one folder, with one namespace as its default."""

    program: Path
    kubeconfig: Path
    home: Path
    folder: Path
    namespace: str = "default"

    def __call__(self, line: str, stdin: str = "", **environment: str) -> str:
        """What a command printed; it must succeed."""
        done = self.run(line, stdin, **environment)
        assert done.returncode == 0, f"kubectl {line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, line: str, stdin: str = "") -> str:
        """What a command that must fail said about it."""
        done = self.run(line, stdin)
        assert done.returncode == 1, f"kubectl {line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stderr

    def differs(self, line: str) -> str:
        """What a comparing command printed; it must have found a difference."""
        done = self.run(line)
        assert done.returncode == 1, f"kubectl {line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run(self, line: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._words(line),
            input=stdin,
            cwd=self.folder,
            env=self._environment() | environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    @contextlib.contextmanager
    def watching(self, line: str) -> Iterator[Callable[[str], str]]:
        """Runs a command that does not end; gives a function that waits for words in what it has printed."""
        output = self.folder / "watched.txt"
        with output.open("w") as file:
            process = subprocess.Popen(
                self._words(line), cwd=self.folder, env=self._environment(), stdout=file, stderr=subprocess.STDOUT
            )
        try:
            yield lambda words: eventually(output.read_text, lambda text: words in text)
        finally:
            process.terminate()
            process.wait(SECONDS)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    def table(self, line: str) -> list[list[str]]:
        """A printed table as rows of cells, the heading included."""
        return [re.split(r" {2,}", row.strip()) for row in self(line).splitlines()]

    def _words(self, line: str) -> list[str]:
        return [str(self.program), *shlex.split(line)]

    def _environment(self) -> dict[str, str]:
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
            "LC_ALL": "C",
        }


def eventually(look: Callable[[], str], enough: Callable[[str], bool]) -> str:
    """What `look` sees once it is enough."""
    deadline = time.monotonic() + SECONDS
    while not enough(seen := look()):
        assert time.monotonic() < deadline, f"it never came; last seen: {seen}"
        time.sleep(0.05)
    return seen
