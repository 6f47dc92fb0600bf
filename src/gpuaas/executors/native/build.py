"""Building the native parts once, with the machine's C compiler, where there is one.

The result is kept beside other files of the home, named after a digest of its source: a newer source is built again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Final

_SOURCE: Final = "gpu_memory.c"
_FLAGS: Final = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden")
_LIBRARIES: Final = ("-ldl", "-lpthread")
_LIMIT: Final = 60.0


def source() -> bytes:
    return files(__package__).joinpath(_SOURCE).read_bytes()


def memory_budget_path(folder: Path) -> Path:
    """Where the library of this source lies in the folder, built or not."""
    return folder / f"libgpuaas-memory-{hashlib.sha256(source()).hexdigest()[:16]}.so"


def build_memory_budget(target: Path) -> str | None:
    """Builds the library at `target`. Returns why that could not be done, as a sentence for the user; None where it is
    there."""
    if target.exists():
        return None
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return "there is no C compiler (cc): memory budgets are kept by frameworks and by the guard only"
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_suffix(".building")
    command = [compiler, *_FLAGS, "-x", "c", "-o", str(made), "-", *_LIBRARIES]
    try:
        done = subprocess.run(command, input=source(), capture_output=True, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the C compiler {compiler} did not run: {error}"
    if done.returncode != 0:
        first = done.stderr.decode(errors="replace").strip().splitlines()
        return f"the C compiler {compiler} failed: {first[0] if first else f'exit {done.returncode}'}"
    made.replace(target)
    return None
