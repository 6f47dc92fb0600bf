"""The demos, as people run them: every step happens, one verdict, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 120  # ours take a tenth of it; the machine may be busy


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "sla",
            [
                "dev is admitted by borrowing: Admitted=True Admitted",
                "prod preempts dev: Preempted=True ",
                "dev waits again: Admitted=False",
                "the ledger has it: team-b/raycluster/raycluster-dev made room for team-a/raycluster/raycluster-prod",
                "dev comes back by itself: Admitted=True Admitted",
            ],
        ),
        (
            "private-ai",
            [
                "the first workbench is admitted: Admitted=True Admitted",
                "the second waits: QuotaReserved=False Pending",
                "the second starts by itself: Admitted=True Admitted",
            ],
        ),
        (
            "sharing",
            [
                "the node offers four shares: nvidia.com/gpu: 4",
                "the fifth waits: QuotaReserved=False Pending",
                "it is stopped: GPUMemoryOverLimit: stopped: the pod uses 20480 MiB of GPU memory, its budget is ",
                "its neighbours go on: ",
                "the fifth starts: Admitted=True Admitted",
            ],
        ),
        (
            "mig",
            [
                "the node offers seven slices: nvidia.com/mig-1g.5gb: 7",
                "they save their state first: CheckpointSignal: SIGUSR1 sent before SIGTERM",
                "a cut that cannot be fails: failed: nvidia.com/mig.config=all-9g.99gb: selected mig-config not present",
                "and so are all seven jobs: 7 jobs on 7 slices",
                "a card that cannot be changed keeps its slices: failed: ",
            ],
        ),
    ],
)
def test_a_demo_tells_its_story(name: str, lines: list[str], tmp_path: Path) -> None:
    scratch, home = tmp_path / "tmp", tmp_path / "home"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "GPUAAS_HOME": str(home), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "gpuaas", "demo", name],
        env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    seen = done.stdout.splitlines()
    for words in lines:
        assert any(line.startswith(f"  ✔ {words}") for line in seen), f"{words} is not in {done.stdout}"
    assert seen[-1].startswith(f"demo {name}: all ")
    assert seen[-1].endswith("nothing is left behind")
    assert not list(scratch.iterdir()), "its folder is gone"
    assert not home.exists(), "the user's own home is not touched"
    assert not _running_in(scratch), "its server is gone"


def _running_in(folder: Path) -> list[str]:
    """Processes whose environment names the folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"GPUAAS_HOME={folder}/".encode() in each.read_bytes():
                found.append(each.parent.name)
        except OSError:
            continue
    return found
