"""From a tree to a function: types are checked and closures are made in one walk.

`compile_expression` gives an `Expression` that can be run with values for its variables, or raises `Problem` with all
that is wrong, in cel-go's words. A rule that uses something Kubernetes has and we do not raises `Unsupported` instead:
its author did nothing wrong.

Logic absorbs errors as CEL demands: `a || b` is true if either is, whatever happens to the other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.machinery.schema.cel import (  # noqa: F401  they fill the table
    library_authorization,
    library_formats,
    library_kubernetes,
    library_text,
)
from gpuaas.machinery.schema.cel.budget import is_free
from gpuaas.machinery.schema.cel.closures import (
    Run,
    direct,
    dispatched,
    equality,
    field_of,
    field_of_variable,
    junction,
    optional_field,
    presence,
    variable,
)
from gpuaas.machinery.schema.cel.library import FUNCTIONS, Overload, read_time
from gpuaas.machinery.schema.cel.library_text import format_problem
from gpuaas.machinery.schema.cel.macros import compile_macro
from gpuaas.machinery.schema.cel.parser import parse
from gpuaas.machinery.schema.cel.syntax import (
    Call,
    Const,
    Ident,
    ListLiteral,
    Macro,
    MapLiteral,
    Node,
    Problem,
    Select,
    StructLiteral,
)
from gpuaas.machinery.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    Bindings,
    Type,
    assign,
    list_of,
    map_of,
    meets_text,
    optional_of,
    substitute,
)
from gpuaas.machinery.schema.cel.values import (
    NO_OVERLOAD,
    CelError,
    TypeValue,
    UInt,
    parse_span,
)
from gpuaas.machinery.schema.gopattern import BadPattern, go_regex

Typed = tuple[Type, Run]
# The variable that keeps, by its id, what was written as a value of which type: at run time it is a map like others.
STRUCTS: Final = "{}"

CONSTANTS: Final = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "bool": BOOL,
    "null": NULL,
}
_LITERALS: Final[dict[str, Callable[[str], Any]]] = {
    "matches": go_regex,
    "duration": parse_span,
    "timestamp": read_time,
}
_UNSUPPORTED: Final = "google.protobuf."  # values of these types, written down
_NOTHING: Final = "optional_type(dyn)"  # an optional value that is not there
_OF_PATCHES: Final = "jsonpatch."  # functions for expressions that make patches
_OPAQUE: Final = ("kubernetes.", "net.")  # values without fields, whose types are not described
_LOOK_NO_FURTHER: Final = frozenset(("size", "_[_]", "_[?_]"))  # than the list or the map itself
_TYPE_NAMES: Final = frozenset((*CONSTANTS, "list", "map", "type", "null_type")) - {"null"}


class Unsupported(Exception):
    """The expression needs something of Kubernetes' CEL that is not here; the text names it."""


@dataclass(frozen=True, slots=True)
class Expression:
    source: str
    type: Type
    run: Run
    uses: frozenset[str]  # the variables it reads
    meets_text: bool  # it may meet a value that is text in JSON and something else here


def compile_expression(
    source: str,
    variables: Mapping[str, Type],
    structs: Callable[[str], Type | None] | None = None,
    library: Mapping[str, list[Overload]] | None = None,
) -> Expression:
    """`structs` knows the types whose values may be written down: by their name, None where there is no such type.
    `library` holds functions that only this expression may call, beside those of every expression."""
    compiler = Compiler(source, variables)
    compiler.library = library or {}
    compiler.structs = structs
    try:
        type_, run = compiler.compile(parse(source))
    except RecursionError:
        raise Problem(source, [(0, "expression recursion limit exceeded")]) from None
    if not compiler.issues:
        compiler.issues = compiler.mixed
    if compiler.missing and not compiler.issues:
        raise Unsupported(", ".join(sorted(compiler.missing)))
    if compiler.issues:
        raise Problem(source, compiler.issues)
    return Expression(source, type_, run, frozenset(compiler.used), compiler.meets_text)


def types_of(source: str, variables: Mapping[str, Type]) -> tuple[Node, dict[int, Type]]:
    """The tree of an expression that compiles, and the types of its parts by their ids."""
    compiler = Compiler(source, variables)
    compiler.types = {}
    tree = parse(source)
    compiler.compile(tree)
    return tree, compiler.types


def _nothing(_env: dict[str, Any]) -> Any:
    return None


