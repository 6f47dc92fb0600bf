"""`gpuaas top`: quotas, GPUs and jobs at a glance; live on a terminal, once where the output goes elsewhere."""

import shutil
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster
from gpuaas.cli.owners import Whose, of_a_user
from gpuaas.cli.show import room as room_there_is

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

Look = Callable[["HttpClient", str], Awaitable[dict[str, Any]]]
_ORDER = {"Running": 0, "Admitted": 1, "Evicted": 2, "Reserved": 3, "Pending": 4}


@click.command()
@click.option("--every", type=click.FloatRange(min=0.5), default=2.0, show_default=True, help="Seconds between looks.")
@click.option("--once", is_flag=True, help="Look once, also on a terminal.")
@of_a_user
@on_a_cluster()
def top(target: Target, every: float, once: bool, user: Whose) -> None:
    """Quotas, GPUs and jobs, live. End it with Ctrl-C."""
    look = partial(_look, user)
    seen = target.work(look)

    def in_words() -> None:
        if once or not sys.stdout.isatty():
            click.echo("\n".join(screen(seen, room=room_there_is(), height=0)))
        else:
            _live(target, look, seen, every)

    target.show(seen, in_words)


def _live(target: Target, look: Look, seen: dict[str, Any], every: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console, tick = Console(), threading.Event()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                size = shutil.get_terminal_size()
                lines = screen(seen, room=size.columns, height=size.lines)
                live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
                tick.wait(every)  # it is never set: it only waits
                seen = target.work(look)
    except KeyboardInterrupt:
        return


async def _look(user: Whose, client: "HttpClient", namespace: str) -> dict[str, Any]:
    from gpuaas.base.errors import ApiError
    from gpuaas.cli.ps import listed
    from gpuaas.cli.queues import gpu_rows, queue_rows

    owner = await user.name(client)
    rows, _ = await listed(client, namespace, everywhere=True, finished=False, owner=owner)
    jobs = [row for row in rows if row["state"] in _ORDER]
    found: dict[str, Any] = {"jobs": sorted(jobs, key=lambda row: (_ORDER[row["state"]], row["position"] or 0))}
    for name, ask in (("gpus", gpu_rows), ("queues", queue_rows)):
        try:
            found[name] = await ask(client)
        except ApiError as error:
            if error.code != 403:
                raise
            found[name] = []
    return found


def screen(seen: dict[str, Any], *, room: int, height: int) -> list[str]:
    """The whole picture as lines; 0 for as much room as it takes."""
    from gpuaas.cli.ps import ps_table
    from gpuaas.cli.queues import GPU_COLUMNS, QUEUE_COLUMNS

    lines = [_summary(seen)]
    in_use = [row for row in seen["queues"] if row["nominal"] != "0" or row["used"] != "0"]
    telling = [row for row in in_use if row["resource"] not in ("cpu", "memory")] or in_use
    for columns, rows in ((GPU_COLUMNS, seen["gpus"]), (QUEUE_COLUMNS, telling)):
        if rows:
            lines += ["", *columns.table(rows).lines(room)]
    if seen["jobs"]:
        lines += ["", *ps_table(seen["jobs"], namespaces=True).lines(room)]
    if height and len(lines) > height - 1:
        lines = [*lines[: height - 2], f"… {len(lines) - height + 2} more lines (gpuaas ps -A, gpuaas queues)"]
    return lines


def _summary(seen: dict[str, Any]) -> str:
    # In whole cards: a slice is not a GPU.
    total, used = (round(sum(float(row[name] or 0) for row in seen["gpus"]), 1) for name in ("cards", "cardsUsed"))
    total, used = (int(number) if number == int(number) else number for number in (total, used))
    shown = f"{total}" if any(row["used"] is None for row in seen["gpus"]) else f"{used} of {total} in use"
    running = sum(row["state"] in ("Running", "Admitted") for row in seen["jobs"])
    waiting = sum(row["state"] in ("Pending", "Reserved") for row in seen["jobs"])
    gpus = f"GPUs: {shown} · " if seen["gpus"] else ""  # there are none, or they are not to be seen
    return f"{gpus}jobs: {running} admitted, {waiting} waiting"
