"""What the people's commands share: how they reach a cluster.

The cluster is the one `--kubeconfig`, `$KUBECONFIG` or the embedded home names, in this order; nothing here knows which
kind it is.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuaas.cli.show import ALL_OF_IT, how_to_print, show

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

T = TypeVar("T")
Command = Callable[..., Any]
_OF_THE_FLEET = frozenset({"nodes", "clusterqueues", "resourceflavors", "preemptions"})  # what --fleet shows
_MORE = {
    401: "; its token is not known here (any more)",
    404: "; is Kueue installed there, and is the address in the kubeconfig a cluster's?",
}


class WrongOption(click.ClickException):
    """As wrong as what click itself finds wrong, with its exit code; but how the command is written is not the question."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster, and which namespace of it."""

    kubeconfig: Path | None
    context: str
    namespace: str
    output: str

    def show(self, value: Any, in_words: Callable[[], None]) -> None:
        show(self.output, value, in_words)

    def work(self, job: "Callable[[HttpClient, str], Awaitable[T]]") -> T:
        """Runs `job(client, namespace)`; what goes wrong becomes one line for a person."""
        import asyncio

        from gpuaas.base.errors import ApiError
        from gpuaas.client.http import HttpClient
        from gpuaas.client.kubeconfig import KubeconfigError

        async def run() -> T:
            access = self._access()
            async with HttpClient(access, _clock()) as client:
                client.on_warning = _warned_once()
                return await job(client, self.namespace or access.namespace)

        try:
            return asyncio.run(run())
        except (ApiError, KubeconfigError) as error:
            raise click.ClickException(one_line(str(error)) + self._hint(error)) from None
        except (OSError, TimeoutError) as error:
            words = str(error) or "nothing came in time"
            raise click.ClickException(
                f"the cluster does not answer: {words} (does it run? gpuaas status; start one: gpuaas up -d)"
            ) from None

    def _hint(self, error: Exception) -> str:
        from gpuaas.client.kubeconfig import KubeconfigError

        if isinstance(error, KubeconfigError) and self.kubeconfig is None and "there is no kubeconfig" in str(error):
            return "; start a cluster with gpuaas up -d, or name one with --kubeconfig"
        if getattr(error, "details", {}).get("name"):
            return ""  # of one object: the message says all there is
        if getattr(error, "code", 0) == 403 and getattr(error, "details", {}).get("kind") in _OF_THE_FLEET:
            return "; gpuaas user add --fleet makes a user who may"
        return _MORE.get(getattr(error, "code", 0), "")

    @property
    def flags(self) -> str:
        """What a command that is proposed needs to reach the same place."""
        from shlex import quote

        named = {
            "--kubeconfig": str(self.kubeconfig or ""),
            "--context": self.context,
            "-n": self.namespace,
        }
        return "".join(f" {flag} {quote(value)}" for flag, value in named.items() if value)

    def is_here(self) -> bool:
        """Whether the cluster's server is reached on this very machine, so that its folders are ours."""
        from urllib.parse import urlsplit

        return (urlsplit(self._access().server).hostname or "") in ("127.0.0.1", "::1", "localhost")

    def _access(self) -> Any:
        from gpuaas.client.kubeconfig import load

        return load(_paths(self.kubeconfig)).access(self.context)


def _warned_once() -> Callable[[str], None]:
    """What the server warns of, as kubectl shows it; said of many objects, once."""
    said: set[str] = set()

    def warn(words: str) -> None:
        if words not in said:
            click.echo(f"Warning: {words}", err=True)
        said.add(words)

    return warn


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


def on_a_cluster(*forms: str, objects: bool = True) -> Callable[[Command], Command]:
    """Adds --kubeconfig, --context, -n and -o; the command gets a `Target` first. What can be an object goes as one."""

    def decorate(command: Command) -> Command:
        @click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="The file that says how to reach the cluster.  [default: $KUBECONFIG, else the embedded one]",
        )
        @click.option("--context", default="", help="Which of its contexts.  [default: the current one]")
        @click.option("-n", "--namespace", default="", help="The namespace.  [default: the context's]")
        @how_to_print(*ALL_OF_IT * objects, *forms)
        @wraps(command)
        def run(kubeconfig: Path | None, context: str, namespace: str, output: str, **rest: Any) -> Any:
            _check_namespace(namespace)
            return command(Target(kubeconfig, context, namespace, output), **rest)

        return run

    return decorate


def _check_namespace(name: str) -> None:
    """It becomes a part of addresses: one that is no name would ask for something else."""
    from gpuaas.base.names import is_dns1123_label

    if name and is_dns1123_label(name):
        raise WrongOption(f'--namespace "{one_line(name)}": lower case letters, digits and "-", such as team-a')


def one_line(message: str) -> str:
    return " ".join(message.split())
