"""`gpuaas user add|list|rm`: access for people, one command each.

A user is a token (kept as a hash in the home) and a binding to a role in the cluster; both carry the user's name, so
that both go together.
"""

import asyncio
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from gpuaas.assembly.home import Home, Running
from gpuaas.cli.context import WrongOption
from gpuaas.cli.show import ALL_OF_IT, Columns, how_to_print, show
from gpuaas.cli.trusted import ask_about_processes

T = TypeVar("T")
USER_LABEL = "gpuaas.dev/user"
_LONGEST = 36_500 * 86_400  # seconds; later there are no dates to show
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@click.group()
def user() -> None:
    """Give people access: add, list, rm."""


@user.command()
@click.argument("name")
@click.option("--role", default="edit", show_default=True, help="A cluster role: view, edit, admin, cluster-admin, ...")
@click.option(
    "-n", "--namespace", default="", help="Only in this namespace, made if it is missing.  [default: everywhere]"
)
@click.option(
    "--processes",
    is_flag=True,
    help="May also run processes on this machine, as you (what gpuaas run submits); that hands over the machine.",
)
@click.option("-y", "--yes", is_flag=True, help="With --processes: do not ask.")
@click.option("--fleet", is_flag=True, help="May also see nodes, quotas, priorities and the ledger; not others' jobs.")
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="A group the user is in, for role bindings; repeatable."
)
@click.option("--cluster", default="", help="Which cluster.  [default: the first]")
@click.option("--expires", default="", help="How long the token is good: 12h, 30d, 8w.  [default: for ever]")
@click.option(
    "--server",
    default="",
    help="The address for the kubeconfig, where people reach this machine by another.  [default: its own]",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write the kubeconfig to.  [default: it is printed]",
)
def add(
    name: str,
    role: str,
    namespace: str,
    processes: bool,
    yes: bool,
    fleet: bool,
    groups: tuple[str, ...],
    cluster: str,
    expires: str,
    server: str,
    out: Path | None,
) -> None:
    """Make a user: prints the token, once, and a kubeconfig."""
    from gpuaas.assembly import people
    from gpuaas.client.kubeconfig import KubeconfigError

    seconds = _seconds(expires)
    home, running = _running()
    if out is not None and not out.absolute().parent.is_dir():
        raise WrongOption(f"--out {out}: there is no folder {out.absolute().parent}")
    cluster = cluster or running.clusters[0]
    if cluster not in running.clusters:
        raise click.ClickException(f'there is no cluster "{cluster}"; there are: {", ".join(running.clusters)}')
    if processes:
        ask_about_processes(name, home, yes=yes)
    roles = (role, people.PROCESS_ROLE) if processes else (role,)
    url = server or running.url
    made = _done(people.add(home, name, roles, namespace, cluster, seconds, url, fleet=fleet, groups=groups))
    where = f"namespace {namespace}" if namespace else "all namespaces"
    may = f"{role} and processes on this machine" if processes else role
    click.echo(f"user {name}: {may} in {where} of cluster {cluster}", err=True)
    if not made.has_queue:
        words = f"namespace {namespace} has no queue: no job can be submitted there before it has a LocalQueue"
        click.echo(f"warning: {words}", err=True)
    click.echo(f"token: {made.token}")
    if out is not None:
        try:
            people.write_kubeconfig(out, made)
        except (OSError, KubeconfigError) as error:
            raise click.ClickException(f"the user is made, but the kubeconfig is not written: {error}") from None
        click.echo(f"kubeconfig: {out}")
    else:
        click.echo("kubeconfig:")
        click.echo(people.kubeconfig_text(made))


@user.command(name="list")
@how_to_print(*ALL_OF_IT)
def list_(output: str) -> None:
    """Who has access, to what, and until when."""
    from gpuaas.assembly import people

    home, running = _running()
    rows = _done(people.listed(home, running.clusters))
    show(output, rows, Columns(("name", "groups", "role", "where", "expires")).table(rows).print)


@user.command()
@click.argument("name")
def rm(name: str) -> None:
    """Take a user's access away, at once."""
    from gpuaas.assembly import people

    home, running = _running()
    if not _done(people.remove(home, name, running.clusters)):
        raise click.ClickException(f'there is no user "{name}"')
    click.echo(f"user {name} is gone")


def _running() -> tuple[Home, Running]:
    home = Home.default()
    running = home.running()
    if running is None:
        raise click.ClickException(f"gpuaas does not run (home {home.path}); start it with: gpuaas up -d")
    return home, running


def _done(work: Coroutine[Any, Any, T]) -> T:
    """What goes wrong becomes one line for a person."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.kubeconfig import KubeconfigError

    try:
        return asyncio.run(work)
    except (ValueError, ApiError, KubeconfigError) as error:
        raise click.ClickException(str(error)) from None


def _seconds(text: str) -> float | None:
    if not text:
        return None
    found = re.fullmatch(r"([0-9]+)([smhdw])", text)
    if not found or not int(found[1]):
        raise WrongOption(f'--expires "{text}" is no length of time; 12h, 30d and 8w are')
    seconds = int(found[1]) * _UNITS[found[2]]
    if seconds > _LONGEST:
        raise WrongOption(f'--expires "{text}" is too long: 36500d at most; for ever without it')
    return seconds
