"""Traces one `kubectl create job` to a running pod through our code: files and functions entered, packages in order.

The control plane runs in this process, on a simulated fleet, under a profile function that records every code object of
gpuaas that is entered between the command and the pod's Running phase. What an idle control plane enters in as many
seconds beforehand (renewals, heartbeats) is left out. `python -m bench trace` prints the table.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import gpuaas
from gpuaas.assembly.control_plane import ControlPlane, Settings
from gpuaas.assembly.fleet import fleet_text, read_fleet
from gpuaas.assembly.home import Home
from gpuaas.client.protocol import Object

_ROOT = str(Path(gpuaas.__file__).parent) + "/"
_IDLE = 3.0  # seconds of an idle control plane
_WAIT = 60.0
_NAMESPACE = "team-a"


class Trace:
    """Code objects of gpuaas in the order of their first call."""

    def __init__(self) -> None:
        self.entered: dict[CodeType, int] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_ROOT):
            self.entered[frame.f_code] = self.entered.get(frame.f_code, 0) + 1

    def files(self) -> list[str]:
        return list(dict.fromkeys(code.co_filename.removeprefix(_ROOT) for code in self.entered))

    def packages(self) -> list[str]:
        return list(dict.fromkeys(name.partition("/")[0] for name in self.files()))


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="gpuaas-trace-") as folder:
        idle, busy = asyncio.run(_run(Path(folder)))
    traced = Trace()
    traced.entered = {code: count for code, count in busy.entered.items() if code not in idle.entered}
    by_package = Counter(name.partition("/")[0] for name in traced.files())
    print("one `kubectl create job` to a running pod")
    print(f"  files      {len(traced.files())}")
    print(f"  functions  {len(traced.entered)}")
    print(f"  packages in order: {', '.join(f'{name} ({by_package[name]})' for name in traced.packages())}")
    return {
        "files": len(traced.files()),
        "functions": len(traced.entered),
        "packages": {name: by_package[name] for name in traced.packages()},
    }


async def _run(folder: Path) -> tuple[Trace, Trace]:
    fleet = read_fleet(fleet_text("demo"))
    async with ControlPlane(Home(folder), Settings(("local",), fsync=False, fleet=fleet)) as plane:
        manifest = folder / "job.yaml"
        manifest.write_text(_MANIFEST)
        kubectl = ["kubectl", "--kubeconfig", str(plane.home.kubeconfig), "-n", _NAMESPACE]
        await _call([*kubectl, "get", "jobs"])  # discovery is cached, as it is for every user
        idle = await _traced(lambda: asyncio.sleep(_IDLE))
        store = plane.clusters["local"].cluster.store

        async def until_running() -> None:
            await _call([*kubectl, "create", "-f", str(manifest)])
            deadline = plane.clock.monotonic() + _WAIT
            while not any(_is_ours(entry.obj) for entry in store.list(f"/pods/{_NAMESPACE}/")):
                if plane.clock.monotonic() > deadline:
                    raise TimeoutError(f"the job's pod did not run within {_WAIT:.0f} s")
                await asyncio.sleep(0.005)

        return idle, await _traced(until_running)


def _is_ours(pod: Object) -> bool:
    return pod["metadata"]["name"].startswith("traced-") and (pod.get("status") or {}).get("phase") == "Running"


async def _traced(work: Callable[[], Any]) -> Trace:
    trace = Trace()
    sys.setprofile(trace)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return trace


async def _call(command: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {errors.decode().strip()}")


_MANIFEST = f"""apiVersion: batch/v1
kind: Job
metadata:
  name: traced
  namespace: {_NAMESPACE}
  labels: {{kueue.x-k8s.io/queue-name: default}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: none
          command: [sleep, "600"]
          resources: {{requests: {{cpu: "1", nvidia.com/gpu: "1"}}, limits: {{nvidia.com/gpu: "1"}}}}
"""
