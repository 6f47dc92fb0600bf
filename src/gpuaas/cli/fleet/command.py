"""The group `gpuaas fleet` and the commands about clusters that run already: list, describe, join, leave, drain."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuaas.cli.context import Target, WrongOption, on_a_cluster
from gpuaas.cli.fleet.lifecycle import create, delete
from gpuaas.cli.fleet.look import describe, list_clusters
from gpuaas.cli.fleet.membership import admit, cluster_named, drained, gone, running_on, tolerating

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient


@click.group()
def fleet() -> None:
    """Many clusters: create, join, leave, list, describe, drain, delete."""


fleet.add_command(create)
fleet.add_command(delete)
fleet.add_command(list_clusters)
fleet.add_command(describe)


@fleet.command()
@click.argument("name")
@click.option(
    "--from",
    "source",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    required=True,
    help="The kubeconfig of the cluster that joins, with the rights of an admin; used once and not kept.",
)
@click.option("--from-context", default="", help="Which of its contexts.  [default: the current one]")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the ManagedCluster; repeatable."
)
@click.option("--wait", default=60.0, show_default=True, help="Seconds to wait until MultiKueue is connected; 0: none.")
@on_a_cluster()
def join(target: Target, name: str, source: Path, from_context: str, labels: tuple[str, ...], wait: float) -> None:
    """Add a cluster to the hub: accounts, roles, secrets and queues are made by themselves."""
    from gpuaas.base.names import is_dns1123_label

    if is_dns1123_label(name):
        raise WrongOption(f'"{name}" cannot name a cluster: lower case letters, digits and "-"')
    wanted = dict(_pair(each) for each in labels)

    async def run(client: "HttpClient", _: str) -> None:
        await admit(client, name, source, from_context, wanted)
        click.echo(f"cluster {name} joins {client.access.context}")
        if wait:
            await cluster_named(client, name, "joined", wait)

    target.work(run)


@fleet.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also while jobs run there: the hub loses sight of them.")
@click.option("--wait", default=60.0, show_default=True, help="Seconds to wait until it has gone; 0: none.")
@on_a_cluster()
def leave(target: Target, name: str, force: bool, wait: float) -> None:
    """Take a cluster off the hub, and what the hub made there off the cluster."""

    async def run(client: "HttpClient", _: str) -> None:
        running = await running_on(client, name)
        if running and not force:
            words = f"{len(running)} jobs run there, {running[0]} first"
            raise click.ClickException(f"{words}; gpuaas fleet drain {name}, wait for them, or leave with --force")
        await gone(client, name, wait)

    target.work(run)
    click.echo(f"cluster {name} has left")


@fleet.command()
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let new jobs go there again.")
@on_a_cluster()
def drain(target: Target, name: str, undo: bool) -> None:
    """Send no new jobs to a cluster; what runs there is finished there."""

    async def run(client: "HttpClient", _: str) -> tuple[list[str], list[str]]:
        await drained(client, name, on=not undo)
        return await running_on(client, name), await tolerating(client)

    running, tolerated = target.work(run)
    if undo:
        click.echo(f"cluster {name} takes new jobs again")
        return
    words = f"{len(running)} jobs run on and are finished there" if running else "nothing runs there"
    click.echo(f"cluster {name} takes no new jobs; {words}")
    for each in tolerated:
        click.echo(f"warning: Placement {each} tolerates the taint and may still choose {name}", err=True)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise WrongOption(f'--label "{text}": KEY=VALUE, such as accelerator=nvidia-l4')
    return key, value
