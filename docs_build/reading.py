"""What an expression of the source can come to, without running it.

A text is what is written there; what is only known when the program runs is `…`. A name stands for what is assigned to it
before, and what a place is `bound` to is said by who comes there (module source).
"""

import ast
import importlib
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Final, NamedTuple, get_args

UNKNOWN: Final = "…"
_DEPTH: Final = 12  # of names that stand for names
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Bound(NamedTuple):
    """What a name stands for, and where that is to be understood."""

    expression: ast.expr
    where: "Where"


@dataclass(frozen=True, eq=False)
class Where:
    """A place in the source, and what the parameters there stand for."""

    module: str
    owner: str = ""
    function: Function | None = None
    bound: Mapping[str, Bound] = field(default_factory=dict)
    caller: "Call | None" = None

    @property
    def loaded(self) -> ModuleType:
        return importlib.import_module(self.module)

    def with_bound(self, more: Mapping[str, Bound]) -> "Where":
        return replace(self, bound={**self.bound, **more})


class Call(NamedTuple):
    node: ast.Call
    where: Where

    @property
    def name(self) -> str:
        called = self.node.func
        return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def texts(expression: ast.expr, where: Where, depth: int = 0) -> list[str]:
    """What it can come to."""
    if depth > _DEPTH:
        return [UNKNOWN]
    match expression:
        case ast.Constant(str(text)):
            return [text]
        case ast.JoinedStr(parts):
            return _joined([texts(part, where, depth + 1) for part in parts])
        case ast.FormattedValue(value) | ast.Subscript(value, ast.Slice()):
            return texts(value, where, depth + 1)
        case ast.BinOp(left, ast.Add(), right):
            return _joined([texts(left, where, depth + 1), texts(right, where, depth + 1)])
        case ast.IfExp(test, body, other):
            return _chosen(test, body, other, where, depth)
        case ast.Name(name):
            return _named(name, where, expression.lineno, depth)
        case ast.Attribute(ast.Name(name), attribute) if name in where.bound:
            return _field(where.bound[name], attribute, depth)
        case ast.Attribute():
            value = constant(expression, where)
            return [value if isinstance(value, str) else UNKNOWN]
    return [UNKNOWN]


def _chosen(test: ast.expr, body: ast.expr, other: ast.expr, where: Where, depth: int) -> list[str]:
    known = truth(test, where)
    if known is not None:
        return texts(body if known else other, where, depth + 1)
    ways = [where]
    if isinstance(test, ast.Name) and test.id not in where.bound:  # what is asked for is not empty
        found = [each for each in texts(test, where, depth + 1) if each]
        ways = [where.with_bound({test.id: Bound(ast.Constant(each), where)}) for each in found]
    return _union([*(texts(body, way, depth + 1) for way in ways), texts(other, where, depth + 1)])


def constant(expression: ast.expr, where: Where) -> Any:
    """A value that the module knows once it is loaded, else None."""
    match expression:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return getattr(where.loaded, name, None)
        case ast.Attribute(value, attribute):
            return getattr(constant(value, where), attribute, None)
    return None


def _named(name: str, where: Where, line: int, depth: int) -> list[str]:
    if name in where.bound:
        return texts(*where.bound[name], depth + 1)
    assigned = _assigned(name, where, line)
    if assigned:
        return _union([texts(each, where, depth + 1) for each in assigned])
    value = getattr(where.loaded, name, None)
    return [value if isinstance(value, str) else UNKNOWN]


def _field(bound: Bound, attribute: str, depth: int) -> list[str]:
    value = field_of(bound, attribute)
    if value is not None:
        return texts(value, bound.where, depth + 1)
    known = getattr(constant(*bound), attribute, None)
    return [known if isinstance(known, str) else UNKNOWN]


