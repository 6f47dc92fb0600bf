"""What a first start makes, and what it does not keep in memory."""

import subprocess
import sys
from pathlib import Path

import pytest

_FIRST_START = """
import sys
from pathlib import Path
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import SystemClock

folder = Path(sys.argv[1])
trust = Trust(folder / "pki", folder / "users.json", SystemClock())
trust.serving_context("127.0.0.1", ())
print("cryptography" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child process is not safe to leave it to")
def test_a_first_start_does_not_keep_what_made_its_certificates(tmp_path: Path) -> None:
    for _ in range(2):
        said = subprocess.run(
            [sys.executable, "-c", _FIRST_START, tmp_path], capture_output=True, text=True, check=True
        ).stdout
        assert said.strip() == "False"
    made = {path.name for path in (tmp_path / "pki").iterdir()}
    assert made >= {"ca.crt", "ca.key", "serving.crt", "serving.key", "serving.json"}
