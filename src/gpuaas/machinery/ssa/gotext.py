"""Values as Go prints them, for messages that carry a value, and as Go writes them in JSON, for names of list elements.

Kubernetes' messages are made with `%v`, and its field sets hold keys such as `k:{"name":"a"}` whose text must be the
same on every server that ever writes it; both spellings live here. Where a value goes is decided by the callers.
"""

import re
from typing import Any

_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", 10: "\\n", 13: "\\r", 9: "\\t"}
_ESCAPES |= {code: f"\\u{code:04x}" for code in range(32) if code not in _ESCAPES}
_ESCAPES |= {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


_ESCAPED = re.compile("[" + "".join(re.escape(chr(code)) for code in _ESCAPES) + "]")


def to_json(value: Any) -> str:
    """JSON with sorted keys and the characters Go escapes for HTML escaped."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value.translate(_ESCAPES) if _ESCAPED.search(value) else value}"'
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case int() | float():
            return str(value)
        case list():
            return f"[{','.join(map(to_json, value))}]"
        case _:
            return "{" + ",".join(f"{to_json(key)}:{to_json(value[key])}" for key in sorted(value)) + "}"


def verb_v(value: Any) -> str:
    """`%v` of an unstructured value: `map[a:1 b:[x y]]`, strings bare."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case int() | float():
            return str(value)
        case list():
            return f"[{' '.join(map(verb_v, value))}]"
        case _:
            return "map[" + " ".join(f"{key}:{verb_v(value[key])}" for key in sorted(value)) + "]"


def verb_q(text: str) -> str:
    """`%q` of a string."""
    plain = {code: escape for code, escape in _ESCAPES.items() if code not in (60, 62, 38, 0x2028, 0x2029)}
    return f'"{text.translate(plain)}"'


def type_name(value: Any) -> str:
    """The Go type a decoded JSON value has: the `%T` of messages."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int64"
        case float():
            return "float64"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"
