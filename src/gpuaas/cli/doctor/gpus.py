"""GPUs: the driver of this machine, what memory budgets and MPS need, and what nodes say about their cards."""

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.cli.doctor.finding import Finding

if TYPE_CHECKING:
    from gpuaas.assembly.home import Home
    from gpuaas.client.http import HttpClient
    from gpuaas.executors.machine import Gpus

_FIXES = {
    "no-package": "pip install nvidia-ml-py && gpuaas down && gpuaas up -d",
    "no-driver": "sudo apt install nvidia-driver-580-server  # or your distribution's package, then reboot",
    "not-loaded": "sudo modprobe nvidia && gpuaas down && gpuaas up -d",
    "mismatch": "sudo reboot",
    "no-permission": "sudo usermod -aG video $USER  # then sign in again",
}
_NO_DRIVER = "NoDriver"  # reason of a node whose machine may have no cards at all: the local check looks for them
_SEE = "nvidia-smi; sudo dmesg | grep -i nvrm | tail"
_RESTART = "gpuaas down && gpuaas up -d"


def check_driver(home: "Home") -> list[Finding]:
    """Asks the driver as `gpuaas up` does; a machine without NVIDIA hardware has nothing to be checked."""
    from gpuaas.executors.machine import look_for_gpus

    gpus = look_for_gpus()
    if gpus.fault and not gpus.is_news:
        return []
    findings = list(driver_findings(gpus))
    if gpus.cards:
        findings += needs_findings(shutil.which(os.environ.get("CC", "cc")) is not None, home)
    return findings


def driver_findings(gpus: "Gpus") -> Iterator[Finding]:
    if gpus.fault:
        yield Finding("yellow" if gpus.cards else "red", "gpu-driver", gpus.fault, _FIXES.get(gpus.kind, _SEE))
    else:
        yield Finding("green", "gpu-driver", f"driver {gpus.driver.driver} answers for {len(gpus.cards)} cards")
    for card in gpus.cards:
        if card.unhealthy:
            message = f"card {card.index}: {card.unhealthy}"
            yield Finding("red", "gpu-lost", message, f"sudo nvidia-smi --gpu-reset -i {card.index}  # else reboot")


def needs_findings(has_compiler: bool, home: "Home") -> list[Finding]:
    """What budgets and MPS need on a machine with cards."""
    built = home.native.is_dir() and any(home.native.glob("libgpuaas-memory-*.so"))
    findings: list[Finding] = []
    if not built and not has_compiler:
        words = "there is no C compiler: memory budgets of shared cards are kept by frameworks and by the guard only"
        findings.append(Finding("yellow", "gpu-budgets", words, f"sudo apt install gcc libc6-dev && {_RESTART}"))
    elif not built:
        words = "the library that keeps memory budgets is not built yet: gpuaas up builds it"
        findings.append(Finding("yellow", "gpu-budgets", words, _RESTART))
    else:
        findings.append(Finding("green", "gpu-budgets", "the library that keeps memory budgets is built"))
    if shutil.which("nvidia-cuda-mps-control") is None:
        words = "nvidia-cuda-mps-control was not found: cards can be shared by time-slicing, not by MPS"
        findings.append(Finding("yellow", "gpu-mps", words, "sudo apt install nvidia-compute-utils-580-server"))
    return findings


async def check_cards(client: "HttpClient") -> list[Finding]:
    from gpuaas.client.resources import NODES

    nodes = (await client.list(NODES)).items
    return [finding for node in nodes for finding in node_findings(node)]


def node_findings(node: Mapping[str, Any]) -> Iterator[Finding]:
    """Pure: what one node says about its cards."""
    from gpuaas.devices.faults import ANNOTATION as FAULTS
    from gpuaas.devices.foreign import FOREIGN, IGNORED, foreign_processes

    name, annotations = node["metadata"]["name"], node["metadata"].get("annotations") or {}
    for condition in (node.get("status") or {}).get("conditions") or ():
        said = f"node {name}: {condition.get('message') or condition.get('reason')}"
        match condition["type"], condition["status"]:
            case "gpuaas.dev/GPUDriver", "False" if condition.get("reason") == _NO_DRIVER:
                fix = f"on {name}, if it has NVIDIA cards: {_FIXES['no-driver']}"
                yield Finding("yellow", "gpu-node-driver", said, fix)
            case "gpuaas.dev/GPUDriver", "False":
                yield Finding("red", "gpu-node-driver", said, _RESTART)
            case "gpuaas.dev/GPUHealth", "False":
                yield Finding("red", "gpu-node-health", said, f"kubectl annotate node {name} {FAULTS}-")
            case (("gpuaas.dev/DevicePluginConfig" | "gpuaas.dev/MigConfig"), "False"):
                yield Finding("yellow", "gpu-node-config", said, f"kubectl describe node {name}")
    for process in foreign_processes(str(annotations.get(FOREIGN) or "")):
        ignored = annotations.get(IGNORED) == "true"
        effect = "it is ignored" if ignored else "the card takes no new work"
        message = f"node {name}: card {process.card} is used by {process.in_words}, which is not a pod's; {effect}"
        fix = f"kill {process.pid}  # or: gpuaas down && gpuaas up -d --ignore-foreign"
        yield Finding("yellow", "gpu-foreign", message, "" if ignored else fix)
