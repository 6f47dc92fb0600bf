"""`gpuaas doctor` on GPUs: which state of a driver or a node gives which finding, each with its command."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.cli.doctor.gpus import driver_findings, node_findings
from gpuaas.devices.foreign import ForeignProcess, encode_foreign
from gpuaas.devices.inventory import Pool, simulated_cards
from gpuaas.executors.machine import Gpus


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("mismatch", "sudo reboot"),
        ("not-loaded", "modprobe nvidia"),
        ("no-permission", "usermod -aG video"),
        ("no-driver", "apt install"),
        ("no-package", "pip install nvidia-ml-py"),
        ("failed", "dmesg"),
    ],
)
def test_each_driver_fault_has_a_command(kind: str, fix: str) -> None:
    [finding] = driver_findings(Gpus(fault="the driver says no", kind=kind, is_news=True))
    assert (finding.level, finding.message) == ("red", "the driver says no")
    assert fix in finding.fix


def test_a_driver_that_answers_is_green() -> None:
    [finding] = driver_findings(Gpus(simulated_cards("n", Pool("NVIDIA-H200", 2))))
    assert finding.level == "green"
    assert "2 cards" in finding.message


def node(annotations: dict[str, str] | None = None, *conditions: tuple[str, str, str]) -> dict[str, Any]:
    shown = [{"type": kind, "status": status, "message": words} for kind, status, words in conditions]
    return {"metadata": {"name": "n", "annotations": annotations or {}}, "status": {"conditions": shown}}


FOREIGN = encode_foreign([ForeignProcess("GPU-1", 42, "eve", "python", 1 << 30)])


@pytest.mark.parametrize(
    ("obj", "level", "mentions", "fix"),
    [
        (node(None, ("gpuaas.dev/GPUHealth", "False", "card 0: Xid 79")), "red", "Xid 79", "gpuaas.dev/card-faults-"),
        (node(None, ("gpuaas.dev/GPUDriver", "False", "lost")), "red", "lost", "gpuaas down"),
        (node(None, ("gpuaas.dev/MigConfig", "False", "no such")), "yellow", "no such", "kubectl describe node n"),
        (node({"gpuaas.dev/gpu-foreign": FOREIGN}), "yellow", "pid 42 (python of user eve), 1024 MiB", "kill 42"),
    ],
)
def test_what_nodes_say(obj: dict[str, Any], level: str, mentions: str, fix: str) -> None:
    [finding] = node_findings(obj)
    assert finding.level == level
    assert mentions in finding.message
    assert fix in finding.fix


def test_a_node_without_a_driver_may_have_no_cards_and_is_no_fault() -> None:
    obj = node(None, ("gpuaas.dev/GPUDriver", "False", "no NVIDIA driver"))
    obj["status"]["conditions"][0]["reason"] = "NoDriver"
    [finding] = node_findings(obj)
    assert finding.level == "yellow"
    assert finding.fix.startswith("on n, if it has NVIDIA cards: ")


def test_a_node_that_is_well_has_no_findings() -> None:
    assert list(node_findings(node(None, ("gpuaas.dev/GPUHealth", "True", ""), ("Ready", "True", "")))) == []
