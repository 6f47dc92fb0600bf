"""`gpuaas demo`: a story told live on a control plane of its own, each step checked, nothing left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from gpuaas.cli.stories import STORIES, StepFailed, tell


@click.command()
@click.argument("name", type=click.Choice(sorted(STORIES)))
def demo(name: str) -> None:
    """Tell a story live: private-ai (queues and auto-admission), sla (tiers, borrowing, preemption)."""
    started = time.monotonic()
    folder = _examples() / name
    with tempfile.TemporaryDirectory(prefix="gpuaas-demo-") as home:
        environment = {**os.environ, "GPUAAS_HOME": home}
        environment.pop("KUBECONFIG", None)
        up = [sys.executable, "-m", "gpuaas", "up", "-d", "--fleet", str(folder / "fleet.yaml")]
        done = subprocess.run(up, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise click.ClickException(f"the control plane did not start: {done.stderr.strip()[-1000:]}")
        try:
            steps = asyncio.run(_tell(Path(home) / "kubeconfig", folder, name))
        except StepFailed as failure:
            raise click.ClickException(f"demo {name} failed: {failure}") from None
        finally:
            _take_down(Path(home), environment)
    click.echo(
        f"demo {name}: all {steps} steps happened, in {time.monotonic() - started:.1f} s; nothing is left behind"
    )


def _take_down(home: Path, environment: dict[str, str]) -> None:
    """Politely; and for good if it does not answer: a demo leaves nothing behind."""
    from gpuaas.assembly.home import Home

    running = Home(home).running()
    done = subprocess.run([sys.executable, "-m", "gpuaas", "down"], env=environment, capture_output=True, check=False)
    if done.returncode and running is not None:
        os.kill(running.pid, signal.SIGKILL)


async def _tell(kubeconfig: Path, folder: Path, name: str) -> int:
    from gpuaas.client.http import from_kubeconfig

    async with from_kubeconfig(kubeconfig) as client:
        return await tell(name, client, folder)


def _examples() -> Path:
    """Installed beside the package, or in the repository it runs from."""
    import gpuaas

    package = Path(gpuaas.__file__).parent
    installed = package / "examples"
    return installed if installed.is_dir() else package.parents[1] / "examples"
