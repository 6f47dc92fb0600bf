"""The servers that are measured: ours and, where its programs are cached, the real one, each with what a client needs.

Ours runs as people run it, with its controllers and durable writes. The real one is kube-apiserver and etcd alone, with
etcd's fsync off: whatever that gives away, it gives to the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml
from tests.real.parts import PartMissing, binary
from tests.real.plane import RealControlPlane, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads, to the nanosecond (/proc/PID/stat counts in 10 ms)."""
    process_cpu_clock = (~pid << 3) | 2  # what clock_getcpuclockid(3) returns on Linux
    return time.clock_gettime(process_cpu_clock)


@dataclass(frozen=True)
class Side:
    """A running server."""

    name: str
    url: str
    token: str
    authority: Path
    pids: tuple[int, ...]

    def rss_mb(self) -> float:
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids) * _PAGE / 1e6

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, self.pids))

    def settle(self) -> None:
        """Wait until it has nothing more to do, so that no line pays for what the line before left to controllers."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            before = self.cpu_seconds()
            time.sleep(0.25)
            if self.cpu_seconds() - before < 0.04:
                return

    def make_namespace(self, name: str) -> None:
        body = json.dumps({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1/namespaces", body, headers)
        trusted = ssl.create_default_context(cafile=str(self.authority))
        with urllib.request.urlopen(request, context=trusted, timeout=10):
            pass


class OurServer:
    """`gpuaas up` in the foreground of a process of its own, on a port known beforehand. `environment` is added to
    this process's (PYTHONPATH of another revision, for one)."""

    def __init__(self, home: Path, environment: dict[str, str] | None = None) -> None:
        self.home = home
        self.port = free_port()
        home.mkdir(parents=True, exist_ok=True)
        self._log = (home / "bench.log").open("ab")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpuaas", "up", "--port", str(self.port)],
            env={**os.environ, **(environment or {}), "GPUAAS_HOME": str(home)},
            stdout=self._log,
            stderr=self._log,
        )

    def wait_ready(self) -> float:
        """Seconds from the start of the process until /readyz said ok."""
        blind = ssl._create_unverified_context()  # a fresh home has no certificate to know beforehand
        while time.monotonic() < self.started + 60:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/readyz", context=blind, timeout=5) as said:
                    if said.read() == b"ok":
                        return time.monotonic() - self.started
            except OSError:
                time.sleep(0.005)
        raise RuntimeError(f"gpuaas did not start:\n{(self.home / 'bench.log').read_text()[-2000:]}")

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def side(self) -> Side:
        while not (self.home / "server.json").exists():  # written last
            time.sleep(0.01)
        config = yaml.safe_load((self.home / "kubeconfig").read_text())
        url = config["clusters"][0]["cluster"]["server"]
        token = config["users"][0]["user"]["token"]
        return Side("ours", url, token, self.home / "pki" / "ca.crt", (self.process.pid,))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Seconds until the process is gone."""
        began = time.monotonic()
        self.process.send_signal(number)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()
        return time.monotonic() - began


@contextmanager
def ours() -> Iterator[Side]:
    folder = Path(tempfile.mkdtemp(prefix="gpuaas-bench-"))
    server = OurServer(folder)
    try:
        server.wait_ready()
        yield server.side()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def real() -> Iterator[Side]:
    with RealControlPlane(controllers=()) as plane:
        pids = json.loads((plane.kubeconfig.parent / "running.json").read_text())["pids"]
        yield Side("real", plane.url, plane.token, plane.certificate_authority, tuple(pids.values()))


def why_no_real() -> str:
    """Why the real server cannot be measured here, in words; "" if it can."""
    try:
        binary("etcd"), binary("kube-apiserver")
    except PartMissing as missing:
        return str(missing)
    return ""


class Sampler:
    """The highest resident memory of a side while the block runs, and the processor time it took from `begin` on."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self.peak_mb = 0.0
        self.cpu_seconds = 0.0

    def __enter__(self) -> Self:
        self.begin()
        self._thread.start()
        return self

    def begin(self) -> None:
        self.cpu_seconds = -self._side.cpu_seconds()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.cpu_seconds += self._side.cpu_seconds()

    def _sample(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, self._side.rss_mb())
            if self._over.wait(0.05):
                return
