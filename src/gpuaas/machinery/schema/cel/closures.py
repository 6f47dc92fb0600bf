"""What compiled expressions are made of: calls, logic, equality and field access as functions of the variables.

Types were checked by module compiler, which puts these together; what can still go wrong here is a value that is
missing, null, or of a type that could not be known.
"""

from collections.abc import Callable
from typing import Any

from gpuaas.machinery.schema.cel.budget import BUDGET, price, weight
from gpuaas.machinery.schema.cel.library import Overload
from gpuaas.machinery.schema.cel.types import BOOL, DURATION, INT, STRING, TIMESTAMP, Type
from gpuaas.machinery.schema.cel.values import NO_OVERLOAD, NONE, CelError, Opt, contains, equal, is_of

# What a compiled part does: given the variables, its value.
Run = Callable[[dict[str, Any]], Any]


def direct(name: str, function: Callable[..., Any], runs: list[Run], *, free: bool) -> Run:
    """A call whose signature is known. Values may still be null where the type does not say so."""

    def call(env: dict[str, Any]) -> Any:
        values = [run(env) for run in runs]
        if not free and (cost := price(name, values)):
            env[BUDGET].spend(cost)
        try:
            return function(*values)
        except (TypeError, AttributeError):
            raise CelError(NO_OVERLOAD) from None

    return call


def dispatched(name: str, overloads: list[Overload], runs: list[Run], *, free: bool) -> Run:
    """The types are known only now: take the first signature that fits the values."""

    def call(env: dict[str, Any]) -> Any:
        values = [run(env) for run in runs]
        if not free and (cost := price(name, values)):
            env[BUDGET].spend(cost)
        for each in overloads:
            if all(is_of(type_, value) for type_, value in zip(each.args, values, strict=True)):
                return _called(each.run, values)
        raise CelError(NO_OVERLOAD)

    return call


def _called(function: Callable[..., Any], values: list[Any]) -> Any:
    """What a list or map holds is known least of all."""
    try:
        return function(*values)
    except (TypeError, AttributeError):
        raise CelError(NO_OVERLOAD) from None


def equality(types: tuple[Type, ...], runs: list[Run], *, negated: bool, constant: Any) -> Run:
    """`constant`: the second value, if it is written in the expression."""
    first, second = runs
    kind = next((type_ for type_ in types if type_.list_type in ("set", "map")), None)
    if kind is not None:
        return lambda env: _same_members(env, first(env), second(env)) is not negated
    if types[0] is types[1] and types[0] in (STRING, INT, BOOL, TIMESTAMP, DURATION):
        if constant is not None:
            return lambda env: (first(env) == constant) is not negated
        if negated:
            return lambda env: first(env) != second(env)
        return lambda env: first(env) == second(env)
    return lambda env: _equal(env, first(env), second(env)) is not negated


def _equal(env: dict[str, Any], first: Any, second: Any) -> bool:
    if first.__class__ is list or first.__class__ is dict:
        env[BUDGET].spend(weight(first))
    return equal(first, second)


def _same_members(env: dict[str, Any], first: Any, second: Any) -> bool:
    """Lists that are sets or maps are equal in any order."""
    if not (isinstance(first, list) and isinstance(second, list)):
        return _equal(env, first, second)
    env[BUDGET].spend(weight(first) * len(second))
    return len(first) == len(second) and all(contains(second, item) for item in first)


def junction(sides: list[Run], *, decisive: bool) -> Run:
    """`||` (decisive: true) and `&&` (decisive: false). An error counts only if no other side decides."""

    def run(env: dict[str, Any]) -> bool:
        problem: CelError | None = None
        for side in sides:
            try:
                value = side(env)
            except CelError as raised:
                problem = problem or raised
                continue
            if value.__class__ is not bool:
                problem = problem or CelError(NO_OVERLOAD)
            elif value is decisive:
                return decisive
        if problem is not None:
            raise problem
        return not decisive

    return run


def variable(slot: str) -> Run:
    return lambda env: env[slot]


def field_of_variable(slot: str, key: str, *, null_is_absent: bool) -> Run:
    """`field_of` a variable: most of what rules look at."""

    def run(env: dict[str, Any]) -> Any:
        value = env[slot]
        if value.__class__ is not dict:
            raise CelError(NO_OVERLOAD)
        item = value.get(key)
        if item is None and (null_is_absent or key not in value):
            raise CelError(f"no such key: {key}")
        return item

    return run


def field_of(operand: Run, key: str, *, null_is_absent: bool) -> Run:
    """A field or an entry. A field of an object that is null counts as not there."""

    def run(env: dict[str, Any]) -> Any:
        value = operand(env)
        if value.__class__ is not dict:
            raise CelError(NO_OVERLOAD)
        item = value.get(key)
        if item is None and (null_is_absent or key not in value):
            raise CelError(f"no such key: {key}")
        return item

    return run


def presence(operand: Run, key: str, *, null_is_absent: bool, through: bool) -> Run:
    """has(a.b); `through`: a is an optional."""

    def run(env: dict[str, Any]) -> bool:
        value = operand(env)
        if through:
            if not value.present:
                return False
            value = value.value
        if value.__class__ is not dict:
            raise CelError(NO_OVERLOAD)
        return value.get(key) is not None or (not null_is_absent and key in value)

    return run


def optional_field(operand: Run, key: str, *, null_is_absent: bool, through: bool) -> Run:
    """a.?b, and any selection from an optional."""
    has = presence(operand, key, null_is_absent=null_is_absent, through=through)

    def run(env: dict[str, Any]) -> Opt:
        if not has(env):
            return NONE
        value = operand(env)
        return Opt(True, (value.value if through else value)[key])

    return run
