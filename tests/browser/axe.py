"""axe-core, the judge of accessibility: fetched by its package name into a cache outside the repository, once.

`AXE_CORE` may name a file to take instead. Where it cannot be had the reason is in `Missing`, and tests are skipped with
it.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION = "4.14.1"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpuaas-tests" / f"axe-core-{VERSION}.js"
_RUN = """async () => {
    const found = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]});
    return found.violations.map((each) => ({
        rule: each.id, help: each.help, nodes: each.nodes.slice(0, 4).map((node) => `${node.target} ${node.failureSummary}`),
    }));
}"""


class Missing(Exception):
    """Why there is no axe-core."""


def source() -> str:
    given = os.environ.get("AXE_CORE")
    if given:
        return Path(given).read_text()
    if not _CACHE.exists():
        _fetch()
    return _CACHE.read_text()


def violations(page: Page, axe: str) -> list[dict[str, Any]]:
    """Of what the page shows now. Evaluated by the debugger, which no Content-Security-Policy binds."""
    page.evaluate(axe)
    found: list[dict[str, Any]] = page.evaluate(_RUN)
    return found


def _fetch() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("there is no npm to fetch axe-core with")
    with tempfile.TemporaryDirectory() as folder:
        asked = [npm, "pack", "--silent", f"axe-core@{VERSION}"]
        done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        packed = next(Path(folder).glob("*.tgz"), None)
        if done.returncode or packed is None:
            raise Missing(f"axe-core cannot be fetched: {done.stderr.strip()[-200:]}")
        with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
            member = archive.extractfile("package/axe.min.js")
            if member is None:
                raise Missing("axe-core's package has no axe.min.js")
            _CACHE.parent.mkdir(parents=True, exist_ok=True)
            fresh = _CACHE.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(member.read())
            fresh.rename(_CACHE)
