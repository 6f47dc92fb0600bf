"""`gpuaas mcp`: the commands as tools of the Model Context Protocol, for agents, over standard input and output.

Each tool runs one gpuaas command with the kubeconfig of this process, so an agent may do what its user may do and sees
the same rows. A command that fails answers with its message. The SDK is the extra `mcp`.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import click

from gpuaas.cli.context import Target, on_a_cluster

Run = Callable[[Sequence[str]], Awaitable[str]]

_LONGEST: Final = 100_000  # characters of an answer; the rest is cut with a note
_PATIENCE: Final = 60.0
_LINES: Final = 200
_INSTRUCTIONS: Final = (
    "Submits and explains GPU jobs. Look at gpus or profiles first, submit, then follow with jobs, why and logs."
)


@click.command()
@on_a_cluster(objects=False)
def mcp(target: Target) -> None:
    """Serve the commands as tools for agents (Model Context Protocol), on standard input and output."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise click.ClickException("the MCP SDK is missing: pip install 'gpuaas[mcp]'") from None
    server = MCPServer("gpuaas", instructions=_INSTRUCTIONS)
    for tool in tools(lambda arguments: _command([arguments[0], *_where(target), *arguments[1:]], ToolError)):
        server.add_tool(tool)
    server.run("stdio")


def tools(run: Run) -> tuple[Callable[..., Awaitable[str]], ...]:
    """The tools over `run`, which runs a command and returns what it printed. Their docstrings are shown to agents."""

    async def gpus() -> str:
        """GPUs by product: total, used, free, the most on one node, and how many are free for you."""
        return await run(["gpus", "-o", "json"])

    async def queues(namespace: str = "") -> str:
        """Quotas by queue, flavor and resource: nominal, used, borrowed, waiting."""
        return await run(["queues", "-o", "json", *_in(namespace)])

    async def profiles(namespace: str = "") -> str:
        """Hardware profiles: what one gets, the queue, and how many are free for you."""
        return await run(["profiles", "-o", "json", *_in(namespace)])

    async def jobs(namespace: str = "") -> str:
        """Unfinished jobs with state, position, GPUs and owner; of one namespace or the kubeconfig's."""
        return await run(["ps", "-o", "json", *_in(namespace)])

    async def submit(
        command: list[str], gpus: str = "", profile: str = "", name: str = "", namespace: str = "", queue: str = ""
    ) -> str:
        """Submit a command as a queued job. `gpus` is N or PRODUCT:N; `profile` names a hardware profile instead."""
        chosen = {"--gpus": gpus, "--profile": profile, "--name": name, "--queue": queue}
        options = [part for option, value in chosen.items() if value for part in (option, value)]
        return await run(["run", *options, *_in(namespace), "--", *command])

    async def why(job: str, namespace: str = "") -> str:
        """Why a job waits: one reason, the evidence, and ways out."""
        return await run(["why", "-o", "json", *_in(namespace), "--", job])

    async def logs(job: str, namespace: str = "", lines: int = _LINES) -> str:
        """The last lines that a job wrote."""
        return await run(["logs", "--tail", str(max(0, lines)), *_in(namespace), "--", job])

    async def cancel(job: str, namespace: str = "") -> str:
        """Delete a job and everything it made."""
        return await run(["cancel", *_in(namespace), "--", job])

    return gpus, queues, profiles, jobs, submit, why, logs, cancel


def _in(namespace: str) -> list[str]:
    return ["-n", namespace] if namespace else []


def _where(target: Target) -> list[str]:
    """The options that name the cluster of this process."""
    kubeconfig = ["--kubeconfig", str(target.kubeconfig)] if target.kubeconfig is not None else []
    return [*kubeconfig, *(["--context", target.context] if target.context else [])]


async def _command(arguments: Sequence[str], failure: type[Exception]) -> str:
    """What the command printed; `failure` with its message where it failed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpuaas", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        raise failure(f"gpuaas {arguments[0]} did not answer within {_PATIENCE:.0f} s") from None
    if process.returncode:
        raise failure(errors.decode(errors="replace").strip()[:_LONGEST] or "the command failed")
    text = output.decode(errors="replace")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n(cut after {_LONGEST} characters)"
