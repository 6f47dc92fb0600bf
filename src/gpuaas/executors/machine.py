"""This machine as a node: its name, processors, memory, disk and cards.

The cards are those NVML reports, or `nvidia-smi` where nvidia-ml-py is not installed. A driver that cannot be asked is a
`fault`: a sentence for people and a way out. On a machine without NVIDIA hardware a missing driver is no news
(`Gpus.is_news`): it is shown to who asks for GPUs, and not at every start.
"""

import os
import platform
import re
import shutil
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from gpuaas.devices.cards import Card
from gpuaas.devices.inventory import SIMULATED
from gpuaas.devices.labels import Machine
from gpuaas.executors.nodes import NodeSpec
from gpuaas.nodefit.names import PROCESS_TAINT

_ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}
_NVIDIA = "0x10de"  # PCI vendor
_DISPLAY = "0x03"  # what PCI classes of display controllers begin with


@dataclass(frozen=True, slots=True)
class Gpus:
    """What the driver of this machine said."""

    cards: tuple[Card, ...] = ()
    driver: Machine = SIMULATED
    fault: str = ""
    fix: str = ""
    kind: str = ""
    is_news: bool = False
    library: str = ""  # path of the library that keeps memory budgets
    library_fault: str = ""  # why there is none

    @property
    def in_words(self) -> str:
        return f"{self.fault}; {self.fix}" if self.fault else ""


NO_GPUS = Gpus()


def look_for_gpus(native: Path | None = None) -> Gpus:
    """Asks the driver; blocks, so call it in a thread. `native`: the folder for what is built for this machine, where
    there are cards."""
    found = _ask_driver()
    return _with_library(found, native) if found.cards and native is not None else found


def _with_library(found: Gpus, native: Path) -> Gpus:
    from gpuaas.executors.native.build import build_memory_budget, memory_budget_path

    target = memory_budget_path(native)
    fault = build_memory_budget(target)
    return replace(found, library="" if fault else str(target), library_fault=fault or "")


def _ask_driver() -> Gpus:
    from gpuaas.telemetry import smi
    from gpuaas.telemetry.nvml import DriverError, Nvml

    try:
        try:
            nvml = Nvml.open()
        except DriverError as error:
            if error.kind != "no-package":
                raise
            cards, driver = smi.inventory()
            return Gpus(cards, driver, str(error), error.fix, error.kind, is_news=True)
        try:
            return Gpus(nvml.cards(), nvml.machine())
        finally:
            nvml.close()
    except DriverError as error:
        is_news = error.kind != "no-driver" or _has_nvidia_hardware()
        return Gpus(fault=str(error), fix=error.fix, kind=error.kind, is_news=is_news)
    except Exception as error:  # a driver may answer anything, and the machine has other work to do
        return Gpus(
            fault=f"the NVIDIA driver could not be asked: {error}", fix="see: nvidia-smi", kind="failed", is_news=True
        )


def _has_nvidia_hardware() -> bool:
    def read(path: Path) -> str:
        try:
            return path.read_text().strip()
        except OSError:
            return ""

    devices = Path("/sys/bus/pci/devices")
    found = devices.iterdir() if devices.is_dir() else ()
    return any(read(one / "vendor") == _NVIDIA and read(one / "class").startswith(_DISPLAY) for one in found)


def this_machine(gpus: Gpus = NO_GPUS) -> NodeSpec:
    kibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    machine = platform.machine()
    return NodeSpec(
        name=node_name(socket.gethostname()),
        cpu=str(os.cpu_count() or 1),
        memory=f"{kibibytes}Ki",
        storage=f"{shutil.disk_usage('/').total // 1024}Ki",
        taints=({"key": PROCESS_TAINT, "effect": "NoSchedule"},),
        executor="process",
        address="127.0.0.1",
        found=gpus.cards,
        driver=gpus.driver,
        gpu_fault=gpus.in_words,
        gpu_fault_kind=gpus.kind,
        architecture=_ARCHITECTURES.get(machine, machine),
    )


def node_name(host: str) -> str:
    """The host's name as far as it can be a node's."""
    return re.sub(r"[^a-z0-9.-]+", "-", host.lower()).strip("-.")[:253] or "this-machine"
