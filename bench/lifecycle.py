"""How long `gpuaas up` takes to be ready, what an empty cluster weighs, and how fast it stops with watches open."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.show import progress, table
from bench.sides import OurServer, Side

TIMES = 5
WATCHES = 200


def measure() -> dict[str, Any]:
    fresh, again, fresh_work, work, fresh_weight, weight, ctrl_c, down = [], [], [], [], [], [], [], []
    for number in range(TIMES):
        progress(f"start and stop, {number + 1} of {TIMES}")
        folder = Path(tempfile.mkdtemp(prefix="gpuaas-bench-"))
        try:
            first = OurServer(folder)
            fresh.append(first.wait_ready())
            fresh_work.append(first.cpu_seconds())
            fresh_weight.append(_weight(first))
            ctrl_c.append(asyncio.run(_stopped_with_watches(first, signal.SIGINT)))
            second = OurServer(folder)
            again.append(second.wait_ready())
            work.append(second.cpu_seconds())
            weight.append(_weight(second))
            down.append(asyncio.run(_stopped_with_watches(second, None)))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    progress("")
    rows = [
        ("start to /readyz ok, fresh home", _seconds(fresh), "≤ 1.0 s"),
        ("start to /readyz ok, home in use", _seconds(again), "≤ 1.0 s"),
        ("  of it processor time, fresh home", _seconds(fresh_work), ""),
        ("  of it processor time, home in use", _seconds(work), ""),
        ("RSS, one empty cluster, fresh home", _megabytes(fresh_weight), "≤ 120 MB"),
        ("RSS, one empty cluster, home in use", _megabytes(weight), "≤ 120 MB"),
        (f"Ctrl-C with {WATCHES} watches open", _seconds(ctrl_c), "< 2 s"),
        (f"gpuaas down with {WATCHES} watches open", _seconds(down), "< 2 s"),
    ]
    table(f"Start and stop, median (worst) of {TIMES}", ("", "measured", "wanted"), rows)
    load = os.getloadavg()
    print(f"  load average {load[0]:.1f} on {os.cpu_count()} processors")
    names = ("fresh_s", "again_s", "fresh_cpu_s", "again_cpu_s", "fresh_rss_mb", "rss_mb", "ctrl_c_s", "down_s")
    return {
        "load": load,
        **dict(zip(names, (fresh, again, fresh_work, work, fresh_weight, weight, ctrl_c, down), strict=True)),
    }


def _weight(server: OurServer) -> float:
    """Resident megabytes when it has done all that a start leaves to do."""
    side = server.side()
    time.sleep(1)
    side.settle()
    return side.rss_mb()


def _megabytes(found: list[float]) -> str:
    return f"{median(found):.0f} MB ({max(found):.0f})"


def _seconds(found: list[float]) -> str:
    return f"{median(found):.2f} s ({max(found):.2f})"


async def _stopped_with_watches(server: OurServer, number: signal.Signals | None) -> float:
    """Seconds until the process is gone after the signal, or after `gpuaas down` was typed."""
    watches = await asyncio.gather(*(_watch(server.side()) for _ in range(WATCHES)))
    began = time.monotonic()
    if number is None:
        command = [sys.executable, "-m", "gpuaas", "down"]
        environment = {**os.environ, "GPUAAS_HOME": str(server.home)}
        stopping = await asyncio.create_subprocess_exec(*command, env=environment, stdout=subprocess.DEVNULL)
        await stopping.wait()
    else:
        server.process.send_signal(number)
    await asyncio.to_thread(server.process.wait, 30)
    took = time.monotonic() - began
    for writer in watches:
        writer.close()
    return took


async def _watch(side: Side) -> asyncio.StreamWriter:
    trusted = ssl.create_default_context(cafile=str(side.authority))
    port = int(side.url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
    path = "/api/v1/configmaps?watch=true"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {side.token}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    return writer
