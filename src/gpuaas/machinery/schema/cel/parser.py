"""Reading a CEL expression into its tree: precedence climbing, and the macros (`has`, `all`, `exists`, `map`, …)."""

from typing import Final

from gpuaas.machinery.schema.cel.syntax import (
    RESERVED,
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
    Token,
    tokenize,
)

_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("<", "<=", ">=", ">", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_STARTS: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
# How many variables and how many expressions each macro may take.
MACROS: Final[dict[str, set[tuple[int, int]]]] = {
    "all": {(1, 1), (2, 1)},
    "exists": {(1, 1), (2, 1)},
    "exists_one": {(1, 1)},
    "existsOne": {(1, 1), (2, 1)},
    "filter": {(1, 1)},
    "map": {(1, 1), (1, 2)},
    "transformList": {(2, 1), (2, 2)},
    "transformMap": {(2, 1), (2, 2)},
    "transformMapEntry": {(2, 1), (2, 2)},
    "sortBy": {(1, 1)},
    "optMap": {(1, 1)},
    "optFlatMap": {(1, 1)},
}
_DEEPEST: Final = 100


def parse(source: str) -> Node:
    parser = _Parser(source)
    node = parser.expression()
    parser.finish()
    return node


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def finish(self) -> None:
        if self.next.kind != "end":
            raise self._wrong(f"extraneous input '{self.next.text}' expecting <EOF>")

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._wrong(f"expression recursion limit exceeded: {_DEEPEST}")
        node = self._binary(0)
        if self._is("?"):
            at = self._take().at
            chosen = self._binary(0)
            self._expect(":")
            node = Call("_?_:_", None, (node, chosen, self.expression()), at)
        self.depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        node = self._binary(level + 1)
        while self.next.text in _LEVELS[level] and self.next.kind in ("op", "ident"):
            operator = self._take()
            right = self._binary(level + 1)
            function = "@in" if operator.text == "in" else f"_{operator.text}_"
            node = Call(function, None, (node, right), operator.at)
        return node

    def _unary(self) -> Node:
        if not (self._is("!") or self._is("-")):
            return self._member(self._primary())
        first = self.next
        count = 0
        while self._is(first.text):
            self._take()
            count += 1
        if first.text == "-" and self.next.kind in ("int", "float") and count == 1:
            token = self._take()
            kind = "int" if token.kind == "int" else "double"
            return self._member(Const(-token.value, kind, first.at))
        node = self._member(self._primary())
        return Call(f"{first.text}_", None, (node,), first.at) if count % 2 else node

    def _member(self, node: Node) -> Node:
        while True:
            if self._is("."):
                node = self._dot(node)
            elif self._is("["):
                at = self._take().at
                optional = self._skip("?")
                index = self.expression()
                self._expect("]")
                node = Call("_[?_]" if optional else "_[_]", None, (node, index), at)
            elif self._is("{") and (name := _type_name(node)):
                node = self._struct(name, self._take())
            else:
                return node

    def _struct(self, name: str, opening: Token) -> Node:
        fields: list[tuple[str, Node, bool]] = []
        while not self._is("}"):
            optional = self._skip("?")
            field = self._take()
            if field.kind not in ("ident", "quoted"):
                raise self._wrong(f"mismatched input '{field.text}' expecting IDENTIFIER", field.at)
            self._expect(":")
            fields.append((field.value if field.kind == "quoted" else field.text, self.expression(), optional))
            if not self._skip(","):
                break
        self._expect("}")
        return StructLiteral(name, tuple(fields), opening.at)

    def _dot(self, operand: Node) -> Node:
        dot = self._take()
        optional = self._skip("?")
        name = self._take()
        if name.kind == "quoted":
            return Select(operand, name.value, dot.at, optional=optional)
        if name.kind != "ident":
            raise self._wrong(f"mismatched input '{name.text}' expecting IDENTIFIER", name.at)
        if optional or not self._is("("):
            return Select(operand, name.text, dot.at, optional=optional)
        opening = self._take()
        arguments = self._arguments(")")
        return self._macro(name.text, operand, arguments, opening.at) or Call(name.text, operand, arguments, opening.at)

    def _macro(self, name: str, target: Node, arguments: tuple[Node, ...], at: int) -> Node | None:
        shapes = MACROS.get(name, set())
        for variables, bodies in sorted(shapes):
            if variables + bodies != len(arguments):
                continue
            names = arguments[:variables]
            plain = [node.name for node in names if isinstance(node, Ident)]
            if len(plain) == variables:
                return Macro(name, target, tuple(plain), arguments[variables:], at)
            if len(shapes) == 1 or variables == 1:
                raise Problem(self.source, [(names[0].at, "argument must be a simple name")])
        return None

    def _primary(self) -> Node:
        token = self._take()
        match token.kind:
            case "int" | "uint" if token.value >= 1 << (63 if token.kind == "int" else 64):
                raise Problem(self.source, [(token.at, f"invalid {token.kind} literal")])
            case "int" | "uint" | "string" | "bytes":
                return Const(token.value, token.kind, token.at)
            case "float":
                return Const(token.value, "double", token.at)
            case "ident":
                return self._name(token)
        match token.text:
            case "(":
                node = self.expression()
                self._expect(")")
                return node
            case "[":
                return self._list(token)
            case "{":
                return self._map(token)
            case "." if self.next.kind == "ident":
                return self._name(self._take())
        raise self._wrong(f"mismatched input '{token.text}' expecting {_STARTS}", token.at)

    def _name(self, token: Token) -> Node:
        match token.text:
            case "true" | "false":
                return Const(token.text == "true", "bool", token.at)
            case "null":
                return Const(None, "null", token.at)
            case text if text in RESERVED:
                raise Problem(self.source, [(token.at, f"reserved identifier: {text}")])
            case "in":
                raise self._wrong(f"mismatched input 'in' expecting {_STARTS}", token.at)
        if not self._is("("):
            return Ident(token.text, token.at)
        opening = self._take()
        arguments = self._arguments(")")
        if token.text != "has":
            return Call(token.text, None, arguments, opening.at)
        if len(arguments) == 1 and isinstance(arguments[0], Select):
            tested = arguments[0]
            return Select(tested.operand, tested.field, opening.at, test=True)
        at = arguments[0].at if arguments else opening.at
        raise Problem(self.source, [(at, "invalid argument to has() macro")])

    def _arguments(self, end: str) -> tuple[Node, ...]:
        arguments: list[Node] = []
        while not self._is(end):
            arguments.append(self.expression())
            if not self._skip(","):
                break
        self._expect(end)
        return tuple(arguments)

    def _list(self, opening: Token) -> Node:
        items: list[tuple[Node, bool]] = []
        while not self._is("]"):
            optional = self._skip("?")
            items.append((self.expression(), optional))
            if not self._skip(","):
                break
        self._expect("]")
        return ListLiteral(tuple(items), opening.at)

    def _map(self, opening: Token) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._is("}"):
            optional = self._skip("?")
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression(), optional))
            if not self._skip(","):
                break
        self._expect("}")
        return MapLiteral(tuple(entries), opening.at)

    def _is(self, text: str) -> bool:
        return self.next.text == text and self.next.kind == "op"

    def _skip(self, text: str) -> bool:
        if self._is(text):
            self.at += 1
            return True
        return False

    def _take(self) -> Token:
        token = self.next
        if token.kind != "end":
            self.at += 1
        return token

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise self._wrong(f"missing '{text}' at '{self.next.text}'")

    def _wrong(self, text: str, at: int | None = None) -> Problem:
        return Problem(self.source, [(self.next.at if at is None else at, f"Syntax error: {text}")])


def _type_name(node: Node) -> str:
    """`Object.spec` as the name of a type; empty for what cannot be one."""
    if isinstance(node, Ident):
        return node.name
    if not isinstance(node, Select) or node.optional or node.test:
        return ""
    above = _type_name(node.operand)
    return above and f"{above}.{node.field}"
