"""Who has the right to run processes, and with it this machine: asked before it is given, listed by `gpuaas status`."""

import sys
from collections.abc import Sequence

import click

from gpuaas.assembly.home import Home, Running
from gpuaas.cli.context import WrongOption

_NAMED = 20
Rows = Sequence[dict[str, str]]


def ask_about_processes(name: str, home: Home, *, yes: bool) -> None:
    """In words, before anything is given."""
    from gpuaas.assembly.process_users import WARNING

    click.echo(f"warning: {WARNING.format(home=home.path)}", err=True)
    if yes:
        return
    if not has_terminal():
        raise WrongOption("--processes asks before it hands over this machine, and there is no terminal: --yes agrees")
    click.confirm(f"Hand over this machine and the control plane to {name}?", abort=True, err=True)


def has_terminal() -> bool:
    return sys.stdin.isatty()


def process_users_of(home: Home, running: Running | None) -> Rows | None:
    """Who may run processes as the user who started this; None where that cannot be found out."""
    import asyncio

    from gpuaas.assembly.process_users import process_users
    from gpuaas.base.errors import ApiError
    from gpuaas.client.kubeconfig import KubeconfigError

    if running is None:
        return None
    try:
        return asyncio.run(process_users(home, running.clusters))
    except (ApiError, KubeconfigError, OSError):
        return None


def in_words(rows: Rows) -> str:
    names = list(dict.fromkeys(f"{each['name']} ({each['where']})" for each in rows))
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"{shown}: may run programs as you, which hands over this machine and this control plane"
