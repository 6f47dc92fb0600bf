"""NVML: which cards this machine has, what runs on them, and what goes wrong with them.

`Nvml.open` loads the driver's library through nvidia-ml-py, or raises `DriverError` with a sentence for the user and a way
out. Every other call answers for one card and never fails for all because one card is lost: such a card is listed with
the reason in `Card.unhealthy`. Values a card does not support are absent.

Calls block for up to some milliseconds; loops call them in a worker thread.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.devices.cards import Card, MigDevice
from gpuaas.devices.labels import Machine
from gpuaas.devices.products import COMPUTE_CLASS, Product, find

_LINKS: Final = 18
_MIB: Final = 1 << 20
_XID: Final = 8  # nvmlEventTypeXidCriticalError
_ECC: Final = 2 | 1  # double and single bit errors: seen and skipped, as NVIDIA's plugin does


class DriverError(Exception):
    """The driver cannot be asked. `kind` is stable for programs; the text is for people, `fix` what to do."""

    def __init__(self, kind: str, text: str, fix: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.fix = fix


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that has memory on a card, in this machine's own process numbers."""

    pid: int
    memory: int
    mps: bool = False
    slice: tuple[int, int] | None = None  # GPU and compute instance, on a card with MIG


@dataclass(frozen=True, slots=True)
class Memory:
    total: int
    used: int


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A fault the driver reports. It does not name the process; `uuid` is None where the card is unknown."""

    uuid: str | None
    xid: int


class Nvml:
    def __init__(self, library: Any) -> None:
        self._library = library

    @classmethod
    def open(cls, load: Callable[[], Any] | None = None) -> Nvml:
        """Raises DriverError. `load` gives the pynvml module."""
        library = (load or _pynvml)()
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            raise _driver_error(error.value, str(error)) from None
        return cls(library)

    def close(self) -> None:
        with suppress(self._library.NVMLError):
            self._library.nvmlShutdown()

    def machine(self) -> Machine:
        driver = self._library.nvmlSystemGetDriverVersion()
        return Machine(str(driver), int(self._library.nvmlSystemGetCudaDriverVersion()))

    # Inventory

    def cards(self) -> tuple[Card, ...]:
        """Every card, in NVML's order; one that is lost keeps its index and says why it takes no work."""
        count = self._library.nvmlDeviceGetCount()
        handles = [self._handle(index) for index in range(count)]
        return tuple(self._card(index, handle, handles) for index, handle in enumerate(handles))

    def _handle(self, index: int) -> Any:
        try:
            return self._library.nvmlDeviceGetHandleByIndex(index)
        except self._library.NVMLError as error:
            return error

    def _card(self, index: int, handle: Any, handles: list[Any]) -> Card:
        if isinstance(handle, Exception):
            unknown = Product("unknown", "unknown GPU", 0, (0, 0), 0, COMPUTE_CLASS, measured=False)
            return Card(index, f"unknown-{index}", unknown, unhealthy=f"the driver lost the card: {handle}")
        library = self._library
        name = _text(library.nvmlDeviceGetName(handle))
        memory = library.nvmlDeviceGetMemoryInfo(handle).total // _MIB
        compute = self._known(library.nvmlDeviceGetCudaComputeCapability, handle) or (0, 0)
        product = find(name) or Product(name, name, memory, tuple(compute), self._pci_id(handle), measured=False)
        mig = self._known(library.nvmlDeviceGetMigMode, handle)
        enabled = bool(mig and mig[0] == 1)
        return Card(
            index,
            _text(library.nvmlDeviceGetUUID(handle)),
            product,
            mig=enabled,
            devices=tuple(self._slices(handle)) if enabled else (),
            name_override="" if name == product.name else name,
            memory_override_mib=0 if memory == product.memory_mib else memory,
            minor=self._known(library.nvmlDeviceGetMinorNumber, handle),
            nvlinks=self._links(handle, handles),
            pcie=tuple(self._level(handle, other) for other in handles),
            reserved_mib=self._reserved(handle),
        )

    def _reserved(self, handle: Any) -> int:
        """MiB the driver keeps for itself, where the second version of the call tells it apart."""
        version = getattr(self._library, "nvmlMemory_v2", None)
        info = self._known(self._library.nvmlDeviceGetMemoryInfo, handle, version) if version is not None else None
        return -(-int(info.reserved) // _MIB) if info is not None else 0

    def _pci_id(self, handle: Any) -> int:
        pci = self._known(self._library.nvmlDeviceGetPciInfo, handle)
        return int(pci.pciDeviceId) if pci is not None else 0

    def _slices(self, handle: Any) -> Iterator[MigDevice]:
        library = self._library
        for index in range(self._known(library.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            found = self._known(library.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            if found is not None:
                # The name ends with the profile: "NVIDIA H200 MIG 1g.18gb".
                profile = _text(library.nvmlDeviceGetName(found)).rpartition(" ")[2]
                yield MigDevice(_text(library.nvmlDeviceGetUUID(found)), index, profile)

    def _links(self, handle: Any, handles: list[Any]) -> tuple[int, ...]:
        """NVLinks to each card. A link into a switch ends at no card and counts for none."""
        by_bus = {self._bus(other): at for at, other in enumerate(handles) if not isinstance(other, Exception)}
        counts = [0] * len(handles)
        for link in range(_LINKS):
            if not self._known(self._library.nvmlDeviceGetNvLinkState, handle, link):
                continue
            remote = self._known(self._library.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            at = by_bus.get(_text(remote.busId)) if remote is not None else None
            if at is not None:
                counts[at] += 1
        return tuple(counts) if any(counts) else ()

    def _bus(self, handle: Any) -> str:
        pci = self._known(self._library.nvmlDeviceGetPciInfo, handle)
        return _text(pci.busId) if pci is not None else ""

    def _level(self, handle: Any, other: Any) -> int:
        if isinstance(other, Exception) or other is handle:
            return 0
        level = self._known(self._library.nvmlDeviceGetTopologyCommonAncestor, handle, other)
        return 50 if level is None else int(level)

    # What runs

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        """Processes with memory on the card; under MPS its clients, each once, and the server beside them."""
        library, handle = self._library, self._by_uuid(uuid)
        if handle is None:
            return ()
        found: dict[int, GpuProcess] = {}
        for call, mps in (
            (library.nvmlDeviceGetComputeRunningProcesses, False),
            (library.nvmlDeviceGetMPSComputeRunningProcesses, True),
        ):
            for process in self._known(call, handle) or ():
                instance = (process.gpuInstanceId, process.computeInstanceId)
                known = None if None in instance or 0xFFFFFFFF in instance else instance
                found[process.pid] = GpuProcess(process.pid, int(process.usedGpuMemory or 0), mps, known)
        return tuple(found[pid] for pid in sorted(found))

    def memory(self, uuid: str) -> Memory | None:
        handle = self._by_uuid(uuid)
        info = self._known(self._library.nvmlDeviceGetMemoryInfo, handle) if handle is not None else None
        return None if info is None else Memory(int(info.total), int(info.used))

    def temperature(self, uuid: str) -> int | None:
        handle = self._by_uuid(uuid)
        return None if handle is None else self._known(self._library.nvmlDeviceGetTemperature, handle, 0)

    def utilization(self, uuid: str) -> int | None:
        handle = self._by_uuid(uuid)
        rates = self._known(self._library.nvmlDeviceGetUtilizationRates, handle) if handle is not None else None
        return None if rates is None else int(rates.gpu)

    def lost(self, uuid: str) -> str:
        """Why the card cannot be asked; empty while it answers."""
        try:
            handle = self._library.nvmlDeviceGetHandleByUUID(uuid)
            self._library.nvmlDeviceGetMemoryInfo(handle)
        except self._library.NVMLError as error:
            return str(error)
        return ""

    # Health

    def broken_rows(self, uuid: str) -> str:
        """Why the card's memory cannot be trusted; empty where it can, or where that cannot be asked."""
        handle = self._by_uuid(uuid)
        ask = getattr(self._library, "nvmlDeviceGetRemappedRows", None)
        rows = self._known(ask, handle) if handle is not None and ask is not None else None
        return "row remapping failed after an uncorrectable memory error" if rows is not None and rows[3] else ""

    def events(self, uuids: tuple[str, ...]) -> Events:
        return Events(self._library, [handle for uuid in uuids if (handle := self._by_uuid(uuid)) is not None])

    def _by_uuid(self, uuid: str) -> Any:
        try:
            return self._library.nvmlDeviceGetHandleByUUID(uuid)
        except self._library.NVMLError:
            return None

    def _known(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None for what this card or driver does not know."""
        try:
            return call(*arguments)
        except self._library.NVMLError:
            return None


class Events:
    """Xid events of some cards, one at a time. Raises DriverError where the driver reports none."""

    def __init__(self, library: Any, handles: list[Any]) -> None:
        self._library = library
        try:
            self._set = library.nvmlEventSetCreate()
        except library.NVMLError as error:
            raise DriverError("events", f"the driver reports no events: {error}", "see: nvidia-smi") from None
        for handle in handles:
            with suppress(library.NVMLError):  # a card too old to report is watched by asking
                library.nvmlDeviceRegisterEvents(handle, _XID | _ECC, self._set)

    def wait(self, milliseconds: int) -> XidEvent | None:
        """The next Xid, or None when none comes in time."""
        try:
            event = self._library.nvmlEventSetWait_v2(self._set, milliseconds)
        except self._library.NVMLError as error:
            if error.value == self._library.NVML_ERROR_TIMEOUT:
                return None
            raise DriverError("events", f"the driver stopped reporting events: {error}", "restart gpuaas") from None
        if event.eventType != _XID:
            return None
        try:
            uuid = _text(self._library.nvmlDeviceGetUUID(event.device))
        except self._library.NVMLError:
            uuid = None
        return XidEvent(uuid, int(event.eventData))

    def close(self) -> None:
        with suppress(self._library.NVMLError):
            self._library.nvmlEventSetFree(self._set)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _pynvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        raise DriverError(
            "no-package", "the package nvidia-ml-py is not installed", "pip install 'gpuaas[nvidia]'"
        ) from None


def _driver_error(code: int, text: str) -> DriverError:
    """What NVML's start can fail with, each with its own sentence."""
    match code:
        case 12:  # the library was not found
            return DriverError(
                "no-driver", "no NVIDIA driver: libnvidia-ml.so.1 was not found", "install the NVIDIA driver"
            )
        case 9:
            return DriverError(
                "not-loaded", "the NVIDIA driver is installed but not loaded", "load it with: modprobe nvidia"
            )
        case 18:
            return DriverError(
                "mismatch",
                "the NVIDIA driver was updated while the old one is still loaded (driver/library version mismatch)",
                "reboot, or unload and load the nvidia kernel modules",
            )
        case 4:
            return DriverError(
                "no-permission",
                "this user may not talk to the NVIDIA driver",
                "give the user access to /dev/nvidiactl and /dev/nvidia* (often: add it to the group video)",
            )
        case _:
            return DriverError(
                "failed", f"the NVIDIA driver did not start: {text}", "see: nvidia-smi, dmesg | grep NVRM"
            )
