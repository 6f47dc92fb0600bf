"""Waiting for a job: says what happens to it while it happens, and hands back what became of it."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object

_EVERY = 0.3
_SIGNALLED = 137
_NOT_YET = ("waits in its queue", "starts")
_LAST_WORDS = 3.0
_PATIENCE = 3.0  # seconds that nothing happens until it is said why


async def until_done(client: "HttpClient", namespace: str, name: str, *, follow: bool) -> int:
    """The exit code a shell would see: 0, or that of the container that failed."""
    try:
        return await _until_done(client, namespace, name, follow=follow)
    except asyncio.CancelledError:
        click.echo(f"job/{name} goes on (gpuaas cancel {name} -n {namespace} ends it)", err=True)
        raise


async def _until_done(client: "HttpClient", namespace: str, name: str, *, follow: bool) -> int:
    from gpuaas.base.errors import NotFound
    from gpuaas.cli.jobs import show_logs
    from gpuaas.client.resources import JOBS

    said, since = "", 0.0
    telling: asyncio.Task[None] | None = None
    heard = asyncio.Event()
    while True:
        try:
            job = await client.get(JOBS, name, namespace)
        except NotFound:
            click.echo(f"job/{name} was deleted", err=True)
            return 1
        state, code = outcome(job)
        if state != said:
            click.echo(f"job/{name}: {state}", err=True)
            said, since = state, 0.0
        elif since < _PATIENCE <= since + _EVERY and state in _NOT_YET:
            await _tell_why(client, namespace, name, state)
        since += _EVERY
        if follow and telling is None and state not in _NOT_YET:
            telling = asyncio.create_task(show_logs(client, namespace, f"job/{name}", follow=True, heard=heard.set))
        if code is not None:
            if telling is not None:
                await _last_words(telling, heard)
            return code if code == 0 else await _exit_code(client, namespace, job)
        await asyncio.sleep(_EVERY)


async def _tell_why(client: "HttpClient", namespace: str, name: str, state: str) -> None:
    """Shown once after a while, with the command that explains more."""
    from gpuaas.base.errors import ApiError
    from gpuaas.cli.jobs import explained

    try:
        answer = await explained(client, namespace, f"job/{name}")
    except (ApiError, click.ClickException):
        return
    if answer["reason"] != "Admitted":
        click.echo(f"job/{name}: {state}: {answer['sentence']} (gpuaas why {name} -n {namespace})", err=True)


async def _last_words(telling: "asyncio.Task[None]", heard: asyncio.Event) -> None:
    """The job is over: what it wrote is still coming, and some servers never say that it was all."""
    while not telling.done():
        heard.clear()
        await asyncio.wait({telling}, timeout=_LAST_WORDS)
        if not heard.is_set():
            break
    if telling.done():
        await telling
    else:
        telling.cancel()
        await asyncio.wait({telling})


def outcome(job: "Object") -> tuple[str, int | None]:
    """What a job does, in a few words; with a code once it is over."""
    status = job.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["status"] != "True":
            continue
        if condition["type"] == "Complete":
            return "has succeeded", 0
        if condition["type"] == "Failed":
            return f"has failed ({condition.get('reason', '')}: {condition.get('message', '')})", 1
    if (job.get("spec") or {}).get("suspend"):
        return "waits in its queue", None
    return ("runs" if status.get("ready") or status.get("succeeded") or status.get("failed") else "starts"), None


async def _exit_code(client: "HttpClient", namespace: str, job: "Object") -> int:
    from gpuaas.client.resources import PODS

    pods = (await client.list(PODS, namespace, labels=f"job-name={job['metadata']['name']}")).items
    return next((code for pod in pods if (code := failed_with(pod))), 1)


def failed_with(pod: dict[str, Any]) -> int:
    """The exit code of the first container that failed; 0 where none did."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return int(ended["exitCode"]) if 0 < int(ended["exitCode"]) < 256 else _SIGNALLED
    return 0
