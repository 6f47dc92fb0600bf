"""Conflicts of an apply: fields that others own and that it would change, and the answer that lists them."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from gpuaas.base.errors import ApplyConflict
from gpuaas.machinery.ssa.fieldset import show_path
from gpuaas.machinery.ssa.gotext import verb_q
from gpuaas.machinery.ssa.managed import Manager


class Conflict(NamedTuple):
    manager: Manager
    path: tuple[str, ...]


class Conflicting(Exception):
    """Raised inside an apply; what the user sees is made by `answer`."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = sorted(conflicts, key=lambda conflict: conflict.manager.identifier())


def answer(conflicts: Sequence[Conflict]) -> ApplyConflict:
    causes = [(show_path(path), f"conflict with {_name(manager)}") for manager, path in conflicts]
    if len(conflicts) == 1:
        ((path, text),) = causes
        return ApplyConflict(f"Apply failed with 1 conflict: {text}: {path}", causes)
    lines: list[str] = []
    for manager, group in groupby(conflicts, key=lambda conflict: conflict.manager):
        lines.append(f"conflicts with {_name(manager)}:")
        lines += [f"- {show_path(path)}" for _, path in group]
    return ApplyConflict(f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines), causes)


def _name(manager: Manager) -> str:
    text = verb_q(manager.name)
    if manager.subresource:
        text = f"{text} with subresource {verb_q(manager.subresource)}"
    return f"{text} using {manager.api_version}" if manager.operation == "Update" else text
