"""`gpuaas demo`: a story played live on a control plane of its own, each step checked, nothing left behind."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from gpuaas.assembly.home import Home
from gpuaas.cli.fleet.stories import FLEET_STORIES, tell_fleet
from gpuaas.cli.ready import wait_ready
from gpuaas.cli.stories import NAMES, StepFailed, tell

_PATIENCE = 10.0


@click.command()
@click.argument("name", type=click.Choice(sorted({*NAMES, *FLEET_STORIES})))
@click.option(
    "--open", "opens", is_flag=True, help="Open the dashboard before it begins, and end when Enter is pressed."
)
def demo(name: str, opens: bool) -> None:
    """Tell a story live, each step checked.

    On one cluster: private-ai (queues and auto-admission), sla (tiers, borrowing, preemption), sharing (one GPU for
    four notebooks), mig (slices that change under running jobs). On a hub and workers:
    multikueue (submit once, run on a worker), placement-all, placement-labels, placement-scores and placement-tiers (a
    Placement chooses the clusters).
    """
    started = time.monotonic()
    folder = _examples() / name
    with tempfile.TemporaryDirectory(prefix="gpuaas-demo-") as home:
        server = _server(Path(home), folder / "fleet.yaml")
        try:
            if wait_ready(Home(Path(home)), server) is None:
                words = (Path(home) / "log").read_text(errors="replace").strip()
                raise click.ClickException(f"the control plane did not start: {words[-1000:]}")
            if opens:
                _show_pages(Path(home))
            steps = asyncio.run(_tell(Path(home) / "kubeconfig", folder, name))
            if opens:
                _wait_for_enter(f"all {steps} steps happened; press Enter to end")
        except StepFailed as failure:
            raise click.ClickException(f"demo {name} failed: {failure}") from None
        finally:
            _take_down(server)
    click.echo(
        f"demo {name}: all {steps} steps happened, in {time.monotonic() - started:.1f} s; nothing is left behind"
    )


def _show_pages(home: Path) -> None:
    """In a browser, or as a link where there is none."""
    from gpuaas.cli.open import open_now

    open_now(home / "kubeconfig")
    _wait_for_enter("press Enter to begin")


def _wait_for_enter(words: str) -> None:
    if sys.stdin.isatty():
        click.prompt(words, default="", show_default=False, prompt_suffix=" ")


def _server(home: Path, fleet: Path) -> "subprocess.Popen[bytes]":
    """A control plane of the demo's own, which Ctrl-C does not reach: the demo ends it, whatever happens."""
    environment = {**os.environ, "GPUAAS_HOME": str(home), "GPUAAS_DETACHED": "1"}
    with (home / "log").open("wb") as log:
        up = [sys.executable, "-m", "gpuaas", "up", "--fleet", str(fleet)]
        return subprocess.Popen(up, env=environment, stdout=log, stderr=log, start_new_session=True)


def _take_down(server: "subprocess.Popen[bytes]") -> None:
    """Politely; and for good if it does not answer: a demo leaves nothing behind."""
    server.terminate()
    try:
        server.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


async def _tell(kubeconfig: Path, folder: Path, name: str) -> int:
    if name in FLEET_STORIES:
        return await tell_fleet(name, kubeconfig, folder)
    from gpuaas.client.http import from_kubeconfig

    async with from_kubeconfig(kubeconfig) as client:
        return await tell(name, client, folder)


def _examples() -> Path:
    """Installed beside the package, or in the repository it runs from."""
    import gpuaas

    package = Path(gpuaas.__file__).parent
    installed = package / "examples"
    return installed if installed.is_dir() else package.parents[1] / "examples"