def field_of(bound: Bound, attribute: str) -> ast.expr | None:
    """What a maker puts into a field."""
    call = bound.expression
    made = constant(call.func, bound.where) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(made, type):
        return None
    fields = [*made.__annotations__]
    given = dict(zip(fields, call.args, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}
    if attribute not in given and attribute in fields:
        return ast.Constant(inspect.signature(made).parameters[attribute].default)
    return given.get(attribute)


def truth(test: ast.expr, where: Where) -> bool | None:
    """Whether it holds, where that can be known."""
    match test:
        case ast.UnaryOp(ast.Not(), inner):
            known = truth(inner, where)
            return None if known is None else not known
        case ast.Name(name) if name in where.bound:
            value = constant(*where.bound[name])
            return value if isinstance(value, bool) else None
        case ast.Attribute(ast.Name(name), attribute) if name in where.bound:
            given = field_of(where.bound[name], attribute)
            value = None if given is None else constant(given, where.bound[name].where)
            return value if isinstance(value, bool) else None
        case ast.Compare(left, [ast.Eq()], [right]):
            one, other = texts(left, where), texts(right, where)
            return one == other if len(one) == len(other) == 1 and UNKNOWN not in (*one, *other) else None
    return None


def _joined(parts: Sequence[Sequence[str]]) -> list[str]:
    return _union([["".join(chosen) for chosen in itertools.product(*parts)]])


def _union(lists: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(itertools.chain.from_iterable(lists)))


# What stands in a function.


def parameters(function: Function) -> list[str]:
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def passed(function: Function, call: ast.Call) -> dict[str, ast.expr]:
    """By parameter, with defaults."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args) if each.arg != "self"]
    last = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
    only = {each.arg: value for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value}
    return {**last, **only, **dict(zip(names, call.args, strict=False))} | {
        each.arg: each.value for each in call.keywords if each.arg
    }


def names(expressions: Sequence[ast.expr], where: Where) -> set[str]:
    """Those they speak of, and those that these stand for."""
    return {node.id for node in _nodes(expressions, where) if isinstance(node, ast.Name)}


def fields(expressions: Sequence[ast.expr], where: Where) -> dict[str, set[str]]:
    """Which fields they speak of, by the name of whose fields they are."""
    found: dict[str, set[str]] = {}
    for node in _nodes(expressions, where):
        match node:
            case ast.Attribute(ast.Name(name), attribute):
                found.setdefault(name, set()).add(attribute)
    return found


def _nodes(expressions: Sequence[ast.expr], where: Where) -> Iterator[ast.AST]:
    """Of the expressions, and of what is assigned to the names in them."""
    seen: set[str] = set()
    waiting = list(expressions)
    while waiting:
        for node in ast.walk(waiting.pop()):
            yield node
            if isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                waiting += _assigned(node.id, where, node.lineno)


def _assigned(name: str, where: Where, line: int) -> list[ast.expr]:
    """What a name of a function may stand for in a line: back to where it was certainly set."""
    if where.function is None or name in where.bound:
        return []
    found: list[ast.expr] = []
    statements = [each for each in ast.walk(where.function) if isinstance(each, ast.stmt) and each.lineno < line]
    for node in sorted(statements, key=lambda each: -each.lineno):
        if not isinstance(node, ast.Assign):
            continue
        given = [value for known, value in _targets(node.targets[0], node.value) if known == name]
        found += given
        between = [each for each in statements if each.lineno > node.lineno]
        if given and all(each.col_offset >= node.col_offset for each in between):
            break
    return found


def together(where: Where) -> Iterator[list[dict[str, Bound]]]:
    """Names that get their values together: in a loop over what is written out, or in one assignment of several."""
    if where.function is None:
        return
    pairs = []
    for node in ast.walk(where.function):
        match node:
            case ast.For(target, ast.Tuple(elements)):
                yield [_bound(target, each, where) for each in elements]
            case ast.Assign([ast.Tuple() as target], ast.Tuple() as value):
                pairs.append(_bound(target, value, where))
            case ast.Assign([ast.Tuple() as target], ast.IfExp(_, body, other)):
                pairs += [_bound(target, body, where), _bound(target, other, where)]
    for names in dict.fromkeys(tuple(each) for each in pairs):
        yield [each for each in pairs if tuple(each) == names]


def _bound(target: ast.expr, value: ast.expr, where: Where) -> dict[str, Bound]:
    return {name: Bound(each, where) for name, each in _targets(target, value)}


def _targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Name(name), _:
            yield name, value
        case ast.Tuple(names), ast.Tuple(values) if len(names) == len(values):
            for each, given in zip(names, values, strict=True):
                yield from _targets(each, given)
        case ast.Tuple(), ast.IfExp(_, body, other):
            yield from (*_targets(target, body), *_targets(target, other))


def class_of(name: str, where: Where) -> type | None:
    """By the annotation of a parameter, or of what the function gives that it was assigned from."""
    for said, module in _annotations(name, where):
        words = said.removesuffix(" | None") if isinstance(said, str) else ""
        found = getattr(module, words, None) if words else (get_args(said) or (said,))[0]
        if isinstance(found, type) and found.__module__.startswith("gpuaas"):
            return found
    return None


def _annotations(name: str, where: Where) -> Iterator[tuple[Any, ModuleType]]:
    if where.function is None:
        return
    for each in (*where.function.args.args, *where.function.args.kwonlyargs):
        if each.arg == name and each.annotation is not None:
            yield ast.unparse(each.annotation), where.loaded
    for node in ast.walk(where.function):
        match node:
            case ast.Assign([ast.Name(known)], ast.Call(called)) if known == name:
                giver = constant(called, where)
                if inspect.isfunction(giver):
                    yield giver.__annotations__.get("return"), importlib.import_module(giver.__module__)
