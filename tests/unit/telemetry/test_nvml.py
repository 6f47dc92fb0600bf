"""The NVML adapter against a driver library of the tests' own, through nvidia-ml-py as on a real machine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuaas.telemetry import smi
from gpuaas.telemetry.nvml import DriverError

DRIVER = Path(__file__).parents[2] / "driver" / "nvml.c"
GIB = 1 << 30

needs_driver = pytest.mark.skipif(
    shutil.which("cc") is None or importlib.util.find_spec("pynvml") is None,
    reason="there is no C compiler or no nvidia-ml-py here",
)

ASK = """
import json, sys
from dataclasses import asdict
from gpuaas.telemetry.nvml import DriverError, Nvml
try:
    nvml = Nvml.open()
except DriverError as error:
    print(json.dumps({"kind": error.kind, "text": str(error), "fix": error.fix}))
    sys.exit()
print(json.dumps(eval(sys.argv[1]), default=lambda value: asdict(value)))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", DRIVER], check=True)
    return folder


class Machine:
    """A machine as the JSON file says; `ask` evaluates an expression with `nvml` in a process that loads the library."""

    def __init__(self, library: Path, file: Path) -> None:
        self.library, self.file = library, file

    def ask(self, expression: str, **machine: Any) -> Any:
        self.file.write_text(json.dumps({"driver": "580.159.04", "cuda": 13000, **machine}))
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.library), "GPUAAS_TEST_NVML": str(self.file)}
        command = [sys.executable, "-c", ASK, expression]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def machine(library: Path, tmp_path: Path) -> Machine:
    return Machine(library, tmp_path / "machine.json")


def gpu(index: int = 0, **more: Any) -> dict[str, Any]:
    return {"uuid": f"GPU-{index}", "name": "NVIDIA H200", "memoryMiB": 143771, "minor": index, **more}


@needs_driver
@pytest.mark.parametrize("number", [1, 8, 16])
def test_every_card_has_its_identity(machine: Machine, number: int) -> None:
    seen = "[(c.index, c.uuid, c.product.key, c.minor, c.memory_mib) for c in nvml.cards()]"
    expected = [[i, f"GPU-{i}", "H200-SXM5-141GB", i, 143771] for i in range(number)]
    assert machine.ask(seen, gpus=[gpu(i) for i in range(number)]) == expected


@needs_driver
def test_a_product_nobody_measured_is_taken_as_the_driver_names_it(machine: Machine) -> None:
    seen = "[(c.name, c.memory_mib, c.product.measured) for c in nvml.cards()]"
    assert machine.ask(seen, gpus=[gpu(name="NVIDIA X9", memoryMiB=1024)]) == [["NVIDIA X9", 1024, False]]


@needs_driver
def test_a_lost_card_is_listed_with_its_reason(machine: Machine) -> None:
    seen = "[(c.uuid, c.unhealthy) for c in nvml.cards()]"
    found = machine.ask(seen, gpus=[gpu(0), gpu(1, error=15)])
    assert found == [["GPU-0", ""], ["unknown-1", "the driver lost the card: GPU is lost"]]


@needs_driver
def test_slices_of_a_card(machine: Machine) -> None:
    slices = [{"uuid": f"MIG-{i}", "profile": "1g.18gb", "gi": 7 + i, "ci": 0, "memoryMiB": 16384} for i in range(2)]
    seen = "[(d.uuid, d.index, d.profile) for c in nvml.cards() for d in c.devices]"
    found = machine.ask(seen, gpus=[gpu(mig=1, slices=slices)])
    assert found == [["MIG-0", 0, "1g.18gb"], ["MIG-1", 1, "1g.18gb"]]


@needs_driver
def test_links_between_cards(machine: Machine) -> None:
    cards = [gpu(0, links=[0, 18]), gpu(1, links=[18, 0])]
    assert machine.ask("[c.nvlinks for c in nvml.cards()]", gpus=cards) == [[0, 18], [18, 0]]


@needs_driver
def test_processes_are_listed_once_with_their_memory(machine: Machine) -> None:
    card = gpu(processes=[{"pid": 7, "bytes": GIB}, {"pid": 9, "bytes": GIB}], mps=[{"pid": 9, "bytes": 2 * GIB}])
    found = machine.ask("[(p.pid, p.memory, p.mps) for p in nvml.processes('GPU-0')]", gpus=[card])
    assert found == [[7, GIB, False], [9, 2 * GIB, True]]


@needs_driver
def test_memory_of_a_card(machine: Machine) -> None:
    card = gpu(memoryMiB=1024, processes=[{"pid": 7, "bytes": 1 << 29}])
    assert machine.ask("nvml.memory('GPU-0')", gpus=[card]) == {"total": GIB, "used": 1 << 29}
    assert machine.ask("nvml.memory('GPU-9')", gpus=[card]) is None


@needs_driver
def test_a_fault_is_an_event_of_its_card(machine: Machine) -> None:
    machine.file.write_text("{}")
    expression = (
        "(lambda events: (__import__('pathlib').Path(" + repr(str(machine.file)) + ").write_text(json.dumps("
        "{'gpus': [{'uuid': 'GPU-0'}], 'xids': [{'number': 1, 'gpu': 0, 'xid': 79}]})),"
        " events.wait(2000), events.wait(20))[1:])(nvml.events(('GPU-0',)))"
    )
    assert machine.ask(expression, gpus=[gpu()]) == [{"uuid": "GPU-0", "xid": 79}, None]


@needs_driver
@pytest.mark.parametrize(
    ("code", "kind", "word"),
    [
        (9, "not-loaded", "not loaded"),
        (18, "mismatch", "version mismatch"),
        (4, "no-permission", "may not talk"),
        (999, "failed", "did not start"),
    ],
)
def test_each_driver_fault_has_its_sentence_and_a_way_out(machine: Machine, code: int, kind: str, word: str) -> None:
    found = machine.ask("None", init=code)
    assert found["kind"] == kind
    assert word in found["text"]
    assert found["fix"]


@needs_driver
def test_a_machine_without_a_driver_is_told_apart(machine: Machine) -> None:
    machine.library = machine.file.parent
    assert machine.ask("None")["kind"] == "no-driver"


CSV = "0, GPU-0, NVIDIA H200, 143771, Disabled, 9.0, 580.159.04\n1, GPU-1, NVIDIA X9, 1024, [N/A], 12.0, 580.159.04\n"


def test_the_inventory_of_nvidia_smi() -> None:
    def run(command: list[str]) -> str:
        return CSV if len(command) > 1 else "| NVIDIA-SMI 580.159.04    CUDA Version: 13.0     |"

    cards, machine = smi.inventory(run)
    assert [(card.uuid, card.product.key, card.memory_mib, card.mig) for card in cards] == [
        ("GPU-0", "H200-SXM5-141GB", 143771, False),
        ("GPU-1", "NVIDIA X9", 1024, False),
    ]
    assert (machine.driver, machine.cuda) == ("580.159.04", 13000)


def test_without_nvidia_smi_there_is_no_driver() -> None:
    def run(command: list[str]) -> str:
        raise FileNotFoundError(command[0])

    with pytest.raises(DriverError, match="nvidia-smi was not found"):
        smi.inventory(run)
