"""The syntax tree of CEL and the tokens it is read from.

Every node knows the offset where the original reports problems with it: an operator at the operator, a selection at its
dot, a call at its parenthesis. `Problem` gathers what is wrong with an expression and prints it as cel-go does, with
the line and a marker. Reading tokens into a tree is module parser's work.
"""

import re
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Const:
    value: Any
    type: str  # int, uint, double, string, bytes, bool, null
    at: int


@dataclass(frozen=True, slots=True)
class Ident:
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Select:
    operand: "Node"
    field: str
    at: int
    optional: bool = False
    test: bool = False  # has(a.b)


@dataclass(frozen=True, slots=True)
class Call:
    """A function, an operator (`_+_`, `_[_]`, `_?_:_`) or, with a target, a method."""

    function: str
    target: "Node | None"
    args: "tuple[Node, ...]"
    at: int


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: "tuple[tuple[Node, bool], ...]"  # with whether it is optional
    at: int


@dataclass(frozen=True, slots=True)
class MapLiteral:
    entries: "tuple[tuple[Node, Node, bool], ...]"
    at: int


@dataclass(frozen=True, slots=True)
class Macro:
    """A comprehension: `target.name(variables…, bodies…)`."""

    name: str
    target: "Node"
    variables: tuple[str, ...]
    bodies: "tuple[Node, ...]"
    at: int


@dataclass(frozen=True, slots=True)
class StructLiteral:
    """`Object.spec{replicas: 2}`: a value of a named type."""

    name: str
    fields: "tuple[tuple[str, Node, bool], ...]"  # with whether it is optional
    at: int


Node = Const | Ident | Select | Call | ListLiteral | MapLiteral | StructLiteral | Macro


class Problem(Exception):
    """What is wrong with an expression: (offset, sentence) pairs."""

    def __init__(self, source: str, issues: list[tuple[int, str]]) -> None:
        super().__init__()
        self.source = source
        self.issues = issues

    def __str__(self) -> str:
        lines = self.source.splitlines() or [""]
        return "\n".join(self._show(lines, at, text) for at, text in sorted(self.issues))

    def _show(self, lines: list[str], at: int, text: str) -> str:
        row = self.source.count("\n", 0, at)
        column = at - (self.source.rfind("\n", 0, at) + 1)
        line = lines[row] if row < len(lines) else ""
        return f"ERROR: <input>:{row + 1}:{column + 1}: {text}\n | {line}\n | {'.' * column}^"


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # ident, int, uint, float, string, bytes, op, end
    text: str
    at: int
    value: Any = None


RESERVED: Final = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()  # noqa: SIM905
)

_TOKEN: Final = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*)
  | (?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"|'''|"|'))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<int>0[xX][0-9a-fA-F]+|[0-9]+)(?P<unsigned>[uU]?)
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<quoted>`[A-Za-z0-9_./ -]+`)
  | (?P<op>\|\||&&|==|!=|<=|>=|[-+*/%!?:.,()\[\]{}<>])
    """,
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {
    char: char for char in "\\?\"'`"
}


def tokenize(source: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if not found:
            raise Problem(source, [(at, f"Syntax error: token recognition error at: '{source[at]}'")])
        if found.lastgroup == "text":
            token, at = _string(source, found)
            tokens.append(token)
            continue
        if not found.group("skip"):
            tokens.append(_plain(found))
        at = found.end()
    tokens.append(Token("end", "<EOF>", len(source)))
    return tokens


def _plain(found: re.Match[str]) -> Token:
    at = found.start()
    if found.group("float"):
        return Token("float", found.group(), at, float(found.group()))
    if found.group("int"):
        digits = found.group("int")
        number = int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits)
        return Token("uint" if found.group("unsigned") else "int", found.group(), at, number)
    if found.group("ident"):
        return Token("ident", found.group(), at)
    if found.group("quoted"):
        return Token("quoted", found.group(), at, found.group()[1:-1])
    return Token("op", found.group(), at)


def _string(source: str, found: re.Match[str]) -> tuple[Token, int]:
    opening = found.group("text")
    quote = opening.lstrip("rRbB")
    prefix = opening[: len(opening) - len(quote)].lower()
    start = found.end()
    end = _closing(source, start, quote, raw="r" in prefix)
    if end < 0:
        raise Problem(
            source, [(found.start(), f"Syntax error: token recognition error at: '{source[found.start() :]}'")]
        )
    body = source[start:end]
    text = body if "r" in prefix else _unescape(source, body, start, is_bytes="b" in prefix)
    at_end = end + len(quote)
    written = source[found.start() : at_end]
    if "b" in prefix:
        return Token("bytes", written, found.start(), text.encode("utf-8", "surrogateescape")), at_end
    return Token("string", written, found.start(), text), at_end


def _closing(source: str, at: int, quote: str, *, raw: bool) -> int:
    while at < len(source):
        if source.startswith(quote, at):
            return at
        if source[at] == "\n" and len(quote) == 1:
            return -1
        at += 2 if source[at] == "\\" and not raw else 1
    return -1


def _unescape(source: str, body: str, start: int, *, is_bytes: bool) -> str:
    def character(number: int) -> str:
        # A byte that is written as such is no character: it stands for itself until all is encoded.
        return chr(0xDC00 + number) if is_bytes and 127 < number < 256 else chr(number)

    def replace(found: re.Match[str]) -> str:
        digits = found.group(1) or found.group(2) or found.group(3)
        if digits:
            number = int(digits, 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                raise Problem(source, [(start + found.start(), "unable to unescape string")])
            return character(number) if len(digits) == 2 else chr(number)
        if found.group(4):
            return character(int(found.group(4), 8))
        if found.group(5) not in _SIMPLE:
            at = start + found.start()
            raise Problem(source, [(at, f"Syntax error: token recognition error at: '{found.group()}'")])
        return _SIMPLE[found.group(5)]

    return _ESCAPE.sub(replace, body)
