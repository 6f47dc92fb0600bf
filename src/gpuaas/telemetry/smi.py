"""Inventory by `nvidia-smi` where nvidia-ml-py is missing: cards with name, UUID and memory, nothing about processes."""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Callable

from gpuaas.base.numbers import natural
from gpuaas.devices.cards import Card
from gpuaas.devices.labels import Machine
from gpuaas.devices.products import Product, find
from gpuaas.telemetry.nvml import DriverError

_FIELDS = ("index", "uuid", "name", "memory.total", "mig.mode.current", "compute_cap", "driver_version")
_LIMIT = 20.0

Run = Callable[[list[str]], str]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
    if done.returncode:
        raise OSError((done.stdout + done.stderr).strip().splitlines()[-1:] or [f"exit {done.returncode}"])
    return done.stdout


def inventory(run: Run = _run) -> tuple[tuple[Card, ...], Machine]:
    """Raises DriverError where nvidia-smi is missing or fails."""
    try:
        listed = run(["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"])
        header = run(["nvidia-smi"])
    except FileNotFoundError:
        raise DriverError(
            "no-driver", "no NVIDIA driver: nvidia-smi was not found", "install the NVIDIA driver"
        ) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise DriverError("failed", f"nvidia-smi failed: {error}", "see: dmesg | grep NVRM") from None
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(listed)) if len(row) == len(_FIELDS)]
    version = re.search(r"CUDA Version:\s*([0-9]+)\.([0-9]+)", header)
    cuda = int(version[1]) * 1000 + int(version[2]) * 10 if version else 0
    return tuple(_card(row) for row in rows), Machine(rows[0][6] if rows else "", cuda)


def _card(row: list[str]) -> Card:
    index, uuid, name, memory, mig, capability, _ = row
    mib = natural(memory) or 0
    major, _, minor = capability.partition(".")
    compute = (natural(major) or 0, natural(minor) or 0)
    product = find(name) or Product(name, name, mib, compute, 0, measured=False)
    return Card(
        natural(index) or 0,
        uuid,
        product,
        mig=mig == "Enabled",
        name_override="" if name == product.name else name,
        memory_override_mib=0 if mib == product.memory_mib else mib,
    )
