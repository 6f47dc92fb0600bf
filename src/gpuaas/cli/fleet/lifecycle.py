"""`gpuaas fleet create` and `delete`: a hub and workers on this machine, each with a kubeconfig of its own.

`create` starts one control plane that serves every cluster under a URL of its own; the first is the hub, and the others
join it unless that is not wanted. What it makes is written to `fleet-created.json` in the home, and `delete` removes that:
the server, the home and the kubeconfig files, and nothing that it did not make.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpuaas.assembly.home import Home, Unusable
from gpuaas.cli.context import WrongOption

CREATED = "fleet-created.json"
_MOST = 64
_JOIN_LIMIT = 60.0
_HUB_NODE = {"name": "control-plane", "cpu": "4", "memory": "16Gi"}
_WORDS = "Kueue of this cluster runs inside gpuaas; its log is gpuaas.log in the folder GPUAAS_HOME names"
_LABELS = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
# Walkthroughs restart Kueue's Deployment and read its log: a simulated pod stands where upstream's manager does.
_MANAGER: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system", "labels": _LABELS},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {
                "containers": [
                    {
                        "name": "manager",
                        "image": "simulated",
                        "command": ["sh", "-c", f"echo '{_WORDS}'; sleep 100000d"],
                    }
                ]
            },
        },
    },
}


@click.command()
@click.option("--clusters", type=click.IntRange(1, _MOST), default=2, show_default=True, help="How many, the hub too.")
@click.option(
    "--name", "names", multiple=True, help="Their names, the hub's first; repeatable.  [default: cluster-01 …]"
)
@click.option("--gpus", type=click.IntRange(0, 1024), default=4, show_default=True, help="GPUs of each worker's node.")
@click.option("--product", default="NVIDIA-L4", show_default=True, help="Their product.")
@click.option("--fleet", "file", default="", help="A fleet (file or built-in) in place of these; its first is the hub.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where kubeconfig-NAME files are written.  [default: this folder]",
)
@click.option("--join/--no-join", default=True, show_default=True, help="Whether the others join the hub.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to serve on.  [default: any]")
def create(
    clusters: int, names: tuple[str, ...], gpus: int, product: str, file: str, out: Path, join: bool, port: int
) -> None:
    """Make clusters on this machine: a hub and its workers, each with a kubeconfig."""
    home = Home.default()
    _refuse_used(home)
    text = _text(file, clusters, names, gpus, product)
    served = _names(text)
    files = {name: (out / f"kubeconfig-{name}").absolute() for name in served}
    if there := [str(path) for path in files.values() if path.exists()]:
        raise WrongOption(f"{', '.join(there)} exists: remove it, or choose another folder with --out")
    home.make()
    home.keep(CREATED, json.dumps({"files": [str(path) for path in files.values()], "clusters": served}))
    home.keep("fleet.yaml", text)
    try:
        _start(home, served, port)
        _write_files(home, files)
        if join and len(served) > 1:
            asyncio.run(_join(files, served[0], served[1:]))
    except BaseException:
        _remove(home)  # a fleet that was not made leaves nothing
        raise
    for name, path in files.items():
        click.echo(f"  {'hub' if name == served[0] else 'worker':<8}{name}  export KUBECONFIG={path}")


@click.command()
def delete() -> None:
    """Remove the fleet that create made: its server, its data and its kubeconfig files."""
    home = Home.default()
    if not (home.path / CREATED).exists():
        raise click.ClickException(f"gpuaas fleet create made nothing in {home.path}; another home: GPUAAS_HOME=FOLDER")
    _remove(home)
    click.echo(f"the fleet is deleted; nothing is left in {home.path}")


def _refuse_used(home: Home) -> None:
    if (home.path / CREATED).exists():
        raise click.ClickException(f"{home.path} has a fleet already; gpuaas fleet delete removes it")
    if home.path.exists() and any(home.path.iterdir()):
        words = f"{home.path} is in use; a fleet takes a home of its own"
        raise click.ClickException(f"{words}: GPUAAS_HOME=~/.gpuaas-fleet gpuaas fleet create")


def _text(file: str, clusters: int, names: Sequence[str], gpus: int, product: str) -> str:
    from gpuaas.assembly.fleet import FleetError, fleet_text, read_fleet
    from gpuaas.machinery.yamltext import dump_yaml

    chosen = list(names) or [f"cluster-{number:02}" for number in range(1, clusters + 1)]
    nodes: dict[str, Any] = {"name": "cpu", "cpu": "32", "memory": "128Gi"}
    cards: dict[str, Any] = {"name": "gpu", "cpu": "32", "memory": "128Gi", "gpu": {"product": product, "count": gpus}}
    worker = [nodes, cards] if gpus else [nodes]
    try:
        if file:
            text = fleet_text(file)
        else:
            made = [{"name": name, "nodes": worker if name != chosen[0] else [_HUB_NODE]} for name in chosen]
            text = f"{dump_yaml({'clusters': made})}---\n{dump_yaml(_MANAGER)}"
        read_fleet(text)
    except FleetError as error:
        raise WrongOption(str(error)) from None
    return text


def _names(text: str) -> list[str]:
    from gpuaas.assembly.fleet import read_fleet

    return [each.name for each in read_fleet(text).clusters]


def _start(home: Home, names: Sequence[str], port: int) -> None:
    from gpuaas.cli.up import start_detached

    start_detached(home, names, port)


def _write_files(home: Home, files: dict[str, Path]) -> None:
    from gpuaas.client.kubeconfig import add_context, encode, load

    known = load([home.kubeconfig])
    for name, path in files.items():
        access = known.access(name)
        cluster = {"server": access.server, "certificate-authority-data": encode(access.certificate_authority)}
        add_context(path, name, cluster=cluster, user={"token": access.token}, make_current=True)


async def _join(files: dict[str, Path], hub: str, workers: Sequence[str]) -> None:
    from gpuaas.base.errors import ApiError
    from gpuaas.cli.fleet.membership import admit, cluster_named
    from gpuaas.client.http import from_kubeconfig

    async with from_kubeconfig(files[hub]) as client:
        try:
            for name in workers:
                await admit(client, name, files[name], name, {})
            for name in workers:
                await cluster_named(client, name, "joined", _JOIN_LIMIT)
        except ApiError as error:
            raise click.ClickException(str(error)) from None


def _remove(home: Home) -> None:
    from gpuaas.cli.up import stop

    try:
        made = [Path(each) for each in json.loads((home.path / CREATED).read_text())["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{home.path / CREATED} cannot be read ({error}); remove {home.path} by hand") from None
    running = home.running()
    pid = running.pid if running is not None else home.holder()
    if pid and pid != os.getpid():
        stop(home, pid)
    for path in made:
        path.unlink(missing_ok=True)
    shutil.rmtree(home.path)
