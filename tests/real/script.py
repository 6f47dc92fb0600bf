"""kubectl scripts: how a case is written down, and how it is run against one side.

A file under `scripts/` holds cases; each has a line `== name: sentence`, then command lines for a shell, then the files
it needs (`-- name --`, content below; files that stand before the first case belong to all). A case runs in a namespace of its own, which bears its name, is the default of
its kubeconfig and is `$NS`. Lines may begin with a word of ours:

    @quiet COMMAND      run it, compare nothing (preparation, cleaning up)
    @until COMMAND      repeat it until it succeeds, compare nothing
    @start NAME COMMAND run it in the background, for instance a watch
    @stop NAME          wait until it says no more, end it, compare what it printed
    @settle             let the controllers finish
    @settled            from here on, let them finish before each step
    @sorted COMMAND     compare its lines in sorted order (what has no promised order)
    @refused COMMAND    in a strict case, the only commands that may fail

What the outputs mean is `judge`'s business.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.normal import Normaliser
from tests.real.parts import KUEUE, cache
from tests.real.sides import Side

FOLDER = Path(__file__).parent / "scripts"
COMMAND_SECONDS = 40
UNTIL_SECONDS = 30.0
QUIET_SECONDS = 0.7
PIPES = {False: (), True: ("-o", "pipefail")}


@dataclass(frozen=True)
class Case:
    """A named list of command lines with the files they read."""

    name: str
    sentence: str
    lines: tuple[str, ...]
    files: dict[str, str]
    strict: bool = False  # a command that fails is a difference, even if it fails on both sides


@dataclass(frozen=True)
class Outcome:
    """What one step gave, by the name of each thing that is compared."""

    step: str
    parts: dict[str, str]


def load(folder: Path = FOLDER) -> list[Case]:
    cases = [case for file in sorted(folder.glob("*.script")) for case in parse(file.read_text())]
    names = [case.name for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"cases need names of their own: {sorted(repeated)}")
    return cases


def parse(text: str) -> Iterator[Case]:
    preamble, *chunks = re.split(r"^== ", text, flags=re.MULTILINE)
    _remark, shared = _files(preamble)
    for chunk in chunks:
        title, _, rest = chunk.partition("\n")
        name, _, sentence = title.partition(": ")
        commands, files = _files(rest)
        joined = commands.replace("\\\n", " ")
        lines = tuple(line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#"))
        yield Case(name.strip(), sentence.strip(), lines, shared | files)


def _files(text: str) -> tuple[str, dict[str, str]]:
    before, *files = re.split(r"^-- (\S+) --\n", text, flags=re.MULTILINE)
    return before, dict(zip(files[::2], files[1::2], strict=True))


def run(case: Case, side: Side, kubectl: Path, home: Path) -> list[Outcome]:
    """All steps of a case against one side; `home` keeps kubectl's discovery cache from case to case."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-case-") as folder:
        runner = _Runner(case, side, kubectl, home, Path(folder))
        try:
            return [outcome for line in case.lines if (outcome := runner.step(line)) is not None]
        finally:
            runner.end()


@dataclass
class _Runner:
    case: Case
    side: Side
    kubectl: Path
    home: Path
    folder: Path
    environment: dict[str, str] = field(init=False)
    normal: Normaliser = field(init=False)
    settled: bool = False
    background: dict[str, tuple[str, subprocess.Popen[bytes]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, content in self.case.files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(content)
            if content.startswith("#!"):
                (self.folder / name).chmod(0o755)
        kubeconfig = self.home / f"{self.case.name}.kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(self.side.kubeconfig_for(self.case.name))
        self.environment = {
            "PATH": os.pathsep.join((str(self.kubectl.parent), str(cache() / KUEUE), os.environ["PATH"])),
            "HOME": str(self.home),
            "KUBECONFIG": str(kubeconfig),
            "NS": self.case.name,
            "EDITOR": "true",  # whoever forgets to script the editor gets one that changes nothing
            "LC_ALL": "C",
            "TZ": "UTC",
        }
        folders = {str(self.folder): "<folder>", str(self.home): "<home>"}
        self.normal = Normaliser(self.side.addresses | folders)

    def step(self, line: str) -> Outcome | None:
        word, _, rest = line.partition(" ")
        if self.settled:
            self.side.settle(self.case.name)
        match word:
            case "@settle":
                self.side.settle(self.case.name)
                return None
            case "@settled":
                self.settled = True
                return None
            case "@quiet":
                self._shell(rest)
                return None
            case "@until":
                return self._until(rest)
            case "@start":
                name, _, command = rest.partition(" ")
                self._start(name, command)
                return None
            case "@stop":
                return self._stop(rest)
            case "@sorted":
                return self._compared(line, self._shell(rest), in_order=False)
            case "@refused":
                return self._compared(line, self._shell(rest))
            case _:
                done = self._shell(line)
                outcome = self._compared(line, done)
                if self.case.strict and done.returncode:
                    outcome.parts["failed"] = f"on the {self.side.name} side"
                return outcome

    def end(self) -> None:
        for _command, process in self.background.values():
            process.kill()
            process.wait()

    def _shell(self, command: str) -> subprocess.CompletedProcess[bytes]:
        # `timeout` ends the whole pipeline, and 124 is then an exit code to compare like any other.
        return subprocess.run(
            ["timeout", "--kill-after=1", str(COMMAND_SECONDS), "bash", *PIPES[self.case.strict], "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def _compared(self, line: str, done: subprocess.CompletedProcess[bytes], *, in_order: bool = True) -> Outcome:
        texts = {"stdout": self._text(done.stdout), "stderr": self._text(done.stderr)}
        if not in_order:
            texts = {name: "\n".join(sorted(text.splitlines())) for name, text in texts.items()}
        return Outcome(line, {"exit code": str(done.returncode), **texts})

    def _until(self, command: str) -> Outcome | None:
        deadline = time.monotonic() + UNTIL_SECONDS
        while time.monotonic() < deadline:
            if self._shell(command).returncode == 0:
                return None
            time.sleep(0.1)
        return Outcome(f"@until {command}", {"outcome": f"did not come in {UNTIL_SECONDS:.0f} s"})

    def _start(self, name: str, command: str) -> None:
        with (self.folder / f".{name}.out").open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.background[name] = command, process
        self._wait_quiet(name)

    def _stop(self, name: str) -> Outcome:
        command, process = self.background.pop(name)
        self._wait_quiet(name)
        process.terminate()
        process.wait()
        return Outcome(f"@stop {name} {command}", {"stdout": self._text((self.folder / f".{name}.out").read_bytes())})

    def _wait_quiet(self, name: str) -> None:
        """Until the background command has printed nothing new for a while: the only sign a watch gives."""
        file, size, since = self.folder / f".{name}.out", -1, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            time.sleep(0.05)
            if file.stat().st_size != size:
                size, since = file.stat().st_size, time.monotonic()

    def _text(self, output: bytes) -> str:
        return self.normal.text(output.decode(errors="replace"))
