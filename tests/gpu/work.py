"""What the jobs of the story do on the card; each writes one JSON object a line. It needs torch and nothing of gpuaas.

work.py COMMAND OUT [ARGUMENT]
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

GIB = 1 << 30
_PTX = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .entry bad()
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 16;
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""


class Out:
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def say(self, **what: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"at": time.time(), **what}) + "\n")


def import_torch() -> Any:
    import torch

    return torch


def steps(out: Out, seconds: str) -> None:
    """Matrix steps: 20 products of 4096 x 4096 in bf16 each."""
    torch = import_torch()
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    out.say(ready=True, pid=os.getpid(), total=torch.cuda.mem_get_info()[1])
    end = time.time() + float(seconds)
    while time.time() < end:
        batch = []
        for _ in range(25):
            began = time.perf_counter()
            for _ in range(20):
                a @ b
            torch.cuda.synchronize()
            batch.append((time.perf_counter() - began) * 1000)
        out.say(steps=batch)
    out.say(done=True)


def small(out: Out, seconds: str) -> None:
    """Launches of one small kernel each, counted."""
    torch = import_torch()
    a = torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()
    out.say(ready=True)
    end, count = time.time() + float(seconds), 0
    while time.time() < end:
        a.add_(1)
        torch.cuda.synchronize()
        count += 1
    out.say(launches=count, seconds=float(seconds))


def hog(out: Out, rounds: str = "1") -> None:
    """Takes 1 GiB after the other until it is refused, goes on working, gives all back; again and again."""
    torch = import_torch()
    torch.cuda.init()
    out.say(ready=True, pid=os.getpid(), info=torch.cuda.mem_get_info())
    for number in range(int(rounds)):
        kept, refused, began = [], "", time.perf_counter()
        while len(kept) < 4096:
            try:
                kept.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
            except torch.OutOfMemoryError as error:
                refused = str(error)
                break
        took = time.perf_counter() - began
        taken = len(kept)
        del kept[-1:]
        torch.cuda.empty_cache()
        works = float((torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")).sum().item()) == 64.0**3
        out.say(round=number, gib=taken, seconds=took, refused=refused[:300], works=works)
        time.sleep(0.2)
        kept.clear()
        torch.cuda.empty_cache()
    out.say(done=True)


def bypass(out: Out, most: str = "200") -> None:
    """The same without the preloaded library, as fast as 1 GiB each 20 ms; holds what it got."""
    if os.environ.get("LD_PRELOAD"):
        left = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GPUAAS_GPU_MEMORY")}
        os.execve(sys.executable, [sys.executable, *sys.argv], left)
    torch = import_torch()
    torch.cuda.init()
    out.say(ready=True, pid=os.getpid(), info=torch.cuda.mem_get_info())
    kept: list[Any] = []
    for number in range(int(most)):
        kept.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
        out.say(gib=number + 1)
        time.sleep(0.02)
    time.sleep(60)


def allocations(out: Out, count: str) -> None:
    """Uncached allocations of 1 GiB, each given back at once; counts those refused."""
    torch = import_torch()
    torch.cuda.init()
    out.say(ready=True)
    refused, times = 0, []
    for _ in range(int(count)):
        began = time.perf_counter()
        try:
            kept = torch.empty(GIB, dtype=torch.uint8, device="cuda")
            del kept
        except torch.OutOfMemoryError:
            refused += 1
        torch.cuda.empty_cache()
        times.append(time.perf_counter() - began)
        time.sleep(0.008)
    times.sort()
    out.say(allocations=int(count), refused=refused, p50_us=times[len(times) // 2] * 1e6, worst_us=times[-1] * 1e6)


def fault(out: Out, delay: str = "0") -> None:
    """Writes to address 16 from a kernel."""
    torch = import_torch()
    torch.ones(1, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    loaded = driver.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(_PTX))
    found = driver.cuModuleGetFunction(ctypes.byref(function), module, b"bad")
    out.say(ready=True, pid=os.getpid(), loaded=loaded, found=found)
    time.sleep(float(delay))
    driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    out.say(result=driver.cuCtxSynchronize())
    sys.exit(1)


def train(out: Out, saved: str) -> None:
    """A training loop that saves its step on SIGUSR1 and goes on from there when it is started again."""
    torch = import_torch()
    weights = torch.zeros(1024, 1024, device="cuda")
    step, path = 0, Path(saved)
    if path.exists():
        kept = torch.load(path, map_location="cuda")
        weights, step = kept["weights"], kept["step"]
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    out.say(ready=True, first=step, pid=os.getpid(), node=os.environ.get("CUDA_VISIBLE_DEVICES"))
    while not (path.with_suffix(".stop")).exists():
        weights += 1
        step += 1
        torch.cuda.synchronize()
        if asked:
            torch.save({"weights": weights, "step": step}, path)
            out.say(saved=step)
            sys.exit(0 if len(asked) > 5 else 3)
        time.sleep(0.01)
    out.say(done=True, step=step, right=bool((weights == step).all().item()))


def hold(out: Out, gib: str) -> None:
    """Some memory, for a while: a process of somebody else's."""
    torch = import_torch()
    kept = torch.empty(int(gib) * GIB, dtype=torch.uint8, device="cuda")
    out.say(ready=True, pid=os.getpid(), bytes=kept.numel())
    time.sleep(120)


COMMANDS = {each.__name__: each for each in (steps, small, hog, bypass, allocations, fault, train, hold)}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](Out(sys.argv[2]), *sys.argv[3:])  # type: ignore[operator]
