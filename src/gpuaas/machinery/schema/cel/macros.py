"""CEL's comprehensions: `all`, `exists`, `exists_one`, `filter`, `map` and their relatives.

With one variable a list gives its items and a map its keys; with two, a list gives index and item, a map key and value.
`all` and `exists` absorb errors as `&&` and `||` do.
"""

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Final

from gpuaas.machinery.schema.cel.budget import BUDGET, parts
from gpuaas.machinery.schema.cel.closures import Run
from gpuaas.machinery.schema.cel.syntax import Macro
from gpuaas.machinery.schema.cel.types import BOOL, DYN, ERROR, INT, Type, list_of, map_of, optional_of
from gpuaas.machinery.schema.cel.values import NO_OVERLOAD, NONE, CelError, Opt

if TYPE_CHECKING:
    from gpuaas.machinery.schema.cel.compiler import Compiler, Typed


def compile_macro(compiler: "Compiler", node: Macro) -> "Typed":
    type_, target = compiler.compile(node.target)
    if node.name in ("optMap", "optFlatMap"):
        return _optional(compiler, node, type_, target)
    types = _variable_types(type_, len(node.variables))
    if types is None:
        text = f"expression of type '{type_}' cannot be range of a comprehension (must be list, map, or dynamic)"
        return compiler.issue(node.target.at, text)
    slots, bodies = _with_variables(compiler, node, types)
    condition = bodies[0][0] if node.name not in _MAKERS or len(bodies) == 2 else BOOL
    if condition not in (BOOL, DYN, ERROR):
        if node.name in ("all", "exists"):
            return compiler.issue(node.bodies[0].at, f"expected type 'bool' but found '{condition}'")
        result = list_of(types[-1] if node.name == "filter" else bodies[-1][0])
        return compiler.no_overload("_?_:_", (condition, result, result), node.at)
    cost = 1 + sum(map(parts, node.bodies))
    loop = _loop(target, slots, is_pair=len(slots) == 2, cost=cost)
    if node.name in ("all", "exists"):
        body, decisive = bodies[-1][1], node.name == "exists"
        if len(slots) == 1:
            return BOOL, _quantifier_of_items(target, slots[0], cost, body, loop, decisive=decisive)
        return BOOL, _quantifier(loop, body, decisive=decisive)
    return _finish(node, type_, bodies, loop)


_MAKERS: Final = frozenset(("map", "transformList", "transformMap", "transformMapEntry", "sortBy"))


def _variable_types(type_: Type, count: int) -> tuple[Type, ...] | None:
    match type_.name:
        case "list":
            item = type_.params[0]
            return (item,) if count == 1 else (INT, item)
        case "map":
            return type_.params[:count]
        case "dyn" | "!error!":
            return (DYN,) * count
        case _:
            return None


def _with_variables(compiler: "Compiler", node: Macro, types: tuple[Type, ...]) -> tuple[list[str], "list[Typed]"]:
    """The bodies, compiled with the macro's variables in sight."""
    saved = dict(compiler.scope)
    slots: list[str] = []
    for name, type_ in zip(node.variables, types, strict=True):
        compiler.slots += 1
        slots.append(f"{name}#{compiler.slots}")
        compiler.scope[name] = type_, slots[-1]
    bodies = [compiler.compile(body) for body in node.bodies]
    compiler.scope = saved
    return slots, bodies


# Calls the body once for each element, with the variables set, and gives its results one by one.
Loop = Callable[[dict[str, Any]], Iterable[Any]]


def _loop(target: Run, slots: list[str], *, is_pair: bool, cost: int) -> Loop:
    """Steps through the range, setting the variables; gives the element (or the pair) of each step."""

    def steps(env: dict[str, Any]) -> Iterable[Any]:
        value = target(env)
        spend = env[BUDGET].spend
        if value.__class__ is list:
            pairs: Iterable[Any] = enumerate(value) if is_pair else value
        elif value.__class__ is dict:
            pairs = list(value.items()) if is_pair else list(value)
        else:
            raise CelError(NO_OVERLOAD)
        for element in pairs:
            spend(cost)
            if is_pair:
                env[slots[0]], env[slots[1]] = element
            else:
                env[slots[0]] = element
            yield element

    return steps


