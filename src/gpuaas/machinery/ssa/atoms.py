"""What server-side apply needs to know of one place: may it hold a map, a list, a scalar, and who may own parts of it.

An `Atom` is a `Schema` seen so. It is made on first use, one for each place, and its parts on first descent, because
types contain themselves. A place without a type may hold anything (`for_value` decides by what it does hold): its maps
are granular, its lists atomic. Reading values by atoms is the business of modules compare, typed, merge and removal.
"""

from typing import Any, Final

from gpuaas.base.memo import Repeats
from gpuaas.machinery.schema.model import MISSING, Schema
from gpuaas.machinery.ssa.elements import key_element, one_string_key, value_element

QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
RAW_EXTENSION: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
ZERO: Final = {"string": "", "integer": 0, "number": 0, "boolean": False}


class TypedError(Exception):
    """A value that its schema does not allow: (path, text) pairs, printed as structured-merge-diff does."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        texts = [f"{path}: {text}" if path else text for path, text in problems]
        super().__init__(texts[0] if len(texts) == 1 else "\n  ".join(["errors:", *texts]))


class ScalarAtom:
    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind  # numeric, string, boolean, untyped


class MapAtom:
    """A map or a struct. `fields` are the declared ones; `element` is what all others are, None if there may be none."""

    __slots__ = ("_inherits", "atomic", "element", "fields", "known", "shapes", "specs")

    def __init__(self, fields: dict[str, Schema], element: "Atom | None", atomic: bool, inherits: bool) -> None:
        self.fields = fields
        self.element = element
        self.atomic = atomic
        self._inherits = inherits
        self.known: dict[str, tuple[str, Atom]] = {}  # declared fields that were looked up before
        # Module compare keeps here the sets of common structs and, for roots, those of specs that objects began with.
        self.shapes: dict[tuple[str, ...], dict[str, Any]] = {}
        self.specs = Repeats[dict[str, Any]]()

    def child(self, name: str) -> "tuple[str, Atom]":
        """A key's element and atom. An undeclared key of a closed struct is read as untyped: `validate` reports it."""
        known = self.known.get(name)
        if known is not None:
            return known
        schema = self.fields.get(name)
        if schema is None:
            return f"f:{name}", self.element or DEDUCED
        made = f"f:{name}", atom_of(schema, inherits=self._inherits)
        self.known[name] = made
        return made


