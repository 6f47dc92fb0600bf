"""Who calls what in the source, and with what: so that a parameter stands for what its callers pass, and a field of a
value for what its makers put there.
"""

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

import gpuaas
from docs_build.reading import (
    Bound,
    Call,
    Function,
    Where,
    class_of,
    field_of,
    fields,
    names,
    parameters,
    passed,
    together,
)

_CALLERS: Final = 3  # of callers, and their callers
_FOLDER: Final = Path(gpuaas.__file__).parent
_ROOMS: Final = ("controllers", "engine", "executors", "kueue", "nodefit", "runtime")


class Source:
    """The rooms in which something is told or decided."""

    @cached_property
    def calls(self) -> dict[str, list[Call]]:
        """By the name of what is called."""
        found: dict[str, list[Call]] = {}
        for path in sorted(path for room in _ROOMS for path in (_FOLDER / room).rglob("*.py")):
            parts = path.relative_to(_FOLDER.parent).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            for call in _calls(ast.parse(path.read_text()), module):
                found.setdefault(call.name, []).append(call)
        return found

    def callers(self, function: Function, where: Where) -> list[Call]:
        """Private ones are called where they are defined; of others only methods of the same object are meant."""
        found = self.calls.get(function.name, [])
        if function.name.startswith("_"):
            return [each for each in found if each.where.module == where.module]
        return [each for each in found if not where.owner or _of_itself(each)]

    def makers(self, made: type) -> list[Call]:
        """Where values of a class are made."""
        found = self.calls.get(made.__name__, [])
        return [each for each in found if getattr(each.where.loaded, made.__name__, None) is made]

    # Who may have come here, with what.

    def ways(
        self, decisive: Sequence[ast.expr], others: Sequence[ast.expr], where: Where, depth: int = 0
    ) -> Iterator[Where]:
        """The place as each of those sees it who come there with something else that the expressions speak of.

        For values with fields it is asked who made them where what decides speaks of them; the others are only read.
        """
        for made in self._choices(decisive, others, where, depth):
            yield from self._called(decisive, others, where.with_bound(made), depth)

    def _choices(
        self, decisive: Sequence[ast.expr], others: Sequence[ast.expr], where: Where, depth: int
    ) -> Iterator[dict[str, Bound]]:
        """One for each maker of a value whose fields are spoken of, and for each pair of names assigned together."""
        options: list[list[dict[str, Bound]]] = []
        for name in sorted(fields(decisive, where).keys() - {"self"} - where.bound.keys()):
            made = class_of(name, where) if depth < _CALLERS else None
            asked = fields([*decisive, *others], where)[name]
            options.append([{name: each} for each in self._made(made, asked, depth)] if made else [])
        spoken = names(decisive, where)
        options += [each for each in together(where) if any(spoken & one.keys() for one in each)]
        for chosen in itertools.product(*filter(None, options)):
            yield {name: bound for each in chosen for name, bound in each.items()}

    def _made(self, made: type, asked: set[str], depth: int) -> Iterator[Bound]:
        for call in self.makers(made):
            values = [field_of(Bound(call.node, call.where), each) for each in sorted(asked)]
            given = [each for each in values if each is not None]
            yield from (Bound(call.node, way) for way in self.ways(given, [], call.where, depth + 1))

    def _called(
        self, decisive: Sequence[ast.expr], others: Sequence[ast.expr], where: Where, depth: int
    ) -> Iterator[Where]:
        function = where.function
        spoken, first = names([*decisive, *others], where), names(decisive, where)
        wanted = (spoken & {*parameters(function)}) - {"self"} - where.bound.keys() if function else set()
        callers = self.callers(function, where) if function and wanted and depth < _CALLERS else []
        for call in callers:
            assert function is not None
            arguments = passed(function, call.node)
            given = {name: arguments[name] for name in sorted(wanted) if name in arguments}
            leading = [each for name, each in given.items() if name in first]
            rest = [each for name, each in given.items() if name not in first]
            for way in self.ways(leading, rest, call.where, depth + 1):
                reached = where.with_bound({name: Bound(each, way) for name, each in given.items()})
                yield replace(reached, caller=Call(call.node, way))
        if not callers:
            yield where


def _calls(tree: ast.Module, module: str) -> Iterator[Call]:
    waiting: list[tuple[ast.AST, Where]] = [(tree, Where(module))]
    while waiting:
        node, where = waiting.pop()
        if isinstance(node, ast.Call):
            yield Call(node, where)
        inner = where
        if isinstance(node, ast.ClassDef):
            inner = Where(module, node.name)
        elif isinstance(node, Function):
            inner = replace(where, function=node)
        waiting += [(child, inner) for child in ast.iter_child_nodes(node)]


def _of_itself(call: Call) -> bool:
    return isinstance(call.node.func, ast.Attribute) and ast.unparse(call.node.func.value) in (
        "self",
        "self._controller",
    )
