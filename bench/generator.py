"""The load generator: a small Go program beside this file, built where Go is, and run for one line at a time."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.sides import Sampler

if TYPE_CHECKING:
    from bench.sides import Side

_SOURCE = Path(__file__).parent / "load"
NAMESPACE = "bench"
WATCHERS = 200


class NoGenerator(Exception):
    """It cannot be built here; the message says why."""


@dataclass(frozen=True)
class Figures:
    """One line of one server. Latencies in milliseconds; `cpu_us` is the server's processor time for one request,
    `client_us` the load generator's own."""

    rate: float
    p50: float
    p90: float
    p99: float
    rss_mb: float
    cpu_us: float
    client_us: float


def build(folder: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        raise NoGenerator("the load generator is compiled and needs Go (1.22 or later) on the PATH; there is none")
    program = folder / "load"
    made = subprocess.run([go, "build", "-o", program, "."], cwd=_SOURCE, capture_output=True, text=True, check=False)
    if made.returncode:
        raise NoGenerator(f"the load generator does not build: {made.stderr.strip()}")
    return program


def run(program: Path, side: Side, verb: str, kind: str, requests: int, *, connections: int, objects: int) -> Figures:
    command: list[str | Path] = [
        program, "-url", side.url, "-token", side.token, "-ca", side.authority, "-namespace", NAMESPACE, "-op", verb,
        "-kind", kind, "-n", str(requests), "-c", str(connections), "-objects", str(objects), "-watchers", str(WATCHERS),
    ]  # fmt: skip
    with (
        Sampler(side) as sampler,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()  # the connections are open, the clock starts
        sampler.begin()
        out, complaints = process.communicate(timeout=300)
    if process.returncode:
        raise RuntimeError(f"{verb} {kind} on {side.name}: {complaints.strip()[:500]}")
    said = json.loads(out)
    if said["failed"]:
        raise RuntimeError(f"{verb} {kind} on {side.name}: {said['failed']} failed, first: {complaints[:500]}")
    answered = requests * WATCHERS if verb == "watch" else requests
    cpu = sampler.cpu_seconds / answered * 1e6
    return Figures(said["rate"], said["p50"], said["p90"], said["p99"], sampler.peak_mb, cpu, said["client_us"])
