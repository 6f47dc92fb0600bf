"""The demos of many clusters, as people run them: every step happens, under 20 seconds of its own, nothing is left behind."""

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
            "multikueue",
            [
                "worker1 is connected: Active=True Active: Connected",
                "AC: Active=True Active: The admission check is active",
                "the manager sends the job to: worker",
                "its log is read on the hub: GPU 0: NVIDIA L4",
            ],
        ),
        (
            "placement-all",
            [
                "Placement default selects: spoke1, spoke2",
                "the placement check: Active=True Active: MultiKueueConfig default is generated successfully",
                "it ends, and the hub knows: Complete on hub",
            ],
        ),
        (
            "placement-labels",
            ["the job goes to: spoke1", "spoke2 never sees demo2-gpu-job-1", "the next job goes to: spoke2"],
        ),
        (
            "placement-scores",
            [
                "the first job goes to: spoke1",
                "the next job goes to: spoke2",
                "the first one runs on where it was: Running on spoke1",
                "and it is finished: Complete on hub",
            ],
        ),
        ("placement-tiers", ["gold-job goes to: gold", "gpu-job goes to: silver", "cpu-job goes to: cpu"]),
    ],
)
def test_a_demo_of_many_clusters_tells_its_story(name: str, lines: list[str], tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    home = tmp_path / "home"
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
    assert not list(scratch.iterdir()), "its folder is gone"
    assert not home.exists(), "the user's own home is not touched"
