"""The `gpuaas` command. Commands are imported when they are used: `gpuaas --help` must not wait for a server's imports."""

import importlib
import os
from difflib import get_close_matches
from typing import Any

import click

import gpuaas
from gpuaas.assembly.home import Unusable

_INTERRUPTED = 130  # what shells say of Ctrl-C
# name -> (module, attribute, one line for the overview)
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("gpuaas.cli.up", "up", "Start the control plane."),
    "down": ("gpuaas.cli.up", "down", "Stop it."),
    "status": ("gpuaas.cli.up", "status", "Say whether it runs, where, and with what."),
    "open": ("gpuaas.cli.open", "open_pages", "Open the dashboard, signed in."),
    "run": ("gpuaas.cli.run", "run", "Submit a command to a queue."),
    "notebook": ("gpuaas.cli.notebooks", "notebook", "Ask for a notebook; list, open, stop and start those there are."),
    "profiles": ("gpuaas.cli.profiles", "profiles", "Hardware by name, and what is free of it."),
    "size": ("gpuaas.cli.size", "size", "GPU memory that a model needs."),
    "ps": ("gpuaas.cli.ps", "ps", "The jobs in the queues."),
    "why": ("gpuaas.cli.jobs", "why", "Why a job waits, and ways out."),
    "logs": ("gpuaas.cli.jobs", "logs", "What a job wrote."),
    "exec": ("gpuaas.cli.exec", "exec_", "Run a command beside a job's own."),
    "port-forward": ("gpuaas.cli.exec", "port_forward", "A port of a job on this machine."),
    "cancel": ("gpuaas.cli.jobs", "cancel", "Delete a job."),
    "queues": ("gpuaas.cli.queues", "queues", "Quota: nominal, used, borrowed, waiting."),
    "gpus": ("gpuaas.cli.queues", "gpus", "GPUs: product, total, used, free."),
    "share": ("gpuaas.cli.share", "share", "Share a node's cards, or one: time-slicing, MPS, whole."),
    "mig": ("gpuaas.cli.mig", "mig", "MIG: which geometry would admit most of what waits."),
    "top": ("gpuaas.cli.top", "top", "Quotas, GPUs and jobs, live."),
    "audit": ("gpuaas.cli.audit", "audit", "Who was preempted by whom, and what was lost."),
    "stop": ("gpuaas.cli.queues", "stop", "Stop a queue or a workload."),
    "resume": ("gpuaas.cli.queues", "resume", "Let it go on."),
    "fleet": ("gpuaas.cli.fleet.command", "fleet", "Many clusters: create, join, leave, list, drain, delete."),
    "apply": ("gpuaas.cli.objects", "apply", "Make the cluster be as manifests say."),
    "get": ("gpuaas.cli.get", "get", "Show objects."),
    "delete": ("gpuaas.cli.objects", "delete", "Delete objects."),
    "doctor": ("gpuaas.cli.doctor.command", "doctor", "What is wrong here, each finding with its fix."),
    "user": ("gpuaas.cli.user", "user", "Give people access: add, list, rm."),
    "backup": ("gpuaas.cli.backup", "backup", "Copy the state to a file, while running."),
    "restore": ("gpuaas.cli.backup", "restore", "Bring a backup back."),
    "support-bundle": ("gpuaas.cli.support_bundle", "support_bundle", "Objects, findings and logs in one archive."),
    "demo": ("gpuaas.cli.demo", "demo", "A story played live, each step checked."),
    "mcp": ("gpuaas.cli.mcp", "mcp", "Serve the commands as tools for agents."),
    "replay": ("gpuaas.cli.replay", "replay", "Run measured admission decisions against the engine."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(_INTERRUPTED) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = get_close_matches(args[0], _COMMANDS, n=1)
        if near and args[0] not in _COMMANDS:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = _COMMANDS.get(cmd_name)
        if found is None:
            return None
        module, attribute, _ = found
        command: Any = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(gpuaas.__version__, prog_name="gpuaas", message="%(prog)s %(version)s")
def cli() -> None:
    """GPU as a Service: quotas, queues, tiers and preemption over the Kubernetes objects people already have."""


def main() -> None:
    try:
        cli()
    except Exception as error:  # the last resort: a traceback helps no user
        if os.environ.get("GPUAAS_DEBUG"):
            raise
        words = str(error) if isinstance(error, OSError | Unusable) else f"{type(error).__name__}: {error}"
        hint = "" if isinstance(error, OSError | Unusable) else " (a defect of gpuaas; GPUAAS_DEBUG=1 shows where)"
        click.echo(f"Error: {words}{hint}", err=True)
        raise SystemExit(1) from None
