"""The annotations by which people tell simulated nodes what to do, and how they are read.

What cannot be read is treated as absent: a wish for a simulation never keeps a pod from running.
"""

import re
from collections.abc import Mapping
from typing import Any

RUN_SECONDS = "gpuaas.dev/run-seconds"  # job, template or pod: how long each container runs
START_SECONDS = "gpuaas.dev/start-seconds"  # how long it takes from bound to running
STOP_SECONDS = "gpuaas.dev/stop-seconds"  # how long it takes to end when asked to (at most the grace period)
FAIL = "gpuaas.dev/fail"  # an exit code, OOMKilled, ImagePullBackOff, or true (exit code 1)
LOST = "gpuaas.dev/lost"  # on a node: "true" makes it fall silent with everything on it
CHECKPOINT_SIGNAL = "gpuaas.dev/checkpoint-signal"  # on a pod: the signal it gets before SIGTERM, to save its state
_SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGQUIT", "SIGALRM", "SIGCONT")

_CODE = re.compile(r"[0-9]{1,19}")
OUT_OF_MEMORY, NO_IMAGE = "OOMKilled", "ImagePullBackOff"


def seconds(annotations: Mapping[str, str], name: str) -> float | None:
    text = annotations.get(name, "").removesuffix("s")
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 <= found < float("inf") else None


def exit_code(annotations: Mapping[str, str]) -> int | None:
    """The exit code that was asked for; None without a requested failure."""
    wanted = annotations.get(FAIL, "")
    if wanted == OUT_OF_MEMORY:
        return 137
    if _CODE.fullmatch(wanted):
        return int(wanted) & 0xFF or None
    return 1 if wanted.lower() in ("true", "yes") else None


def is_lost(node: Mapping[str, Any]) -> bool:
    said: str = (node["metadata"].get("annotations") or {}).get(LOST, "")
    return said.lower() == "true"


def checkpoint_signal(annotations: Mapping[str, str]) -> str:
    """The signal's name; empty where none was asked for, or one that cannot mean to save one's state."""
    asked = annotations.get(CHECKPOINT_SIGNAL, "").strip().upper()
    name = asked if asked.startswith("SIG") else f"SIG{asked}"
    return name if name in _SIGNALS else ""
