"""The page of commands, from click's own description of them."""

import re
from collections.abc import Iterator
from typing import Final

import click

from docs_build.markdown import code, codes, table
from gpuaas.cli.main import cli

_GROUPS: Final = {
    "Run it": ("up", "down", "status", "doctor"),
    "Submit and look": (
        "open",
        "profiles",
        "size",
        "run",
        "notebook",
        "ps",
        "why",
        "logs",
        "exec",
        "port-forward",
        "cancel",
        "mcp",
    ),
    "Queues and GPUs": ("queues", "gpus", "share", "mig", "top", "audit", "stop", "resume"),
    "Objects": ("apply", "get", "delete"),
    "Many clusters": ("fleet",),
    "Administer": ("user", "backup", "restore", "support-bundle"),
    "Try and check": ("demo", "replay"),
}
_ENVIRONMENT: Final = (
    ("GPUAAS_HOME", "Where the embedded control plane keeps its state; `~/.gpuaas` without it."),
    ("KUBECONFIG", "The cluster that commands speak to, as `kubectl` reads it; without it the embedded one."),
    ("GPUAAS_DEBUG", "When set, a defect of gpuaas shows where in the code it is."),
)
_SHARED: Final = ("kubeconfig", "context", "namespace")  # of every command that speaks to a cluster
_SAID_DEFAULT: Final = re.compile(r"\s*\[default: (.*)\]$")


def body() -> str:
    context = click.Context(cli, info_name="gpuaas")
    known, placed = cli.list_commands(context), [name for names in _GROUPS.values() for name in names]
    if sorted(known) != sorted(placed):
        raise ValueError(f"each command stands in one group of {__name__}: {sorted({*known} ^ {*placed})}")
    parts = [_introduction(context)]
    for title, names in _GROUPS.items():
        parts.append(f"## {title}")
        parts += [part for name in names for part in _command(_found(context, name), context, name)]
    return "\n\n".join(parts)


def _introduction(context: click.Context) -> str:
    shared = [each for each in _found(context, "ps").params if each.name in _SHARED]
    return "\n\n".join(
        [
            "Every command explains itself with `--help`. A command that goes wrong says so on standard error and ends with 1;"
            " one that was written wrongly ends with 2.",
            "Commands that speak to a cluster, embedded or real, also take:",
            _options(shared),
            "and `-o` (`--output`), which says how to print: `text` unless another form is asked for.",
            "Variables of the environment:",
            table(("variable", "what it does"), [(code(name), words) for name, words in _ENVIRONMENT]),
        ]
    )


def _found(context: click.Context, name: str) -> click.Command:
    group = context.command
    assert isinstance(group, click.Group)
    found = group.get_command(context, name)
    assert found is not None, name
    return found


def _command(command: click.Command, parent: click.Context, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"### {context.command_path}"
    if isinstance(command, click.Group):
        yield _help(command)
        for each in command.list_commands(context):
            yield from _command(_found(context, each), context, each)
        return
    usage = [piece for piece in command.collect_usage_pieces(context) if piece]
    yield f"```\n{' '.join([context.command_path, *usage])}\n```"
    yield _help(command)
    options = _options_of(command)
    shared = [each for each in options if _is_shared(each)]
    forms = [_metavar(each) for each in options if each.name == "output"]
    if shared:
        yield f"Speaks to a cluster: takes `--kubeconfig`, `--context`, `-n` and `-o` ({codes(forms[0].split('|'))}) as well."
    own = [each for each in options if each not in shared and not (shared and each.name == "output")]
    if own:
        yield _options(own)


def _options_of(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def _is_shared(option: click.Option) -> bool:
    """`user add -n` is another one."""
    return option.name in _SHARED and not (option.help or "").startswith("Only")


def _help(command: click.Command) -> str:
    """Its paragraphs, each on one line; what looks like a command line stays one."""
    said = (command.help or "").strip().replace("\b", "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in said.split("\n\n"))


def _options(options: list[click.Parameter] | list[click.Option]) -> str:
    rows = [_row(each) for each in options if isinstance(each, click.Option)]
    return table(("option", "default", "what it does"), rows)


def _row(option: click.Option) -> tuple[str, str, str]:
    words = option.help or ""
    if not words:
        raise ValueError(f"{option.opts}: an option without help")
    names = ", ".join(option.opts + [f"{each}" for each in option.secondary_opts])
    return code(f"{names} {_metavar(option)}".strip()), *_default(option, words)


def _metavar(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    return option.metavar or option.type.name.split()[0].upper()


def _default(option: click.Option, words: str) -> tuple[str, str]:
    """The default, and the words without it."""
    said = _SAID_DEFAULT.search(words)
    if said:
        return said[1], words[: said.start()]
    if option.required:
        return "must be given", words
    if option.secondary_opts:
        return code(option.opts[0] if option.default else option.secondary_opts[0]), words
    shown = option.show_default or (isinstance(option.type, click.Choice) and not option.multiple)
    return (code(str(option.default)) if shown and not option.is_flag else ""), words
