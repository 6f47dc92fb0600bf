"""What is wrong with a text that is not JSON, in the words of Go's scanner.

Called only for texts that a decoder has already refused, so it reads byte by byte and stops at the first mistake.
Whether the value is of the right type is module schema.decode's question.
"""

import re
from typing import Final

END: Final = "unexpected end of JSON input"
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_DIGITS: Final = re.compile(rb"[0-9]*")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_ESCAPES: Final = b'bfnrt\\/"'
# What follows a backslash: a surrogate pair, half of one, or anything else (a backslash too, so that it hides nothing).
_ESCAPED: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_HEX: Final = b"0123456789abcdefABCDEF"
_MAX_DEPTH: Final = 10_000


def json_problem(text: bytes) -> str:
    """Go's sentence about the text; "" where Go would find nothing wrong with it."""
    try:
        at = _values(text)
    except _Mistake as mistake:
        return str(mistake)
    at = _skip(text, at)
    return "" if at == len(text) else f"invalid character {_shown(text[at])} after top-level value"


class _Mistake(Exception):
    """The first thing that is wrong."""


def _values(text: bytes) -> int:
    """Walks one value with all it holds, without recursion; returns where it ends."""
    closers: list[int] = []
    at = 0
    while True:
        at = _skip(text, at)
        first = _at(text, at)
        if first in b"{[":
            closers.append(ord("}") if first == ord("{") else ord("]"))
            if len(closers) > _MAX_DEPTH:
                raise _Mistake("exceeded max depth")
            at = _skip(text, at + 1)
            if _at(text, at) != closers[-1]:
                at = _key(text, at) if closers[-1] == ord("}") else at
                continue
            closers.pop()
            at += 1
        else:
            at = _scalar(text, at)
        at, more = _after_value(text, at, closers)
        if not more:
            return at


def _after_value(text: bytes, at: int, closers: list[int]) -> tuple[int, bool]:
    """Behind a value: closes what ends here; whether another value follows, and where it is."""
    while closers:
        at = _skip(text, at)
        found = _at(text, at)
        if found == closers[-1]:
            closers.pop()
            at += 1
        elif found == ord(","):
            at = _skip(text, at + 1)
            return (_key(text, at) if closers[-1] == ord("}") else at), True
        else:
            place = "object key:value pair" if closers[-1] == ord("}") else "array element"
            raise _Mistake(f"invalid character {_shown(found)} after {place}")
    return at, False


def _key(text: bytes, at: int) -> int:
    if _at(text, at) != ord('"'):
        raise _Mistake(f"invalid character {_shown(text[at])} looking for beginning of object key string")
    at = _skip(text, _string(text, at))
    if _at(text, at) != ord(":"):
        raise _Mistake(f"invalid character {_shown(text[at])} after object key")
    return at + 1


def _scalar(text: bytes, at: int) -> int:
    first = text[at]
    if first == ord('"'):
        return _string(text, at)
    if first in _LITERALS:
        return _literal(text, at, _LITERALS[first])
    if first == ord("-") or first in b"0123456789":
        return _number(text, at)
    raise _Mistake(f"invalid character {_shown(first)} looking for beginning of value")


def _literal(text: bytes, at: int, word: bytes) -> int:
    for offset, expected in enumerate(word):
        found = _at(text, at + offset)
        if found != expected:
            wanted = f"(expecting {_shown(expected)})"
            raise _Mistake(f"invalid character {_shown(found)} in literal {word.decode()} {wanted}")
    return at + len(word)


def _string(text: bytes, at: int) -> int:
    at += 1
    while True:
        at = _match(_PLAIN, text, at)
        found = _at(text, at)
        if found == ord('"'):
            return at + 1
        if found != ord("\\"):
            raise _Mistake(f"invalid character {_shown(found)} in string literal")
        escape = _at(text, at + 1)
        at += 2
        if escape == ord("u"):
            for offset in range(4):
                if _at(text, at + offset) not in _HEX:
                    raise _Mistake(f"invalid character {_shown(text[at + offset])} in \\u hexadecimal character escape")
            at += 4
        elif escape not in _ESCAPES:
            raise _Mistake(f"invalid character {_shown(escape)} in string escape code")


def _number(text: bytes, at: int) -> int:
    if text[at] == ord("-"):
        at += 1
        if _at(text, at) not in b"0123456789":
            raise _Mistake(f"invalid character {_shown(text[at])} in numeric literal")
    at = at + 1 if text[at] == ord("0") else _match(_DIGITS, text, at)
    if text[at : at + 1] == b".":
        at = _digits(text, at + 1, "after decimal point in numeric literal")
    if text[at : at + 1] in (b"e", b"E"):
        at += 2 if text[at + 1 : at + 2] in (b"+", b"-") else 1
        at = _digits(text, at, "in exponent of numeric literal")
    return at


def _digits(text: bytes, at: int, place: str) -> int:
    if _at(text, at) not in b"0123456789":
        raise _Mistake(f"invalid character {_shown(text[at])} {place}")
    return _match(_DIGITS, text, at)


def _skip(text: bytes, at: int) -> int:
    return _match(_SPACE, text, at)


def _match(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _at(text: bytes, at: int) -> int:
    if at >= len(text):
        raise _Mistake(END)
    return text[at]


def _shown(byte: int) -> str:
    """A byte as Go quotes a character."""
    known = {0x27: "'\\''", 0x5C: "'\\\\'", 0x0A: "'\\n'", 0x0D: "'\\r'", 0x09: "'\\t'"}
    if byte in known:
        return known[byte]
    short = {0x07: "\\a", 0x08: "\\b", 0x0B: "\\v", 0x0C: "\\f"}
    char = chr(byte)
    if byte in short:
        return f"'{short[byte]}'"
    if char.isprintable() and byte != 0xA0:
        return f"'{char}'"
    return f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"


def whole_characters(body: bytes) -> bytes:
    """The JSON text with the replacement character for every half of a surrogate pair, as Go reads it."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPED.sub(lambda found: b"\\ufffd" if found[1] else found[0], body)
