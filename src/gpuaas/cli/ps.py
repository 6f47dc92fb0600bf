"""`gpuaas ps`: the jobs in the queues; as they are, or as they change."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster
from gpuaas.cli.owners import Whose, of_a_user
from gpuaas.cli.show import ALL_OF_IT, Columns, Table, room

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

Row = dict[str, Any]
_OVER = ("Succeeded", "Failed")
_EVERY = 1.0  # seconds between looks
_COLUMNS = ("job", "owner", "queue", "state", "position", "gpus", "age")
_WIDE = ("clusterQueue", "flavors", "nodes", "priority", "workload")


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of every namespace.")
@click.option("--finished", is_flag=True, help="Those that have finished, too.")
@click.option("-w", "--watch", is_flag=True, help="Go on, with a line for each job that changes, until Ctrl-C.")
@of_a_user
@on_a_cluster("wide", "name")
def ps(target: Target, all_namespaces: bool, finished: bool, watch: bool, user: Whose) -> None:
    """The jobs in the queues: who made them, state, place in the queue, GPUs, age."""
    if watch:
        _watch(target, everywhere=all_namespaces, finished=finished, user=user)
        return
    placed = target.output in ("wide", *ALL_OF_IT)

    async def look(client: "HttpClient", namespace: str) -> tuple[list[Row], int]:
        owner = await user.name(client)
        return await listed(client, namespace, everywhere=all_namespaces, placed=placed, finished=finished, owner=owner)

    rows, elsewhere = target.work(look)

    def in_words() -> None:
        if target.output == "name":
            for row in rows:
                click.echo(row["job"])
        elif rows:
            ps_table(rows, namespaces=all_namespaces, wide=placed).print()
        else:
            click.echo("no jobs" if finished else "no jobs wait or run (finished ones: gpuaas ps --finished)")
            if elsewhere:
                click.echo(f"other namespaces have {elsewhere} (gpuaas ps -A)", err=True)

    target.show(rows, in_words)


def _unfinished(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["state"] not in _OVER]


def _watch(target: Target, *, everywhere: bool, finished: bool, user: Whose) -> None:
    if target.output not in ("text", "wide"):
        raise click.UsageError(f"--watch writes a line for each change: -o text or wide, not {target.output}")
    wide = target.output == "wide"

    async def follow(client: "HttpClient", namespace: str) -> None:
        seen: list[Row] | None = None
        owner = await user.name(client)
        while True:
            rows, _ = await listed(client, namespace, everywhere=everywhere, placed=wide, owner=owner)
            news = [*changes(seen, rows)] if seen is not None else rows if finished else _unfinished(rows)
            as_wide_as_all = ps_table([*news, *rows], namespaces=everywhere, wide=wide)
            for line in as_wide_as_all.lines(room())[seen is not None : 1 + len(news)]:
                click.echo(line)
            seen = rows
            await asyncio.sleep(_EVERY)

    target.work(follow)


def changes(before: list[Row], now: list[Row]) -> Iterator[Row]:
    """Those that are new or otherwise than before, but for growing older; and those that have gone."""
    known = {(row["namespace"], row["workload"]): {**row, "age": ""} for row in before}
    for row in now:
        if known.pop((row["namespace"], row["workload"]), None) != {**row, "age": ""}:
            yield row
    gone = known.keys()
    yield from ({**row, "state": "Deleted"} for row in before if (row["namespace"], row["workload"]) in gone)


def ps_table(rows: list[Row], *, namespaces: bool, wide: bool = False) -> Table:
    columns = Columns(
        ("namespace",) * namespaces + _COLUMNS,
        _WIDE,
        spare=("owner", "queue", "age"),
        headings={"position": "POS", "owner": "USER"},
    )
    return columns.table(rows, wide=wide)


async def listed(
    client: "HttpClient",
    namespace: str,
    *,
    everywhere: bool,
    placed: bool = False,
    finished: bool = True,
    owner: str = "",
) -> tuple[list[Row], int]:
    """What `ps` shows, and how many unfinished jobs other namespaces have. With `placed` also where their pods are;
    with `owner` only jobs of this user."""
    from gpuaas.base.clock import SystemClock
    from gpuaas.views import read

    rows, elsewhere = await read.jobs(
        client, namespace, everywhere=everywhere, finished=finished, nodes=placed, owner=owner
    )
    now = SystemClock().now()
    return [row.shown(now) for row in rows], elsewhere
