"""`gpuaas notebook`: ask for one and get a link that opens it; list, open, stop and start those there are."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from gpuaas.cli.context import Target, WrongOption, on_a_cluster
from gpuaas.cli.get import unmanaged
from gpuaas.cli.run import (
    PROCESS,
    QUEUE_LABEL,
    check_amounts,
    folder_for,
    left_to_profile,
    nodes_of,
    parse_gpus,
    product_named,
    profile_for,
    queue_for,
    warn_of_images,
)
from gpuaas.cli.show import Columns
from gpuaas.client.protocol import Resource

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object

NOTEBOOKS: Final = Resource("kubeflow.org", "v1", "notebooks", True, "Notebook")
STOPPED: Final = "kubeflow-resource-stopped"
BY_KUEUE: Final = "kueue.x-k8s.io/suspended"
_EVERY: Final = 0.3
_PATIENCE: Final = 60.0  # seconds that a notebook may take from its node to its first answer
_QUEUED: Final = 2.0  # seconds in a queue after which the command ends with what it waits for
_COLUMNS: Final = Columns(
    ("notebook", "state", "what", "profile", "gpus", "lastActivity"),
    ("namespace", "queue"),
    spare=("lastActivity", "gpus", "profile"),
    headings={"what": "", "lastActivity": "LAST ACTIVITY"},
)
_PROGRAMS: Final = ("jupyter-lab", "jupyter-notebook", "jupyter-server")
_MODULES: Final = ("jupyterlab", "jupyter_server")


@click.group(invoke_without_command=True)
@click.option("--name", default="notebook", show_default=True, help="What to call it.")
@click.option(
    "--profile", default="", help="The hardware profile, by name or display name: gpuaas profiles lists them."
)
@click.option("--gpus", default="1", show_default=True, help="How many, or PRODUCT:N (H200:2).")
@click.option("--cpu", default="2", show_default=True, help="CPUs.")
@click.option("--memory", default="8Gi", show_default=True, help="Memory.")
@click.option("--queue", default="", help="The LocalQueue to wait in.  [default: default, or the only one]")
@click.option("--image", default="", help="The image it runs; not needed where this machine itself runs it.")
@click.option(
    "-w", "--workdir", default="", help="Where its files are.  [default: a folder of its own, kept when it stops]"
)
@click.option("--no-wait", is_flag=True, help="Return at once, without the link.")
@on_a_cluster()
@click.pass_context
def notebook(context: click.Context, /, target: Target, no_wait: bool, **wanted: Any) -> None:
    """Ask for a notebook with GPUs, and get the link that opens it:  gpuaas notebook --profile l4-1gpu"""
    if context.invoked_subcommand is not None:
        return
    left = left_to_profile(("gpus", "cpu", "memory")) if wanted["profile"] else {}
    check_amounts(wanted)
    wanted |= left
    made = target.work(lambda client, namespace: _make(client, namespace, wanted, here=target.is_here()))
    meta = made["metadata"]
    if target.output != "text":
        target.show(unmanaged(made), lambda: None)
        return
    name, at = f"notebook/{meta['name']}", f" -n {meta['namespace']}" if target.namespace else ""
    click.echo(f"{name} is in queue {meta['labels'][QUEUE_LABEL]} of namespace {meta['namespace']}")
    if no_wait:
        click.echo(f"  gpuaas notebook open {meta['name']}{at} · gpuaas why {name}{at} · gpuaas cancel {name}{at}")
        return
    _until_open(target, meta["name"], at)


async def _make(client: HttpClient, namespace: str, wanted: dict[str, Any], *, here: bool) -> Object:
    from gpuaas.base.errors import AlreadyExists

    profile = await profile_for(client, namespace, wanted["profile"], wanted["queue"])
    queue = profile.queue or await queue_for(client, namespace, wanted["queue"])
    executors, products = await nodes_of(client, namespace)
    local = not wanted["image"] and "process" in executors
    warn_of_images(wanted["image"], executors)
    product, number = parse_gpus(wanted["gpus"] or "0")
    limits = {"nvidia.com/gpu": str(number)} if number else {}
    amounts = {name: wanted[name] for name in ("cpu", "memory") if wanted[name]}
    container: dict[str, Any] = {
        "name": wanted["name"],
        "image": wanted["image"] or ("local-process" if local else "jupyter/minimal-notebook"),
        "resources": {"requests": {**amounts, **limits}, **({"limits": limits} if limits else {})},
    }
    pod: dict[str, Any] = {"containers": [container]}
    if local:
        pod["runtimeClassName"] = PROCESS
        container |= _here(wanted["workdir"]) if here else {}
    elif wanted["workdir"]:
        container["workingDir"] = wanted["workdir"]
    if product:
        pod["nodeSelector"] = {"nvidia.com/gpu.product": product_named(product, products)}
    metadata = {"name": wanted["name"], "namespace": namespace, "labels": {QUEUE_LABEL: queue}, **profile.metadata}
    obj = {"apiVersion": NOTEBOOKS.api_version, "kind": "Notebook", "metadata": metadata}
    obj = profile.applied(("kubeflow.org", "notebooks"), {**obj, "spec": {"template": {"spec": pod}}}, namespace)
    try:
        return await client.create(NOTEBOOKS, obj, namespace)
    except AlreadyExists:
        at, name = f" -n {namespace}", wanted["name"]
        raise click.ClickException(
            f'there is a notebook "{name}" in {namespace}:  gpuaas notebook open {name}{at} · gpuaas notebook start {name}{at}'
            " · another one: --name"
        ) from None


def _here(workdir: str) -> dict[str, Any]:
    """On this machine: the Jupyter that its author would start, and the folder that was asked for."""
    found: dict[str, Any] = {"workingDir": folder_for(workdir, here=True)} if workdir else {}
    program = next((path for each in _PROGRAMS if (path := shutil.which(each))), None)
    if program is not None:
        found["env"] = [{"name": "NB_JUPYTER", "value": program}]
    elif not any(importlib.util.find_spec(each) for each in _MODULES):
        raise click.ClickException(
            f"Jupyter is not installed on this machine; install it:  {sys.executable} -m pip install jupyterlab"
        )
    return found


# -- Opening ------------------------------------------------------------------------------------------------------------


def _until_open(target: Target, name: str, at: str) -> None:
    from gpuaas.base.errors import ApiError

    async def wait(client: HttpClient, namespace: str) -> str:
        try:
            return await _opened(client, namespace, name, at)
        except asyncio.CancelledError:
            click.echo(f"notebook/{name} goes on; its link:  gpuaas notebook open {name}{at}", err=True)
            raise
        except ApiError as error:
            raise click.ClickException(error.message) from None

    link = target.work(wait)
    if link:
        click.echo(link)
        click.echo("  (the link works once, and only on this machine)", err=True)


async def _opened(client: HttpClient, namespace: str, name: str, at: str) -> str:
    """The link, as soon as it leads somewhere; "" where the notebook waits, or nothing runs."""
    said, since, left = "", 0.0, _PATIENCE
    while True:
        row = (await _rows(client, namespace, name))[0]
        words = f"{row['state']}: {row['what']}" if row["what"] else row["state"]
        if words != said:
            click.echo(f"notebook/{name}: {words}", err=True)
            said, since = words, 0.0
        if row["state"] == "Ready":
            if row["simulated"]:
                click.echo(f"notebook/{name} runs on a simulated node: it holds its GPUs, but no program runs to open")
                return ""
            if await _answers(client, namespace, name):
                return await _link(client, namespace, name)
        if row["state"] in ("Failed", "Stopped"):
            raise click.ClickException(f"notebook/{name}: {words}")
        if row["waits"] and since >= _QUEUED:
            click.echo(f"  gpuaas why notebook/{name}{at} · once it runs:  gpuaas notebook open {name}{at}")
            return ""
        since, left = since + _EVERY, left - (0 if row["waits"] else _EVERY)
        if left <= 0:
            raise click.ClickException(f"notebook/{name} does not become ready; see:  gpuaas logs notebook/{name}{at}")
        await asyncio.sleep(_EVERY)


async def _answers(client: HttpClient, namespace: str, name: str) -> bool:
    """Whether its server does: a pod is ready before the program in it is."""
    from gpuaas.base.errors import ApiError

    try:
        await client.raw("GET", f"/notebook/{namespace}/{name}/api", accept="*/*")
    except ApiError as error:
        if error.code == 503:
            return False
    return True


async def _link(client: HttpClient, namespace: str, name: str) -> str:
    return str((await link(client, namespace, name))["url"])


async def link(client: HttpClient, namespace: str, name: str) -> dict[str, Any]:
    """A one-time link that opens a notebook, and for how many seconds it is good."""
    import json
    from urllib.parse import quote

    answer = await client.raw("POST", f"/notebook-links/{quote(namespace)}/{quote(name, safe='')}", b"{}")
    found = json.loads(answer)
    return {"url": found["url"], "seconds": found["seconds"]}


@notebook.command("open")
@click.argument("name", default="notebook")
@click.option("--browser", is_flag=True, help="Open it in the browser of this machine too.")
@on_a_cluster()
def open_(target: Target, name: str, browser: bool) -> None:
    """Print a one-time link that opens a notebook."""
    name = name.removeprefix("notebook/")
    link = target.work(lambda client, namespace: _link(client, namespace, name))

    def in_words() -> None:
        click.echo(link)
        if browser:
            click.launch(link)

    target.show({"url": link}, in_words)


# -- Those there are ----------------------------------------------------------------------------------------------------


@notebook.command("list")
@on_a_cluster("wide")
def list_(target: Target) -> None:
    """The notebooks of the namespace: state, what they wait for, profile, last activity."""
    rows = target.work(lambda client, namespace: _rows(client, namespace))

    def in_words() -> None:
        if rows:
            _COLUMNS.table(rows, wide=target.output == "wide").print()
        else:
            click.echo("there is no notebook; ask for one:  gpuaas notebook")

    target.show(rows, in_words)


async def _rows(client: HttpClient, namespace: str, name: str = "") -> list[dict[str, Any]]:
    from gpuaas.views.notebooks import read_rows

    return [row.shown() for row in await read_rows(client, namespace, name)]


@notebook.command()
@click.argument("name", default="notebook")
@on_a_cluster()
def stop(target: Target, name: str) -> None:
    """Stop a notebook: it gives back its CPU and GPUs, and keeps its files."""
    _annotate(target, name.removeprefix("notebook/"), start=False)


@notebook.command()
@click.argument("name", default="notebook")
@on_a_cluster()
def start(target: Target, name: str) -> None:
    """Start a stopped notebook: it goes to its queue and runs when it is admitted."""
    _annotate(target, name.removeprefix("notebook/"), start=True)


def _annotate(target: Target, name: str, *, start: bool) -> None:
    from gpuaas.base.clock import SystemClock, rfc3339

    async def change(client: HttpClient, namespace: str) -> Object:
        found = await client.get(NOTEBOOKS, name, namespace)
        now = (found["metadata"].get("annotations") or {}).get(STOPPED)
        if start and now in (None, BY_KUEUE):
            raise WrongOption(f"notebook/{name} is not stopped")
        if not start and now not in (None, BY_KUEUE):
            raise WrongOption(f"notebook/{name} is stopped already")
        queued = QUEUE_LABEL in (found["metadata"].get("labels") or {})
        value = (BY_KUEUE if queued else None) if start else rfc3339(SystemClock().now())
        return await client.patch(NOTEBOOKS, name, {"metadata": {"annotations": {STOPPED: value}}}, namespace)

    made = target.work(change)
    words = "goes to its queue" if start else "is stopped; its files stay, and it holds no CPU or GPU"
    target.show(unmanaged(made), lambda: click.echo(f"notebook/{name} {words}"))
