"""A fleet with cards that have identity: start, restart, memory, and one change of sharing that reaches every node.

`python -m bench cards`: 1,250 and 5,000 simulated nodes of 8 cards, so that growth shows. The change is the walkthroughs':
a ConfigMap that shares each card by four, and the ClusterPolicy that names it; it has arrived when the GPU rows of the
server count four times the cards and every node's label says so.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.show import progress, table
from gpuaas.assembly.home import Home
from gpuaas.client.http import HttpClient, from_kubeconfig
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CONFIG_MAPS, NODES
from gpuaas.views import read

SIZES = (1250, 5000)
CARDS = 8
_PATIENCE = 600.0
_POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", False, "ClusterPolicy")
_FLEET = """\
clusters:
- name: local
  nodes:
  - {name: gpu, count: %d, gpu: {product: NVIDIA-L40S, count: 8}, cpu: 64, memory: 512Gi}
---
{apiVersion: v1, kind: Namespace, metadata: {name: nvidia-gpu-operator}}
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {daemonsets: {}, dcgm: {}, dcgmExporter: {}, devicePlugin: {}, driver: {}, gfd: {}, mig: {strategy: mixed}, nodeStatusExporter: {}, operator: {}, toolkit: {}}
"""
_SLICING = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}"


def measure(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for nodes in sizes:
        with tempfile.TemporaryDirectory(prefix="gpuaas-bench-") as folder:
            found[str(nodes)] = _of(Path(folder), nodes)
        progress("")
    names = list(next(iter(found.values())))
    rows = [(name, *(f"{found[str(nodes)][name]:.1f}" for nodes in sizes)) for name in names]
    table(f"Simulated nodes of {CARDS} cards", ("", *(f"{nodes} nodes" for nodes in sizes)), rows)
    print(f"  load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return found


def _of(folder: Path, nodes: int) -> dict[str, float]:
    home, fleet = folder / "home", folder / "fleet.yaml"
    fleet.write_text(_FLEET % nodes)
    environment = {**os.environ, "GPUAAS_HOME": str(home)}

    def gpuaas(*words: str) -> float:
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "gpuaas", *words], env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - began

    figures: dict[str, float] = {}
    progress(f"cards: {nodes} nodes")
    up = ("up", "-d", "--no-fsync", "--fleet", str(fleet))
    try:
        figures["start, s"] = gpuaas(*up)
        figures |= asyncio.run(_changed(home, nodes))
        figures["memory after it, MB"] = _memory(home)
        gpuaas("down")
        figures["restart, s"] = gpuaas(*up)
        figures["memory after the restart, MB"] = _memory(home)
    finally:
        gpuaas("down")
    return figures


async def _changed(home: Path, nodes: int) -> dict[str, float]:
    async with from_kubeconfig(home / "kubeconfig") as client:
        await _until(client, nodes * CARDS)
        memory = _memory(home)
        data = {"any": _SLICING % 4}
        await client.create(CONFIG_MAPS, {"metadata": {"name": "slicing"}, "data": data}, "nvidia-gpu-operator")
        began, used = time.monotonic(), _processor(home)
        patch = {"spec": {"devicePlugin": {"config": {"name": "slicing"}}}}
        await client.patch(_POLICIES, "cluster-policy", patch)
        await _until(client, nodes * CARDS * 4)
        took = time.monotonic() - began
        listed = (await client.list(NODES, labels="nvidia.com/gpu.replicas=4", limit=nodes)).items
        assert len(listed) == nodes, f"{len(listed)} of {nodes} nodes have the label"
        figures = {"memory, MB": memory, "one sharing change, s": took}
        return {**figures, "its processor time, s": _processor(home) - used}


async def _until(client: HttpClient, total: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        rows = await read.gpus(client, details=False)
        if sum(row.total for row in rows) == total:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"the nodes never offered {total}: {[(row.product, row.total) for row in rows]}")
        await asyncio.sleep(1.0)


def _pid(home: Path) -> int:
    running = Home(home).running()
    assert running is not None
    return running.pid


def _memory(home: Path) -> float:
    text = Path(f"/proc/{_pid(home)}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def _processor(home: Path) -> float:
    fields = Path(f"/proc/{_pid(home)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
