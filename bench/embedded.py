"""A control plane of ours for the length of a measurement: its own home, gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def embedded(*options: str) -> Iterator[Path]:
    """Gives its kubeconfig. Options go to `gpuaas up`."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GPUAAS_HOME": folder}
        gpuaas = [sys.executable, "-m", "gpuaas"]
        subprocess.run([*gpuaas, "up", "-d", *options], env=environment, check=True, stdout=subprocess.DEVNULL)
        try:
            yield Path(folder) / "kubeconfig"
        finally:
            subprocess.run([*gpuaas, "down"], env=environment, check=False, stdout=subprocess.DEVNULL)
