"""The worst-case cost of a rule, estimated from the rule and the schema alone, before any object is seen.

Counted as upstream counts, because a definition whose rules might cost too much is refused: reading a variable or field
costs one, most calls cost one, and going through text, lists and maps costs by how long they can be. What a schema does
not bound may fill a whole request. Only the upper bounds matter, so only they are kept.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.machinery.schema.cel.syntax import (
    Call,
    Const,
    Ident,
    ListLiteral,
    Macro,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from gpuaas.machinery.schema.cel.types import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    escape,
)

UNBOUNDED: Final = (1 << 64) - 1
REQUEST: Final = 3 * 1024 * 1024  # bytes of the largest object there can be
_TEXT, _REGEX = 0.1, 0.25  # of a unit for each character
_LIST, _MAP, _STRUCT = 10, 30, 40  # to make one
_SCALARS: Final = frozenset((BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT))
_FORMATS: Final = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
_PARSING: Final = frozenset(("url", "cidr", "ip", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"))
_ORDER: Final = frozenset(("_<_", "_<=_", "_>_", "_>=_"))
_SETS: Final = {"sets.contains": 1, "sets.intersects": 1, "sets.equivalent": 2}


@dataclass(frozen=True, slots=True)
class Declared:
    """A place of the schema: how many elements or characters it can hold, and how short it is in JSON at least."""

    most: int = 0
    least: int = 0
    item: "Declared | None" = None
    key: "Declared | None" = None
    fields: "Mapping[str, Declared]" = field(default_factory=dict)


def declared(source: Mapping[str, Any], *, resource: bool = False) -> Declared | None:
    """None where rules cannot see anything."""
    if source.get("x-kubernetes-int-or-string"):
        return Declared(source["maxLength"] * 4 if "maxLength" in source else REQUEST - 2, 1)
    match source.get("type", ""):
        case "array":
            item = declared(source.get("items") or {})
            if item is None:
                return None
            return Declared(source.get("maxItems", (REQUEST - 2) // (item.least + 1)), 2, item)
        case "object":
            return _declared_object(source, resource=resource or bool(source.get("x-kubernetes-embedded-resource")))
        case "string":
            return _declared_text(source)
        case "boolean":
            return Declared(0, 4)
        case "number" | "integer":
            return Declared(0, 1)
    return None


def _declared_text(source: Mapping[str, Any]) -> Declared:
    form = source.get("format", "")
    if form in _FORMATS:
        return Declared(*_FORMATS[form])
    if "maxLength" in source:
        return Declared(source["maxLength"] * (1 if form == "byte" else 4), 2)
    if source.get("enum") and form != "byte":
        return Declared(max((len(each.encode()) for each in source["enum"] if isinstance(each, str)), default=0), 2)
    return Declared(REQUEST - 2, 2)


def _declared_object(source: Mapping[str, Any], *, resource: bool) -> Declared | None:
    extra = source.get("additionalProperties")
    if isinstance(extra, Mapping):
        item = declared(extra)
        if item is None:
            return None
        return Declared(source.get("maxProperties", (REQUEST - 2) // (item.least + 6)), 2, item, Declared(0, 2))
    properties = dict(source.get("properties") or {})
    if resource:
        text = {"type": "string"}
        meta = {"type": "object", "properties": {"name": text, "generateName": text}}
        properties |= {"kind": text, "apiVersion": text, "metadata": meta}
    fields: dict[str, Declared] = {}
    least = 2
    for name, place in properties.items():
        made, escaped = declared(place), escape(name)
        if made is None:
            continue
        if escaped is not None:
            fields[escaped] = fields[name] = made
        if name in (source.get("required") or ()) and place.get("default") is None:
            least += len(name.encode()) + made.least + 4
    return Declared(0, least, fields=fields)


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the entries of a list or map that is computed can hold."""

    key: int
    value: int


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: int | None = None
    entry: _Entry | None = None


def _plus(*amounts: int) -> int:
    return min(sum(amounts), UNBOUNDED)