def _finish(node: Macro, type_: Type, bodies: "list[Typed]", loop: Loop) -> "Typed":
    last_type, last = bodies[-1]
    condition = bodies[0][1] if len(bodies) == 2 else None
    match node.name:
        case "exists_one" | "existsOne":
            return BOOL, lambda env: sum(_truth(last(env)) for _ in loop(env)) == 1
        case "filter":
            item = type_.params[0] if type_.params else DYN
            return list_of(item), lambda env: [element for element in loop(env) if _truth(last(env))]
        case "map" | "transformList":
            return list_of(last_type), lambda env: [last(env) for _ in loop(env) if _holds(condition, env)]
        case "sortBy":
            item = type_.params[0] if type_.params else DYN
            return list_of(item), lambda env: _sorted([(last(env), element) for element in loop(env)])
        case "transformMapEntry":
            made = last_type if last_type.name == "map" else map_of(DYN, DYN)
            return made, lambda env: _merged([last(env) for _ in loop(env) if _holds(condition, env)])
        case _:
            key = type_.params[0] if type_.name == "map" else INT
            return map_of(key, last_type), lambda env: {
                pair[0]: last(env) for pair in loop(env) if _holds(condition, env)
            }


def _sorted(pairs: list[tuple[Any, Any]]) -> list[Any]:
    """By keys that can be compared, which those of one list have to be."""
    if len({key.__class__ for key, _ in pairs}) > 1:
        raise CelError("list elements must have the same type")

    def compare(first: tuple[Any, Any], second: tuple[Any, Any]) -> int:
        return int(first[0] > second[0]) - int(first[0] < second[0])

    try:
        return [element for _, element in sorted(pairs, key=cmp_to_key(compare))]
    except TypeError:
        raise CelError("list elements must be comparable") from None


def _merged(maps: list[Any]) -> dict[Any, Any]:
    whole: dict[Any, Any] = {}
    for each in maps:
        if each.__class__ is not dict:
            raise CelError(NO_OVERLOAD)
        for key, value in each.items():
            if key in whole:
                raise CelError(f"insert failed: key {key} already exists")
            whole[key] = value
    return whole


def _truth(value: Any) -> bool:
    if value.__class__ is not bool:
        raise CelError(NO_OVERLOAD)
    return bool(value)


def _holds(condition: Run | None, env: dict[str, Any]) -> bool:
    return condition is None or _truth(condition(env))


def _quantifier(loop: Loop, body: Run, *, decisive: bool) -> Run:
    def run(env: dict[str, Any]) -> bool:
        problem: CelError | None = None
        for _ in loop(env):
            try:
                if _truth(body(env)) is decisive:
                    return decisive
            except CelError as raised:
                problem = problem or raised
        if problem is not None:
            raise problem
        return not decisive

    return run


def _quantifier_of_items(target: Run, slot: str, cost: int, body: Run, loop: Loop, *, decisive: bool) -> Run:
    """The same with one variable, which nearly always goes through a list: no generator, no second look."""
    others = _quantifier(loop, body, decisive=decisive)

    def run(env: dict[str, Any]) -> Any:
        value = target(env)
        if value.__class__ is not list:
            return others(env)
        problem: CelError | None = None
        spend = env[BUDGET].spend
        for env[slot] in value:
            spend(cost)
            try:
                answer = body(env)
            except CelError as raised:
                problem = problem or raised
                continue
            if answer is decisive:
                return decisive
            if answer.__class__ is not bool:
                problem = problem or CelError(NO_OVERLOAD)
        if problem is not None:
            raise problem
        return not decisive

    return run


def _optional(compiler: "Compiler", node: Macro, type_: Type, target: Run) -> "Typed":
    if type_.name not in ("optional_type", "dyn", "!error!"):
        return compiler.no_overload("hasValue", (type_,), node.at, method=True)
    inner = type_.params[0] if type_.params else DYN
    slots, bodies = _with_variables(compiler, node, (inner,))
    body_type, body = bodies[0]

    def run(env: dict[str, Any]) -> Opt:
        value = target(env)
        if not value.present:
            return NONE
        env[slots[0]] = value.value
        result = body(env)
        return result if node.name == "optFlatMap" else Opt(True, result)

    return body_type if node.name == "optFlatMap" else optional_of(body_type), run
