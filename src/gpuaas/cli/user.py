"""`gpuaas user add|list|rm`: access for people, one command each.

A user is a token (kept as a hash in the home) and a binding to a role in the cluster; both carry the user's name, so
that both go together.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import click

from gpuaas.assembly.home import Home, Running

USER_LABEL = "gpuaas.dev/user"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@click.group()
def user() -> None:
    """Give people access: add, list, rm."""


@user.command()
@click.argument("name")
@click.option("--role", default="edit", show_default=True, help="A cluster role: view, edit, admin, cluster-admin, ...")
@click.option("-n", "--namespace", default="", help="Only in this namespace (made if missing); everywhere without it.")
@click.option(
    "--processes", is_flag=True, help="May also run processes on this machine, as you: what gpuaas run submits."
)
@click.option("--fleet", is_flag=True, help="May also see nodes, quotas, priorities and the ledger; not others' jobs.")
@click.option("--cluster", default="", help="Which cluster; default: the first.")
@click.option("--expires", default="", help="How long the token is good: 12h, 30d; for ever without it.")
@click.option(
    "--server", default="", help="The address to put into the kubeconfig, where it is not this machine's own."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the kubeconfig there.")
def add(
    name: str,
    role: str,
    namespace: str,
    processes: bool,
    fleet: bool,
    cluster: str,
    expires: str,
    server: str,
    out: Path | None,
) -> None:
    """Make a user: prints the token, once, and a kubeconfig."""
    from gpuaas.assembly import people
    from gpuaas.base.errors import ApiError
    from gpuaas.client.kubeconfig import KubeconfigError

    home, running = _running()
    if out is not None and not out.absolute().parent.is_dir():
        raise click.ClickException(f"--out {out}: there is no folder {out.absolute().parent}")
    cluster = cluster or running.clusters[0]
    if cluster not in running.clusters:
        raise click.ClickException(f'there is no cluster "{cluster}"; there are: {", ".join(running.clusters)}')
    try:
        seconds = _seconds(expires)
        roles = (role, people.PROCESS_ROLE) if processes else (role,)
        url = server or running.url
        made = asyncio.run(people.add(home, name, roles, namespace, cluster, seconds, url, fleet=fleet))
    except (ValueError, ApiError) as error:
        raise click.ClickException(str(error)) from None
    where = f"namespace {namespace}" if namespace else "all namespaces"
    may = f"{role} and processes on this machine" if processes else role
    click.echo(f"user {name}: {may} in {where} of cluster {cluster}", err=True)
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
@click.option("-o", "output", type=click.Choice(["text", "json"]), default="text")
def list_(output: str) -> None:
    """Who has access, to what, and until when."""
    from gpuaas.assembly import people

    home, running = _running()
    rows = asyncio.run(people.listed(home, running.clusters))
    if output == "json":
        click.echo(json.dumps(rows))
        return
    _table(
        ("NAME", "ROLE", "WHERE", "EXPIRES"), [(row["name"], row["role"], row["where"], row["expires"]) for row in rows]
    )


@user.command()
@click.argument("name")
def rm(name: str) -> None:
    """Take a user's access away, at once."""
    from gpuaas.assembly import people

    home, running = _running()
    if not asyncio.run(people.remove(home, name, running.clusters)):
        raise click.ClickException(f'there is no user "{name}"')
    click.echo(f"user {name} is gone")


def _running() -> tuple[Home, Running]:
    home = Home.default()
    running = home.running()
    if running is None:
        raise click.ClickException(f"gpuaas does not run (home {home.path}); start it with: gpuaas up -d")
    return home, running


def _seconds(text: str) -> float | None:
    if not text:
        return None
    found = re.fullmatch(r"(\d+)([smhdw])", text)
    if not found or not int(found[1]):
        raise ValueError(f'"{text}" is no length of time; 12h, 30d and 8w are')
    return int(found[1]) * _UNITS[found[2]]


def _table(headers: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    texts = [headers, *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[index]) for row in texts) for index in range(len(headers))]
    for row in texts:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