class ListAtom:
    """A list: atomic, or associative: a map by `keys`, a set without."""

    __slots__ = ("_inherits", "_item", "_only_key", "_schema", "associative", "keys")

    def __init__(self, item: "Schema | None", keys: tuple[str, ...], associative: bool, inherits: bool) -> None:
        self.keys = keys
        self._only_key = keys[0] if len(keys) == 1 else ""
        self.associative = associative
        self._schema = item
        self._inherits = inherits
        self._item: Atom | None = None

    @property
    def item(self) -> "Atom":
        if self._item is None:
            self._item = UNTYPED if self._schema is None else atom_of(self._schema, inherits=self._inherits)
        return self._item

    def element(self, item: Any) -> str:
        """The path element of one item. Raises ValueError with the reason if it has none."""
        if self._only_key and type(item) is dict:
            value = item.get(self._only_key)
            if type(value) is str:
                return one_string_key(self._only_key, value)
        if not self.keys:
            return _set_element(item)
        if not isinstance(item, dict):
            what = "a null element" if item is None else "non-map elements"
            raise ValueError(f"associative list with keys may not have {what}")
        fields = []
        for name in self.keys:
            if name in item:
                fields.append((name, item[name]))
            else:
                default = self._key_default(name)
                if default is not None:
                    fields.append((name, default))
        if not fields:
            names = " ".join(f'"{name}"' for name in self.keys)
            raise ValueError(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return key_element(fields)

    def _key_default(self, name: str) -> Any:
        node = self.item.map
        if node is None:
            raise ValueError(f"couldn't find default value for {name}: associative list may not have non-map types")
        field = node.fields.get(name)
        if field is None or field.default is not MISSING:
            return None if field is None else field.default
        return ZERO.get(field.type) if field.zero == "always" else None  # Go's zero is the default of what it writes


def _set_element(item: Any) -> str:
    match item:
        case dict():
            raise ValueError("associative list without keys has an element that's a map type")
        case list():
            raise ValueError("not supported: associative list with lists as elements")
        case None:
            raise ValueError("associative list without keys has an element that's an explicit null")
        case _:
            return value_element(item)


Node = ScalarAtom | MapAtom | ListAtom


class Atom:
    """The sorts of value a place may hold. A null is read as a map where it may be one, then as a scalar."""

    __slots__ = ("blank", "for_dict", "for_list", "for_null", "for_scalar", "list", "map", "scalar", "schema")

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = schema
        self.blank: Any = None  # module blank keeps its result here
        self.scalar: ScalarAtom | None = None
        self.map: MapAtom | None = None
        self.list: ListAtom | None = None
        self.for_dict: Node = _ANY
        self.for_list: Node = _ANY
        self.for_scalar: Node = _ANY
        self.for_null: Node = _ANY

    def fill(
        self, *, scalar: ScalarAtom | None = None, map: MapAtom | None = None, list: ListAtom | None = None
    ) -> None:
        self.scalar, self.map, self.list = scalar, map, list
        fallback: Node = map or scalar or list or _ANY
        self.for_dict = map or fallback
        self.for_list = list or fallback
        self.for_scalar = scalar or fallback
        self.for_null = fallback

    def for_value(self, value: Any) -> Node:
        kind = type(value)
        if kind is dict:
            return self.for_dict
        if kind is list:
            return self.for_list
        return self.for_null if value is None else self.for_scalar


_ANY: Final = ScalarAtom("untyped")

UNTYPED: Final = Atom()  # anything, owned as a whole
UNTYPED.fill(scalar=_ANY, map=MapAtom({}, UNTYPED, True, False), list=ListAtom(None, (), False, False))
DEDUCED: Final = Atom()  # anything, maps owned by key
DEDUCED.fill(scalar=_ANY, map=MapAtom({}, DEDUCED, False, False), list=ListAtom(None, (), False, False))


def atom_of(schema: Schema, *, inherits: bool = False) -> Atom:
    """The atom of a place. `inherits`: it lies inside one whose unknown fields are kept, and is not a named type."""
    if inherits and not schema.name:
        return _make(schema, keeps=True)
    known: Atom | None = schema.compiled.get("atom")
    if known is None:
        known = schema.compiled["atom"] = _make(schema, keeps=False)
    return known


def _make(schema: Schema, *, keeps: bool) -> Atom:
    if schema.name == RAW_EXTENSION:
        return UNTYPED
    keeps = keeps or schema.preserve_unknown
    atom = Atom(schema)
    if schema.name == QUANTITY or (schema.int_or_string and schema.type in ("", "string")):
        atom.fill(scalar=_ANY)
    else:
        _fill(atom, schema, keeps)
    return atom


def _fill(atom: Atom, schema: Schema, keeps: bool) -> None:
    match schema.type:
        case "object":
            atom.fill(map=_map(schema, keeps))
        case "array":
            atom.fill(list=_list(schema, keeps))
        case "integer" | "number":
            atom.fill(scalar=ScalarAtom("numeric"))
        case "boolean":
            atom.fill(scalar=ScalarAtom("boolean"))
        case "string":
            atom.fill(scalar=ScalarAtom("string") if schema.format in ("", "byte") else _ANY)
        case _:
            atom.fill(scalar=_ANY, map=_map(schema, keeps), list=_list(schema, keeps))


def _map(schema: Schema, keeps: bool) -> MapAtom:
    extra = schema.additional
    element: Atom | None
    if extra is None:
        closed = schema.source.get("additionalProperties") is False or (schema.properties and not keeps)
        element = None if closed else DEDUCED
    elif extra.preserve_unknown and not extra.type and not extra.properties:
        element = DEDUCED  # additionalProperties: true
    else:
        element = atom_of(extra, inherits=keeps)
    return MapAtom(schema.properties, element, schema.map_type == "atomic", keeps)


def _list(schema: Schema, keeps: bool) -> ListAtom:
    if "x-kubernetes-list-type" not in schema.source and schema.list_type == "atomic":
        merges = "merge" in schema.patch_strategy.split(",")
        merge_key = (schema.patch_key,) if merges and schema.patch_key else ()
        return ListAtom(schema.items, merge_key, merges, keeps)
    keys = schema.list_keys if schema.list_type == "map" else ()
    return ListAtom(schema.items, keys, schema.list_type != "atomic", keeps)