class Compiler:
    def __init__(self, source: str, variables: Mapping[str, Type]) -> None:
        self.source = source
        # What an identifier means: its type and the name of its slot (names may be shadowed, slots are not).
        self.scope: dict[str, tuple[Type, str]] = {name: (type_, name) for name, type_ in variables.items()}
        self.issues: list[tuple[int, str]] = []
        self.missing: set[str] = set()
        self.used: set[str] = set()
        self.slots = 0
        self.meets_text = False
        self.structs: Callable[[str], Type | None] | None = None
        self.library: Mapping[str, list[Overload]] = {}
        self.mixes = False  # whether literals here may hold values of several types
        self.mixed: list[tuple[int, str]] = []  # those that do and may not: reported where nothing else is wrong
        self.types: dict[int, Type] | None = None  # of the parts, when they are needed
        self._known: dict[int, Type] = {}  # of the parts of what is formatted
        self._variables: dict[Run, str] = {}  # the slots of those parts that only read a variable
        self._junctions: dict[Run, tuple[bool, list[Run]]] = {}  # what the parts that are logic decide by

    def issue(self, at: int, text: str) -> Typed:
        self.issues.append((at, text))
        return ERROR, _nothing

    def compile(self, node: Node) -> Typed:
        type_, run = self._compile(node)
        if type_ in (TIMESTAMP, DURATION, BYTES):
            self.meets_text = True
        if self.types is not None:
            self.types[id(node)] = type_
        if self.mixes:
            self._known[id(node)] = type_
        return type_, run

    def _compile(self, node: Node) -> Typed:
        match node:
            case Const():
                return _constant(node)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case StructLiteral():
                return self._struct(node)
            case Macro():
                return compile_macro(self, node)
            case Call(function="_&&_" | "_||_"):
                return self._logic(node)
            case Call(function="_?_:_"):
                return self._conditional(node)
            case Call():
                return self._call(node)

    def _ident(self, node: Ident) -> Typed:
        found = self.scope.get(node.name)
        if found is None:
            if node.name in _TYPE_NAMES:
                value = TypeValue("null" if node.name == "null_type" else node.name)
                return TYPE, lambda _env: value
            return self.issue(node.at, f"undeclared reference to '{node.name}' (in container '')")
        type_, slot = found
        self.used.add(node.name)
        run = variable(slot)
        self._variables[run] = slot
        return type_, run

    def _select(self, node: Select) -> Typed:
        dotted = f"{node.operand.name}.{node.field}" if isinstance(node.operand, Ident) else ""
        if dotted in self.scope and not node.test:  # a variable whose name has two parts
            return self._ident(Ident(dotted, node.at))
        type_, operand = self.compile(node.operand)
        through = type_.name == "optional_type"
        inner = type_.params[0] if through else type_
        result, key = self._field(inner, node)
        null_is_absent = inner.fields is not None
        if node.test:
            return BOOL, presence(operand, key, null_is_absent=null_is_absent, through=through)
        if node.optional or through:
            return optional_of(result), optional_field(operand, key, null_is_absent=null_is_absent, through=through)
        if operand in self._variables:
            return result, field_of_variable(self._variables[operand], key, null_is_absent=null_is_absent)
        return result, field_of(operand, key, null_is_absent=null_is_absent)

    def _field(self, type_: Type, node: Select) -> tuple[Type, str]:
        """The type of a field and its name in the object."""
        if type_.fields is not None:
            if node.field in type_.fields:
                name, result = type_.fields[node.field]
                return result, name
            self.issue(node.at, f"undefined field '{node.field}'")
            return ERROR, node.field
        if type_.name == "map":
            return type_.params[1], node.field
        if type_ not in (DYN, ERROR):
            why = f"type '{type_}' does not support field selection"
            if type_.name.startswith(_OPAQUE):
                why = f"unexpected failed resolution of '{type_}'"
            self.issue(node.at, why)
            return ERROR, node.field
        return DYN, node.field

    def _list(self, node: ListLiteral) -> Typed:
        item: Type | None = None
        parts: list[tuple[Run, bool]] = []
        for part, optional in node.items:
            type_, run = self.compile(part)
            item = self._homogeneous(item, _unwrapped(type_) if optional else type_, part, optional=optional)
            parts.append((run, optional))

        def build(env: dict[str, Any]) -> list[Any]:
            out: list[Any] = []
            for run, optional in parts:
                value = run(env)
                if not optional:
                    out.append(value)
                elif value.present:
                    out.append(value.value)
            return out

        return list_of(A if item is None else item), build

    def _map(self, node: MapLiteral) -> Typed:
        key_type: Type | None = None
        value_type: Type | None = None
        parts: list[tuple[Run, Run, bool]] = []
        for key, value, optional in node.entries:
            (of_key, run_key), (of_value, run_value) = self.compile(key), self.compile(value)
            key_type = self._homogeneous(key_type, of_key, key)
            of_value = _unwrapped(of_value) if optional else of_value
            value_type = self._homogeneous(value_type, of_value, value, optional=optional)
            parts.append((run_key, run_value, optional))

        def build(env: dict[str, Any]) -> dict[Any, Any]:
            out: dict[Any, Any] = {}
            for run_key, run_value, optional in parts:
                value = run_value(env)
                if not optional:
                    out[run_key(env)] = value
                elif value.present:
                    out[run_key(env)] = value.value
            return out

        return map_of(key_type or DYN, value_type or DYN), build

    def _struct(self, node: StructLiteral) -> Typed:
        type_ = self.structs(node.name) if self.structs is not None else None
        parts = [(name, self.compile(value)[1], optional) for name, value, optional in node.fields]
        if type_ is None and node.name.startswith(_UNSUPPORTED):
            self.missing.add(node.name)
            return DYN, _nothing
        if type_ is None:
            return self.issue(node.at, f"undeclared reference to '{node.name}' (in container '')")

        def build(env: dict[str, Any]) -> dict[str, Any]:
            out: dict[str, Any] = {}
            for name, run, optional in parts:
                value = run(env)
                if not optional:
                    out[name] = value
                elif value.present:
                    out[name] = value.value
            if STRUCTS in env:
                env[STRUCTS][id(out)] = out, node.name
            return out

        return type_, build

    def _homogeneous(self, known: Type | None, given: Type, node: Node, *, optional: bool = False) -> Type | None:
        """All items of a literal have one type; where they differ, it is of any."""
        if optional and given is DYN:  # of a value that is not there
            return known
        if known is None or str(known) == _NOTHING:
            return given
        if str(given) in (str(known), _NOTHING) or ERROR in (known, given) or _has_parameter(given):
            return known
        if not self.mixes:
            self.mixed.append((node.at, f"expected type '{known}' but found '{given}'"))
        return DYN

    def _logic(self, node: Call) -> Typed:
        (first_type, first), (second_type, second) = (self.compile(arg) for arg in node.args)
        for type_, part in ((first_type, node.args[0]), (second_type, node.args[1])):
            if type_ not in (BOOL, DYN, ERROR):
                self.issue(part.at, f"expected type 'bool' but found '{type_}'")
        decisive = node.function == "_||_"
        sides = [*self._sides(first, decisive), *self._sides(second, decisive)]
        run = junction(sides, decisive=decisive)
        self._junctions[run] = decisive, sides
        return BOOL, run

    def _sides(self, run: Run, decisive: bool) -> list[Run]:
        """`a && b && c` is one question with three sides."""
        found = self._junctions.get(run)
        return found[1] if found is not None and found[0] is decisive else [run]

    def _conditional(self, node: Call) -> Typed:
        (asked, condition), (first_type, first), (second_type, second) = (self.compile(arg) for arg in node.args)
        types = (asked, first_type, second_type)
        bound: Bindings = {}
        fits = asked in (BOOL, DYN, ERROR) and assign(A, first_type, bound) and assign(A, second_type, bound)
        if not fits:
            return self.no_overload("_?_:_", types, node.at)

        def choose(env: dict[str, Any]) -> Any:
            answer = condition(env)
            if answer.__class__ is not bool:
                raise CelError(NO_OVERLOAD)
            return first(env) if answer else second(env)

        return bound.get(A, DYN), choose

    def no_overload(self, function: str, types: tuple[Type, ...], at: int, *, method: bool = False) -> Typed:
        if ERROR in types:  # said already
            return ERROR, _nothing
        shown = [_shown(type_) for type_ in types]
        given = f"{shown[0]}.({', '.join(shown[1:])})" if method else f"({', '.join(shown)})"
        return self.issue(at, f"found no matching overload for '{function}' applied to '{given}'")

    def _call(self, node: Call) -> Typed:
        name, target = node.function, node.target
        qualified = self._qualified(node)
        if qualified is not None:
            name, target = qualified, None
        known = [*FUNCTIONS.get(name, ()), *self.library.get(name, ())]
        overloads = [each for each in known if each.method == (target is not None)]
        if not overloads:
            self.issue(node.at, f"undeclared reference to '{name}' (in container '')")
        nodes = [*([target] if target is not None else []), *node.args]
        arguments = [self._argument(name, arg) for arg in nodes]
        if not overloads:
            return ERROR, _nothing
        self._check_literals(name, node)
        if name == "format" and arguments[1:]:
            self._check_format(node, arguments[1][0])
        return self._resolve(name, overloads, arguments, node)

    def _argument(self, name: str, node: Node) -> Typed:
        """The values for a text to format may be of any types, and so may what they hold."""
        if name != "format":
            return self.compile(node)
        outside, self.mixes = self.mixes, True
        try:
            return self.compile(node)
        finally:
            self.mixes = outside

    def _qualified(self, node: Call) -> str | None:
        """`optional.of(x)` reads like a method of a variable; it is a function with a dotted name."""
        if isinstance(node.target, Ident) and node.target.name not in self.scope:
            name = f"{node.target.name}.{node.function}"
            if name in FUNCTIONS and (self.structs is not None or not name.startswith(_OF_PATCHES)):
                return name
        return None

    def _check_literals(self, name: str, node: Call) -> None:
        """A text that is written in the rule can be read when the rule is."""
        if name not in _LITERALS or not node.args:
            return
        last = node.args[-1]
        if isinstance(last, Const) and last.type == "string":
            try:
                _LITERALS[name](last.value)
            except (CelError, BadPattern):
                self.issue(last.at, f"invalid {name} argument")

    def _check_format(self, node: Call, given: Type) -> None:
        """The same for a template that is written in the rule, with its values."""
        template, values = node.target, node.args[0]
        if not (isinstance(template, Const) and template.type == "string" and isinstance(values, ListLiteral)):
            return
        if given is ERROR or any(optional for _, optional in values.items):
            return
        types = [self._known.get(id(value), DYN).name for value, _ in values.items]
        problem = format_problem(template.value, types)
        if problem is not None:
            at, text = problem
            self.mixed.append((node.at if at < 0 else values.items[at][0].at, text))

    def _resolve(self, name: str, overloads: list[Overload], arguments: list[Typed], node: Call) -> Typed:
        types = tuple(type_ for type_, _ in arguments)
        fitting: list[tuple[Overload, Type]] = []
        for each in overloads:
            bound: Bindings = {}
            if len(each.args) == len(types) and all(
                assign(wanted, given, bound) for wanted, given in zip(each.args, types, strict=True)
            ):
                fitting.append((each, substitute(each.result, bound)))
        if not fitting:
            if name in ("_<_", "_<=_", "_>_", "_>=_", "_==_") and ERROR in types:
                return BOOL, _nothing
            return self.no_overload(name, types, node.at, method=node.target is not None and "." not in name)
        results = {str(result): result for _, result in fitting}
        result = next(iter(results.values())) if len(results) == 1 else DYN
        runs = [run for _, run in arguments]
        certain = len(fitting) == 1 and not any(type_ in (DYN, ERROR) for type_ in types)
        if name not in _LOOK_NO_FURTHER and any(map(meets_text, types)):
            self.meets_text = True
        if name in ("_==_", "_!=_") and len(arguments) == 2:
            second = node.args[-1]
            constant = second.value if isinstance(second, Const) and second.type in ("string", "bool") else None
            return BOOL, equality(types, runs, negated=name == "_!=_", constant=constant)
        if certain:
            return result, direct(name, fitting[0][0].run, runs, free=is_free(name))
        return result, dispatched(name, [each for each, _ in fitting], runs, free=is_free(name))


def _unwrapped(type_: Type) -> Type:
    return type_.params[0] if type_.name == "optional_type" else type_


def _has_parameter(type_: Type) -> bool:
    return type_ is A or any(map(_has_parameter, type_.params))


def _shown(type_: Type) -> str:
    return str(substitute(type_, {}))


def _constant(node: Const) -> Typed:
    value = UInt(node.value) if node.type == "uint" else node.value
    return CONSTANTS[node.type], lambda _env: value
