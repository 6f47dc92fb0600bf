"""What the people's commands share: how they reach a cluster, and how they print.

The cluster is the one `--kubeconfig`, `$KUBECONFIG` or the embedded home names, in this order; nothing here knows which
kind it is. Tables are plain text that fits a terminal; colour only where a terminal is.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

T = TypeVar("T")
Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster, and which namespace of it."""

    kubeconfig: Path | None
    context: str
    namespace: str
    output: str

    def work(self, job: "Callable[[HttpClient, str], Awaitable[T]]") -> T:
        """Runs `job(client, namespace)`; what goes wrong becomes one line for a person."""
        from gpuaas.base.errors import ApiError
        from gpuaas.client.http import HttpClient
        from gpuaas.client.kubeconfig import KubeconfigError

        async def run() -> T:
            access = self._access()
            async with HttpClient(access, _clock()) as client:
                return await job(client, self.namespace or access.namespace)

        try:
            return asyncio.run(run())
        except (ApiError, KubeconfigError) as error:
            raise click.ClickException(str(error)) from None
        except (OSError, TimeoutError) as error:
            raise click.ClickException(f"the cluster does not answer: {str(error) or type(error).__name__}") from None
        except KeyboardInterrupt:
            raise click.Abort from None

    def _access(self) -> Any:
        from gpuaas.client.kubeconfig import load

        return load(_paths(self.kubeconfig)).access(self.context)


def _clock() -> Any:
    from gpuaas.base.clock import SystemClock

    return SystemClock()


def _paths(named: Path | None) -> list[Path] | None:
    if named is not None:
        return [named]
    if os.environ.get("KUBECONFIG"):
        return None  # as kubectl reads it
    from gpuaas.assembly.home import Home

    embedded = Home.default().kubeconfig
    return [embedded] if embedded.exists() else None


def on_a_cluster(*outputs: str) -> Callable[[Command], Command]:
    """Adds --kubeconfig, --context, -n and -o; the command gets a `Target` first."""

    def decorate(command: Command) -> Command:
        @click.option(
            "--kubeconfig", type=click.Path(path_type=Path), help="Default: $KUBECONFIG, else the embedded one."
        )
        @click.option("--context", default="", help="Which of its contexts.")
        @click.option("-n", "--namespace", default="", help="Default: the context's.")
        @click.option("-o", "--output", type=click.Choice(["text", *outputs]), default="text", help="How to print.")
        @wraps(command)
        def run(kubeconfig: Path | None, context: str, namespace: str, output: str, **rest: Any) -> Any:
            return command(Target(kubeconfig, context, namespace, output), **rest)

        return run

    return decorate


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns as wide as needed; the last one gives way when the terminal is too narrow."""
    texts = [tuple(headers), *(tuple("" if cell is None else str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[index]) for row in texts) for index in range(len(headers))]
    room = shutil.get_terminal_size((200, 24)).columns if sys.stdout.isatty() else 10_000
    before = sum(widths[:-1]) + 3 * (len(widths) - 1)
    widths[-1] = max(8, min(widths[-1], room - before))
    for row in texts:
        last = row[-1] if len(row[-1]) <= widths[-1] else row[-1][: widths[-1] - 1] + "…"
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        click.echo("   ".join([*cells, last]).rstrip())