def _times(first: int, second: int) -> int:
    return min(first * second, UNBOUNDED)


def _share(size: int, factor: float) -> int:
    return min(math.ceil(size * factor), UNBOUNDED)


class Estimator:
    """Of one expression, whose parts have these types by their ids."""

    def __init__(self, root: Declared, types: Mapping[int, Type]) -> None:
        self._root, self._types = root, types
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, int] = {}
        self._entries: dict[int, _Entry] = {}
        self._locals: dict[str, _Local] = {}

    def cost(self, node: Node) -> int:
        match node:
            case Const():
                return 0
            case Ident():
                known = self._locals.get(node.name)
                self._paths[id(node)] = known.path if known is not None else (node.name,)
                return 1
            case Select():
                return self._select(node)
            case ListLiteral():
                costs = [self.cost(item) for item, _ in node.items]
                self._entries[id(node)] = _Entry(1, max((self._size(item) for item, _ in node.items), default=0))
                return _plus(_LIST, *costs)
            case MapLiteral():
                costs = [self.cost(part) for key, value, _ in node.entries for part in (key, value)]
                keys = max((self._size(key) for key, _, _ in node.entries), default=0)
                self._entries[id(node)] = _Entry(keys, max((self._size(each[1]) for each in node.entries), default=0))
                return _plus(_MAP, *costs)
            case StructLiteral():
                return _plus(_STRUCT, *(self.cost(value) for _, value, _ in node.fields))
            case Macro():
                return self._macro(node)
            case Call():
                return self._call(node)

    def _select(self, node: Select) -> int:
        below = self.cost(node.operand)
        type_ = self._type(node.operand)
        if node.optional or type_.name == "optional_type":
            return _plus(below, 1)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        if node.test:
            return below
        return _plus(below, 1 if type_.fields is not None or type_.name == "map" else 0)

    # Sizes.

    def _type(self, node: Node) -> Type:
        return self._types.get(id(node), DYN)

    def _path(self, node: Node) -> Path:
        return self._paths.get(id(node), ())

    def _at(self, path: Path) -> int | None:
        """How much the place can hold; a path begins with the variable, which is always the object itself."""
        if not path:
            return None
        place: Declared | None = self._root
        for name in path[1:]:
            if place is None:
                return None
            match name:
                case "@items" | "@values":
                    place = place.item
                case "@keys":
                    place = place.key
                case _:
                    place = place.fields.get(name)
        return place.most if place is not None else None

    def _known_size(self, node: Node) -> int | None:
        if id(node) in self._sizes:
            return self._sizes[id(node)]
        match node:
            case Const(value=str() | bytes()):
                return len(node.value)
            case Const():
                return 1
            case ListLiteral():
                return len(node.items)
            case MapLiteral():
                return len(node.entries)
        size = self._at(self._path(node))
        if size is not None:
            return size
        type_ = self._type(node)
        if type_ in _SCALARS or (type_.name == "optional_type" and type_.params[0] in _SCALARS):
            return 1
        known = self._locals.get(node.name) if isinstance(node, Ident) else None
        return known.size if known is not None else None

    def _size(self, node: Node) -> int:
        size = self._known_size(node)
        return UNBOUNDED if size is None else size

    def _entry(self, node: Node) -> _Entry | None:
        if id(node) in self._entries:
            return self._entries[id(node)]
        known = self._locals.get(node.name) if isinstance(node, Ident) else None
        return known.entry if known is not None else None

    # Calls.

    def _call(self, node: Call) -> int:
        if isinstance(node.target, Ident) and id(node.target) not in self._types:  # a function with a dotted name
            plain = Call(f"{node.target.name}.{node.function}", None, node.args, node.at)
            cost = self._call_cost(plain)
            if id(plain) in self._sizes:
                self._sizes[id(node)] = self._sizes.pop(id(plain))
            return cost
        return self._call_cost(node)

    def _call_cost(self, node: Call) -> int:
        arguments = [self.cost(arg) for arg in node.args]
        target = self.cost(node.target) if node.target is not None else 0
        if node.function == "dyn":
            size = self._known_size(node.args[0])
            if size is not None:
                self._sizes[id(node)] = size
            return _plus(1, *arguments)
        if node.function in ("_&&_", "_||_"):
            return _plus(*arguments)
        if node.function == "_?_:_":
            self._sizes[id(node)] = max(self._size(node.args[1]), self._size(node.args[2]))
            return _plus(arguments[0], max(arguments[1:]))
        own, size = self._own(node)
        if size is not None:
            self._sizes[id(node)] = size
        return _plus(target, own, *arguments)

    def _own(self, node: Call) -> tuple[int, int | None]:
        """Of the call itself, and how large its result can be."""
        name, args, target = node.function, node.args, node.target
        if name == "_[_]" and len(args) == 2:
            return self._index(node)
        if name in ("_==_", "_!=_", *_ORDER, "_+_", "@in") and len(args) == 2:
            return self._operator(name, *args)
        if target is not None:
            made = self._method(name, target, args)
            if made is not None:
                return made
        if name in _SETS:
            return _plus(1, _times(_SETS[name], _times(self._size(args[0]), self._size(args[1])))), None
        if name in _PARSING and args and target is None:
            size = self._size(args[0])
            return _share(size, _TEXT), size if name == "url" else None
        if name == "ip.isCanonical":
            return _share(self._size(args[0]), 2 * _TEXT), None
        if name == "strings.quote":
            size = self._size(args[0])
            return _share(size, _TEXT), _plus(_times(size, 2), 2)
        if (
            name in ("string", "bytes")
            and len(args) == 1
            and self._type(args[0]) in ((BYTES if name == "string" else STRING), DYN)
        ):
            size = self._size(args[0])
            return _share(size, _TEXT), size if name == "string" else _times(size, 4)
        if name == "check":
            return 350_000, None
        return 1, None

    def _index(self, node: Call) -> tuple[int, int | None]:
        of = node.args[0]
        entry = self._entry(of)
        kind = self._type(of).name
        if kind in ("list", "map"):
            self._paths[id(node)] = (*self._path(of), "@items" if kind == "list" else "@values")
        return 1, entry.value if entry is not None else None

    def _operator(self, name: str, first: Node, second: Node) -> tuple[int, int | None]:
        types = self._type(first), self._type(second)
        sizes = self._size(first), self._size(second)
        if name == "@in":
            return (1 if types[1].name == "map" else sizes[1]), None
        if name == "_==_" and types[0] is types[1] and types[0] in (IP, CIDR, QUANTITY, SEMVER):
            return 1, None
        texts = any(each in (STRING, BYTES, DYN) for each in types)
        if name == "_+_":
            size = _plus(*sizes)
            if texts:
                return _share(size, _TEXT), size
            return 1, size if types[0].name == "list" else None
        if name in _ORDER and not texts:
            return 1, None
        return _share(min(sizes), _TEXT), None

    def _method(self, name: str, target: Node, args: tuple[Node, ...]) -> tuple[int, int | None] | None:
        size = self._size(target)
        match name, len(args):
            case "startsWith" | "endsWith", 1:
                return _share(self._size(args[0]), _TEXT), None
            case "contains", 1:
                return _times(_share(size, _TEXT), _share(self._size(args[0]), _TEXT)), None
            case "matches" | "find" | "findAll", _:
                looked = _times(_share(_plus(size, 1), _TEXT), _share(self._size(args[0]), _REGEX))
                return looked, None if name == "matches" else size
            case "format", 1:
                return _share(size, _TEXT), None
            case "lowerAscii" | "upperAscii" | "substring" | "trim", _:
                return _share(size, _TEXT), size
            case "replace", _:
                return _share(size, 2 * _TEXT), self._replaced(size, args[0], args[1])
            case "split", _:
                limit = args[1].value if len(args) > 1 and isinstance(args[1], Const) else size
                return _share(size, 2 * _TEXT), limit if limit >= 0 else UNBOUNDED
            case "join", _:
                joined = _times(size, self._item_size(target))
                if args:
                    joined = _plus(joined, _times(self._size(args[0]), max(size - 1, 0)))
                return _share(joined, _TEXT), joined
            case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", _:
                return self._looked_through(target, size), None
            case "validate", 1:
                return _share(_share(self._size(args[0]), _TEXT), 128 * _REGEX), None
            case "containsIP" | "containsCIDR", 1:
                read = _share(self._size(args[0]), _TEXT) if self._type(args[0]) in (STRING, DYN) else 0
                return _plus(4 if name == "containsIP" else 7, read), None
        return None

    def _replaced(self, size: int, old: Node, new: Node) -> int:
        least = len(old.value) if isinstance(old, Const) and isinstance(old.value, str) else 0
        added = self._size(new)
        if least == 0:
            return _plus(_times(_plus(size, 1), added), size)
        return size if added <= least else _times(math.ceil(size / least), added)

    def _item_size(self, target: Node) -> int:
        path = self._path(target)
        size = self._at((*path, "@items")) if path else None
        return UNBOUNDED if size is None else size

    def _looked_through(self, target: Node, size: int) -> int:
        type_ = self._type(target)
        if not type_.params:
            return _share(size, _TEXT)
        texts = type_.params[0] in (STRING, BYTES)
        return _times(size, _plus(1, _share(self._item_size(target), _TEXT) if texts else 0))

    # Comprehensions, as what they stand for.

    def _macro(self, node: Macro) -> int:
        if node.name in ("optMap", "optFlatMap"):
            once = self.cost(node.target)
            inner = _plus(_LIST, 1, once, *self._inside(node, [_Local(())]))
            return _plus(once, 1, inner, 1 if node.name == "optMap" else 0)
        start = self.cost(node.target)
        size = self._size(node.target)
        step, fixed = _step(node.name, self._inside(node, self._ranges(node)))
        if node.name not in ("all", "exists", "exists_one", "existsOne"):
            self._sizes[id(node)] = size
            self._entries[id(node)] = self._produced(node)
        return _plus(start, fixed, _times(size, step))

    def _ranges(self, node: Macro) -> list[_Local]:
        path, entry = self._path(node.target), self._entry(node.target)
        is_list = self._type(node.target).name == "list"
        value = _Local((*path, "@items" if is_list else "@values"), entry.value if entry is not None else None)
        key = _Local((*path, "@indices" if is_list else "@keys"), entry.key if entry is not None else None)
        if len(node.variables) == 2:
            return [key, value]
        return [value if is_list else key]

    def _inside(self, node: Macro, variables: list[_Local]) -> list[int]:
        """What the bodies cost, with the variables in sight."""
        saved = dict(self._locals)
        self._locals.update(zip(node.variables, variables, strict=True))
        costs = [self.cost(body) for body in node.bodies]
        for body in node.bodies:
            self._sizes.setdefault(id(body), self._size(body))
        self._locals = saved
        return costs

    def _produced(self, node: Macro) -> _Entry:
        if node.name == "filter":
            entry = self._entry(node.target)
            return entry or _Entry(1, UNBOUNDED)
        return _Entry(1, self._sizes.get(id(node.bodies[-1]), UNBOUNDED))


def _step(name: str, bodies: list[int]) -> tuple[int, int]:
    """What one element costs, and the whole however many there are."""
    last, condition = bodies[-1], bodies[0] if len(bodies) == 2 else 0
    match name:
        case "all":
            return _plus(3, last), 1
        case "exists":
            return _plus(4, last), 1
        case "exists_one" | "existsOne":
            return _plus(2, last), 2
        case "filter":
            return _plus(13, last), _LIST + 1
        case "map" | "transformList":
            return _plus(12, last, condition), _LIST + 1
        case "transformMapEntry":
            return _plus(2, last, condition), _MAP + 1
        case _:
            return _plus(3, last, condition), _MAP + 1
