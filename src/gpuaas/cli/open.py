"""`gpuaas open`: the dashboard in a browser, signed in by a link that works once and for two minutes.

The server makes the link for the user of the kubeconfig. On the server's own machine it leads to the plain
port that is bound to loopback, where a browser has nothing to warn of.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from gpuaas.cli.context import Target, WrongOption, on_a_cluster

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

_TRIES = 40
_AGAIN = 0.25  # seconds


@click.command("open")
@click.argument("what", default="", metavar="[notebook/NAME]")
@click.option("--print", "only_print", is_flag=True, help="Print the link and open nothing.")
@on_a_cluster()
def open_pages(target: Target, what: str, only_print: bool) -> None:
    """Open the dashboard in a browser, signed in; or a notebook.

    The link works once, within minutes. It is printed where there is no browser.
    """
    kind, slash, name = what.partition("/")
    if what and (kind not in ("notebook", "notebooks", "nb") or not slash or not name):
        raise WrongOption(f'"{what}": notebook/NAME was expected, or nothing for the dashboard')
    found = target.work(partial(_notebook_link, name) if name else _link)
    opened = not only_print and _opened(found["url"])
    opens = what or "the dashboard"
    target.show({**found, "opened": opened}, lambda: _tell(opens, found, opened, only_print=only_print))


async def _notebook_link(name: str, client: "HttpClient", namespace: str) -> dict[str, Any]:
    from gpuaas.cli.notebooks import link

    return await link(client, namespace, name)


def open_now(kubeconfig: Path) -> None:
    """For a command that shows what it does on the dashboard of its own server."""
    found = Target(kubeconfig, "", "", "").work(_link)
    _tell("the dashboard", found, _opened(found["url"]), only_print=False)


async def _link(client: "HttpClient", _: str) -> dict[str, Any]:
    import asyncio

    import msgspec

    from gpuaas.base.errors import ApiError

    for last in (False,) * _TRIES + (True,):
        try:
            said = msgspec.json.decode(await client.raw("POST", "/ui/link"))
            break
        except ApiError as error:
            if error.code == 503 and not last:  # it is starting
                await asyncio.sleep(_AGAIN)
            elif error.code in (403, 404, 405):
                words = "this cluster has no dashboard of gpuaas: the embedded server has one (gpuaas up)"
                raise click.ClickException(words) from None
            else:
                raise
    server = urlsplit(client.access.server)
    here = (server.hostname or "") in ("127.0.0.1", "::1", "localhost")
    start = said["local"] if here and said["local"] else f"{server.scheme}://{server.netloc}"
    return {"url": start + said["path"], "seconds": said["seconds"]}


def _opened(url: str) -> bool:
    """Whether a browser took it. One in a terminal would show the pages in place of the shell."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    import webbrowser

    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


def _tell(what: str, found: dict[str, Any], opened: bool, *, only_print: bool) -> None:
    if opened:
        click.echo(f"{what} is open in your browser")
        return
    if not only_print:
        words = f"follow this link, which works once, within {found['seconds'] / 60:.0f} minutes:"
        click.echo(f"no browser could be opened here; {words}", err=True)
    click.echo(found["url"])
    if found["url"].startswith("https:"):
        click.echo("a browser warns of the certificate until it trusts pki/ca.crt of the server's home", err=True)
