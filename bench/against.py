"""CPU time per operation of the working tree beside an older revision: `python -m bench --against REV`.

REV is checked out into a temporary git worktree. Both trees run with this interpreter and its installed dependencies;
PYTHONPATH decides which `gpuaas` is imported. Line by line the revisions alternate, in every round the other one first.
What is compared is CPU time (of the server process, or of a child that runs the engine), which a busy machine changes
far less than wall time.

Engine lines run each revision's own `bench/engine.py`. Lifecycle and API lines use only what both revisions share: the
command line, /readyz and the wire.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import apiserver, comparison, generator
from bench.comparison import Comparison, Samples
from bench.show import progress, table
from bench.sides import OurServer, Side

ROOT = Path(__file__).parent.parent
ROUNDS = 5


@dataclass(frozen=True)
class Revision:
    name: str  # "old" or "new"
    root: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": f"{self.root / 'src'}{os.pathsep}{self.root}"}

    def compile(self) -> None:
        """Write its bytecode, so that no first start pays for it."""
        subprocess.run([sys.executable, "-m", "compileall", "-q", self.root / "src", self.root / "bench"], check=True)


class Figures:
    """The samples of all lines, in the order in which lines first appear."""

    def __init__(self) -> None:
        self._lines: dict[str, Samples] = {}

    def add(self, revision: Revision, line: str, value: float, unit: str, *, judged: bool = True) -> None:
        samples = self._lines.setdefault(line, Samples(line, unit, judged))
        (samples.old if revision.name == "old" else samples.new).append(value)

    def comparisons(self) -> list[Comparison]:
        return [comparison.compare(samples) for samples in self._lines.values()]


@dataclass(frozen=True)
class EnginePart:
    part: str
    shown: str
    operations: int  # in one run of the part
    times: int = 1


ENGINE_PARTS = (
    EnginePart("a", "engine: submit and admit", 400_000),
    EnginePart("b", "engine: Kueue's baseline, a workload", 15_000, times=3),
    EnginePart("d", "engine: preempt, a workload", 600, times=5),
)


def engine_round(revisions: list[Revision], figures: Figures) -> None:
    for part in ENGINE_PARTS:
        for revision in revisions:
            command = [sys.executable, Path(__file__).with_name("engine_part.py"), part.part, str(part.times)]
            environment = {**os.environ, **revision.environment}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            figures.add(revision, part.shown, float(done.stdout) / part.times / part.operations * 1e6, "µs")


def lifecycle_round(revisions: list[Revision], figures: Figures) -> None:
    for revision in revisions:
        with tempfile.TemporaryDirectory(prefix="gpuaas-bench-") as folder:
            for home in ("fresh home", "home in use"):
                server = OurServer(Path(folder), revision.environment)
                try:
                    took = server.wait_ready()
                    until_ready = server.cpu_seconds()
                    side = server.side()
                    side.settle()
                    figures.add(revision, f"start, {home}: CPU to /readyz", until_ready * 1000, "ms")
                    figures.add(revision, f"start, {home}: CPU until idle", server.cpu_seconds() * 1000, "ms")
                    figures.add(revision, f"start, {home}: memory when idle", side.rss_mb(), "MB")
                    figures.add(revision, f"start, {home}: wall", took * 1000, "ms", judged=False)
                finally:
                    server.stop()


def api_round(servers: list[tuple[Revision, Side]], figures: Figures, program: Path, label: str) -> None:
    peaks: dict[str, float] = {}
    for kind in apiserver.KINDS:
        for line in apiserver.LINES:
            for revision, side in servers:
                progress(f"{label}: {line.shown}, {kind}, {revision.name}")
                for _, each in servers:
                    each.settle()
                found = generator.run(
                    program, side, line.verb, kind, line.requests, connections=line.connections, objects=apiserver.OBJECTS
                )  # fmt: skip
                figures.add(revision, f"api: {line.shown}, {kind}", found.cpu_us, "µs")
                peaks[revision.name] = max(peaks.get(revision.name, 0), found.rss_mb)
    for revision, _ in servers:
        figures.add(revision, "api: memory, highest", peaks[revision.name], "MB")


@contextmanager
def worktree(rev: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gpuaas-against-") as folder:
        path = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(path), rev)
        try:
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


@contextmanager
def api_servers(revisions: list[Revision]) -> Iterator[list[tuple[Revision, Side]]]:
    with ExitStack() as stack:
        running = []
        for revision in revisions:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuaas-bench-"))
            server = OurServer(Path(folder), revision.environment)
            stack.callback(server.stop)
            server.wait_ready()
            side = server.side()
            side.make_namespace(generator.NAMESPACE)
            running.append((revision, side))
        yield running


def measure(rev: str, rounds: int, groups: list[str]) -> list[Comparison]:
    figures = Figures()
    with worktree(rev) as old, ExitStack() as stack:
        revisions = [Revision("old", old), Revision("new", ROOT)]
        for each in revisions:
            each.compile()
        servers: list[tuple[Revision, Side]] = []
        program = Path()
        if "api" in groups:
            program = generator.build(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuaas-load-"))))
            servers = stack.enter_context(api_servers(revisions))
        for number in range(rounds):
            label = f"round {number + 1} of {rounds}"
            turn = -1 if number % 2 else 1
            if "engine" in groups:
                progress(f"{label}: engine")
                engine_round(revisions[::turn], figures)
            if "lifecycle" in groups:
                progress(f"{label}: lifecycle")
                lifecycle_round(revisions[::turn], figures)
            if servers:
                api_round(servers[::turn], figures, program, label)
    progress("")
    return figures.comparisons()


GROUPS = ("engine", "lifecycle", "api")


def main(options: argparse.Namespace) -> int:
    """0 when every judged line is within its limit, 1 otherwise."""
    rounds = options.rounds or ROUNDS
    try:
        old = _git("rev-parse", "--short", "--verify", "--end-of-options", f"{options.against}^{{commit}}")
    except subprocess.CalledProcessError:
        print(f"--against: git knows no commit {options.against!r} here", file=sys.stderr)
        return 2
    try:
        found = measure(options.against, rounds, options.lines)
    except generator.NoGenerator as reason:
        print(
            f"The API lines cannot be measured: {reason}. `--lines engine,lifecycle` leaves them out.", file=sys.stderr
        )
        return 2
    new = _git("describe", "--always", "--dirty")
    if options.output == "json":
        lines = [each.as_json() for each in found]
        print(json.dumps({"old": old, "new": new, "rounds": rounds, "load": os.getloadavg(), "lines": lines}, indent=2))
    else:
        head = ("line", f"old ({old})", "spread", f"new ({new})", "spread", "ratio", "verdict")
        title = f"CPU time per operation and memory, median of {rounds} rounds"
        table(title, head, comparison.rows(found))
        limit = f"{comparison.ALLOWED:.0%} plus the old revision's spread"
        print(f"  allowed: {limit}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return int(any(each.slower for each in found))


def lines_option(text: str) -> list[str]:
    groups = [each.strip() for each in text.split(",") if each.strip()]
    for each in groups:
        if each not in GROUPS:
            raise argparse.ArgumentTypeError(f"no lines are called {each!r}: there are {', '.join(GROUPS)}")
    if not groups:
        raise argparse.ArgumentTypeError(f"name at least one of {', '.join(GROUPS)}")
    return groups


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
