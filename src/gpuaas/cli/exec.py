"""`exec` and `port-forward`: a command beside a job's own, and a port of it on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, WrongOption, on_a_cluster

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.streams import RemoteCommand

_SHELL = ("sh", "-c", 'exec "${SHELL:-sh}"')
_PIECE = 32 * 1024
_LAST_PORT = 65535


class _BeforeTheDashes(click.Command):
    """Where there is a "--", options may stand on both sides of JOB; without one, all after JOB is the command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = "--" in args
        ctx.ignore_unknown_options = "--" not in args
        return super().parse_args(ctx, args)


@click.command(name="exec", cls=_BeforeTheDashes)
@click.option("-i", "--stdin", is_flag=True, help="Pass on what comes from standard input.")
@click.option("-t", "--tty", is_flag=True, help="As a terminal.")
@click.option("-c", "--container", default="", help="Of a pod with several.")
@click.argument("job")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@on_a_cluster(objects=False)
def exec_(target: Target, job: str, words: tuple[str, ...], stdin: bool, tty: bool, container: str) -> None:
    """Run a command beside JOB's own: in its folder, with its environment and its cards.

    JOB is a name, kind/name, or a pod. Without a command it is a shell in this terminal. What the command leaves running
    ends with it. The exit code is the command's.
    """
    command = list(words[1:] if words[:1] == ("--",) else words)
    if command and command[0].startswith("-"):
        raise WrongOption(f'"{command[0]}": options stand before the job, or before a "--": gpuaas exec JOB -- COMMAND')
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not command:
        command, stdin, tty = list(_SHELL), True, True
    if tty and not terminal:
        tty = False
        if not words:
            raise WrongOption("a shell needs a terminal: name a command, as in gpuaas exec JOB -- nvidia-smi")

    async def act(client: HttpClient, namespace: str) -> tuple[int, str]:
        from gpuaas.client.streams import RemoteCommand

        pod = await running_pod(client, namespace, job)
        chosen = container or str(pod["spec"]["containers"][0]["name"])
        remote = await RemoteCommand.open(
            client, namespace, pod["metadata"]["name"], chosen, command, tty=tty, stdin=stdin
        )
        return await _converse(remote, tty=tty, stdin=stdin), remote.message

    code, message = target.work(act)
    if message:
        click.echo(f"Error: {message}", err=True)
    raise SystemExit(code)


async def _converse(remote: RemoteCommand, *, tty: bool, stdin: bool) -> int:
    loop = asyncio.get_running_loop()
    remote.start()

    def resized() -> None:
        size = os.get_terminal_size(1)
        remote.resize(size.columns, size.lines)

    with _raw() if tty else contextlib.nullcontext():
        if tty:
            resized()
            loop.add_signal_handler(signal.SIGWINCH, resized)
        typing = asyncio.ensure_future(_typed(remote)) if stdin else None
        try:
            await asyncio.gather(_shown(remote, 1), _shown(remote, 2))
            return await remote.ended()
        finally:
            if typing is not None:
                typing.cancel()
            remote.kill()


async def _shown(remote: RemoteCommand, descriptor: int) -> None:
    while data := await remote.read(errors=descriptor == 2):
        await asyncio.to_thread(_write, descriptor, data)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


async def _typed(remote: RemoteCommand) -> None:
    """Read by a thread that nothing waits for: a read of a terminal cannot be called off."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[bytes](4)

    def read() -> None:
        with contextlib.suppress(RuntimeError, OSError):  # the loop has ended
            while True:
                data = os.read(0, _PIECE)
                asyncio.run_coroutine_threadsafe(pieces.put(data), loop).result()
                if not data:
                    return

    threading.Thread(target=read, daemon=True).start()
    with contextlib.suppress(OSError):
        while data := await pieces.get():
            await remote.write(data)
    remote.close_input()


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Keys go to the command, Ctrl-C among them."""
    import termios
    import tty

    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)  # what was typed ahead is kept
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@click.command(name="port-forward")
@click.argument("job")
@click.argument("ports", nargs=-1, required=True, metavar="PORT[:PORT]...")
@on_a_cluster(objects=False)
def port_forward(target: Target, job: str, ports: tuple[str, ...]) -> None:
    """Make ports of JOB's pod ports of this machine, until Ctrl-C.

    8080:80 is port 80 of the pod as 8080 here; 8080 is the same port on both sides; :80 takes any free port here.
    """
    pairs = [_pair(text) for text in ports]

    async def act(client: HttpClient, namespace: str) -> None:
        name = (await running_pod(client, namespace, job))["metadata"]["name"]
        servers = [await _listen(client, namespace, name, here, there) for here, there in pairs]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    target.work(act)


def _pair(text: str) -> tuple[int, int]:
    from gpuaas.base.numbers import natural

    here, colon, there = text.partition(":")
    found = natural(there if colon else here), natural(here) if here else 0
    if None in found or not 0 < (found[0] or 0) <= _LAST_PORT or (found[1] or 0) > _LAST_PORT:
        raise WrongOption(f'"{text[:40]}" is no port: 8080, 8080:80 or :80, each from 1 to {_LAST_PORT}')
    return found[1] or 0, found[0] or 0


async def _listen(client: HttpClient, namespace: str, pod: str, here: int, there: int) -> asyncio.Server:
    from gpuaas.base.errors import ApiError
    from gpuaas.client.streams import Forwarded, forward

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await forward(await Forwarded.open(client, namespace, pod, there), reader, writer)
        except (ApiError, OSError) as error:
            writer.close()
            click.echo(str(error), err=True)

    try:
        server = await asyncio.start_server(serve, "127.0.0.1", here)
    except OSError as error:
        raise click.ClickException(f"port {here} of this machine cannot be had: {error.strerror}") from None
    click.echo(f"127.0.0.1:{server.sockets[0].getsockname()[1]} -> {pod}:{there}")
    return server


async def running_pod(client: HttpClient, namespace: str, job: str) -> dict[str, Any]:
    """The first by name of those of the job that run; or the pod of that name."""
    from gpuaas.base.errors import NotFound
    from gpuaas.cli.queries import pods_and_owners, whose_pods
    from gpuaas.client.resources import PODS
    from gpuaas.kueue.explain.snapshot import Picture, pods_of

    with contextlib.suppress(NotFound):
        if "/" not in job or job.startswith("pod/"):
            return await client.get(PODS, job.removeprefix("pod/"), namespace)
    workload = await whose_pods(client, namespace, job)
    pods, owners = await pods_and_owners(client, namespace)
    mine: Sequence[Any] = pods_of(Picture(pods=pods, owners=owners), workload)
    found = sorted((each for each in mine if _phase(each) == "Running"), key=lambda each: str(each["metadata"]["name"]))
    if not found:
        states = ", ".join(f"{each['metadata']['name']} is {_phase(each)}" for each in mine) or "it has none (yet)"
        raise click.ClickException(f"no pod of {job} runs: {states}; gpuaas why {job} says why")
    return dict(found[0])


def _phase(pod: Any) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))
