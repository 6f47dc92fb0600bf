"""The commands people type: in an empty cluster, with 10,000 jobs that wait, with 5,000 nodes; and the idle server.

Each command runs in a process of its own: wall time (median of three), processor time and largest resident size are
that process's. What grows with the cluster and is not shown is what this part is after.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.show import progress, table
from bench.sides import cpu_seconds
from gpuaas.client.http import from_kubeconfig
from gpuaas.client.protocol import Object
from gpuaas.client.resources import JOBS

TIMES = 3
PENDING = 10_000
NODES = 5_000
IDLE_SECONDS = 20.0
QUIET = 0.1  # of a core
QUIET_SECONDS = 60.0  # until a large fleet renews its leases at the pace it keeps
WRITERS = 16
NAMESPACE = "bench"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "ps": ("ps", "-n", NAMESPACE),
    "ps -A": ("ps", "-A"),
    "top --once": ("top", "--once"),
    "queues": ("queues",),
    "gpus": ("gpus",),
    "why JOB": ("why", "-n", NAMESPACE, "waits"),
    "status": ("status",),
    "run": ("run", "-n", NAMESPACE, "--gpus", "1", "--image", "x", "--", "x"),
}
_FLEET = """
clusters: [{name: local, nodes: [%s]}]
---
{apiVersion: v1, kind: Namespace, metadata: {name: bench}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: l4}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: bench}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: l4
      resources:
      - {name: cpu, nominalQuota: 1000}
      - {name: memory, nominalQuota: 1000Gi}
      - {name: nvidia.com/gpu, nominalQuota: 0}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: default, namespace: bench}, spec: {clusterQueue: bench}}
"""
_NODE = "{name: l4, count: %d, gpu: {product: NVIDIA-L4, count: 4, memory: 24Gi}, cpu: 48, memory: 192Gi}"


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float
    rss_mb: float


def measure() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for title, nodes, jobs in (("empty", 1, 1), (f"{PENDING} jobs", 1, PENDING), (f"{NODES} nodes", NODES, 1)):
        with _cluster(nodes) as home:
            progress(f"cli: {title}")
            asyncio.run(_submit(home / "kubeconfig", jobs))
            _settle(home)
            costs = {name: _cost(home, *words) for name, words in COMMANDS.items()}
            found[title] = {"idle": _idle(home, nodes), **{name: asdict(cost) for name, cost in costs.items()}}
        progress("")
        rows = [(name, f"{c.wall_s:.2f} s", f"{c.cpu_s:.2f} s", f"{c.rss_mb:.0f} MB") for name, c in costs.items()]
        table(f"Commands, {title}, median of {TIMES}", ("", "wall", "CPU", "RSS"), rows)
        print(f"  the idle server: {found[title]['idle']:.1%} of a core")
    print(f"  load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return found


@contextmanager
def _cluster(nodes: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder) / "fleet.yaml"
        fleet.write_text(_FLEET % (_NODE % nodes))
        home = Path(folder) / "home"
        _gpuaas(home, "up", "-d", "--no-fsync", "--fleet", str(fleet))
        try:
            yield home
        finally:
            _gpuaas(home, "down")


def _gpuaas(home: Path, *words: str) -> None:
    subprocess.run(_command(*words), env=_environment(home), check=True, stdout=subprocess.DEVNULL)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gpuaas", *words]


def _environment(home: Path) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name != "KUBECONFIG"}, "GPUAAS_HOME": str(home)}


def _cost(home: Path, *words: str) -> Cost:
    runs = [_once(home, *words) for _ in range(TIMES)]
    return Cost(*(median(values) for values in zip(*runs, strict=True)))


# A child begins with its parent's peak as its own, so a small process starts the command.
_LAUNCHER = """
import json, os, sys, time
began = time.monotonic()
silent = os.open(os.devnull, os.O_WRONLY)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, silent, 1)])
_, status, used = os.wait4(pid, 0)
wall = time.monotonic() - began
print(json.dumps([os.waitstatus_to_exitcode(status), wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def _once(home: Path, *words: str) -> tuple[float, float, float]:
    launch = [sys.executable, "-S", "-c", _LAUNCHER, *_command(*words)]
    done = subprocess.run(launch, env=_environment(home), check=True, stdout=subprocess.PIPE)
    code, wall, cpu, rss = json.loads(done.stdout)
    if code:
        raise SystemExit(f"gpuaas {' '.join(words)}: exit code {code}")
    return wall, cpu, rss


async def _submit(kubeconfig: Path, number: int) -> None:
    """Jobs that wait for a quota there is not; returns when each has its Workload."""
    names = iter(["waits", *(f"waits-{index}" for index in range(1, number))])

    async def write() -> None:
        async with from_kubeconfig(kubeconfig) as client:
            for name in names:
                await client.create(JOBS, _job(name), NAMESPACE)

    await asyncio.gather(*(write() for _ in range(min(WRITERS, number))))
    deadline = time.monotonic() + 300
    while True:
        rows = await asyncio.to_thread(_rows, kubeconfig)
        if len(rows) == number and all(row["state"] == "Pending" and row["position"] for row in rows):
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(rows)} of {number} jobs wait after five minutes")
        await asyncio.sleep(1)


def _rows(kubeconfig: Path) -> list[Any]:
    words = _command("ps", "-n", NAMESPACE, "-o", "json", "--kubeconfig", str(kubeconfig))
    found: list[Any] = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    return found


def _job(name: str) -> Object:
    container = {
        "name": "main",
        "image": "x",
        "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "default"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"suspend": True, "template": pods}}


def _settle(home: Path) -> None:
    """Until the server has done what the jobs left to its controllers."""
    pid = _pid(home)
    for _ in range(60):
        before = cpu_seconds(pid)
        time.sleep(1)
        if cpu_seconds(pid) - before < QUIET:
            return


def _pid(home: Path) -> int:
    return int(json.loads((home / "server.json").read_text())["pid"])


def _idle(home: Path, nodes: int) -> float:
    """The share of a core that the server uses while no requests arrive."""
    pid = _pid(home)
    time.sleep(QUIET_SECONDS if nodes > 1 else 5)  # what the start and the commands left to do
    before = cpu_seconds(pid)
    time.sleep(IDLE_SECONDS)
    return (cpu_seconds(pid) - before) / IDLE_SECONDS
