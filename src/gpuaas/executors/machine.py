"""This machine as a node: its name, processors, memory and disk."""

import os
import platform
import re
import shutil
import socket

from gpuaas.executors.nodes import NodeSpec
from gpuaas.nodefit.names import PROCESS_TAINT

_ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}


def this_machine() -> NodeSpec:
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
        architecture=_ARCHITECTURES.get(machine, machine),
    )


def node_name(host: str) -> str:
    """The host's name as far as it can be a node's."""
    return re.sub(r"[^a-z0-9.-]+", "-", host.lower()).strip("-.")[:253] or "this-machine"
