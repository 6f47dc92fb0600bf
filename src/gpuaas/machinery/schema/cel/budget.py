"""What the rules of one object may cost, so that no rule and no object can hold up the server.

As upstream counts, roughly: a step of a comprehension costs as much as its body has parts, a call by the length of what
it looks at, and the rest next to nothing. The limits are upstream's for one rule, and a third of upstream's for all
rules of an object, because a unit takes longer here: both come to about a second at the very worst.
"""

from typing import Any, Final

from gpuaas.machinery.schema.cel.syntax import Call, ListLiteral, Macro, MapLiteral, Node, Select, StructLiteral

BUDGET: Final = "#"  # the variable it is kept in; no identifier is called so
PER_RULE: Final = 1_000_000
PER_OBJECT: Final = 3_000_000
WITH_QUESTIONS: Final = 10_000_000  # for a policy that asks who may do what, which takes less time than it costs
_ALL_PAIRS: Final = frozenset(("distinct", "sets.contains", "sets.equivalent", "sets.intersects"))
_ASKING: Final = 350_000  # an access review of another user
_FREE: Final = frozenset(("size", "_[_]", "_[?_]", "type", "dyn"))


class Exhausted(Exception):
    """More than a rule, or all rules together, may cost. Not an error that logic absorbs."""


class Budget:
    __slots__ = ("left", "now")

    def __init__(self, left: int = PER_OBJECT) -> None:
        self.left = left  # for all rules
        self.now = 0  # for the rule that runs

    def begin(self) -> None:
        self.now = min(self.left, PER_RULE)
        self.left -= self.now

    def end(self) -> None:
        self.left += self.now
        self.now = 0

    def spend(self, amount: int) -> None:
        self.now -= amount
        if self.now < 0:
            raise Exhausted


def parts(node: Node) -> int:
    """How many things are done to evaluate it once, its own loops not counted."""
    match node:
        case Select():
            return 1 + parts(node.operand)
        case Call():
            return 1 + sum(map(parts, node.args)) + (parts(node.target) if node.target is not None else 0)
        case ListLiteral():
            return 1 + sum(parts(item) for item, _ in node.items)
        case MapLiteral():
            return 1 + sum(parts(key) + parts(value) for key, value, _ in node.entries)
        case StructLiteral():
            return 1 + sum(parts(value) for _, value, _ in node.fields)
        case Macro():
            return 1 + parts(node.target)
        case _:
            return 1


def is_free(function: str) -> bool:
    return function in _FREE


def price(function: str, values: list[Any]) -> int:
    """Of a call with these values."""
    if function == "check":
        return _ASKING
    if function in _ALL_PAIRS:
        return weight(values[0]) * weight(values[-1])
    return sum(weight(value) for value in values if value.__class__ in _LONG)


_LONG: Final[frozenset[type]] = frozenset((str, bytes, list, dict))


def weight(value: Any) -> int:
    """How much there is to look at."""
    kind = value.__class__
    if kind is str or kind is bytes:
        return len(value) // 10
    if kind is list:
        return len(value) + sum(weight(item) for item in value if item.__class__ in _LONG)
    if kind is dict:
        return len(value) + sum(weight(item) for item in value.values() if item.__class__ in _LONG)
    return 1
