"""The steps of a path into an object, in the spelling of fieldsV1: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.

An element is its text; two elements are the same exactly if their texts are (every text is canonical: made here, or
passed through `canonical`). `order` is Kubernetes' order of elements, `show` how conflict messages print them. Sets
made of elements are in module fieldset.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from gpuaas.machinery.ssa.gotext import to_json, verb_q

Order = tuple[Any, ...]
_REMEMBERED = 512  # characters: a longer one would only fill memory


def key_element(fields: list[tuple[str, Any]]) -> str:
    """The element of a list of maps, by its key fields."""
    if len(fields) == 1 and type(fields[0][1]) is str:
        return one_string_key(*fields[0])
    return "k:{" + ",".join(f"{to_json(name)}:{to_json(value)}" for name, value in sorted(fields)) + "}"


def value_element(value: Any) -> str:
    """The element of a set, by its value."""
    if type(value) is str:
        return _string_value(value) if len(value) <= _REMEMBERED else _string_value.__wrapped__(value)
    return f"v:{to_json(value)}"


def one_string_key(name: str, value: str) -> str:
    """The most common element: a list's item by its name."""
    return _one_string_key(name, value) if len(value) <= _REMEMBERED else _one_string_key.__wrapped__(name, value)


@lru_cache(maxsize=8192)
def _one_string_key(name: str, value: str) -> str:
    return f"{_key_start(name)}{to_json(value)}}}"


@lru_cache(maxsize=512)
def _key_start(name: str) -> str:
    return f"k:{{{to_json(name)}:"


@lru_cache(maxsize=8192)
def _string_value(value: str) -> str:
    return f"v:{to_json(value)}"


def canonical(element: str) -> str | None:
    """The canonical spelling of an element that a client wrote; None for a sort of element that is not known, which is
    skipped. Raises ValueError for text that is no element at all."""
    if len(element) < 2:
        raise ValueError("key must be 2 characters long:")
    if element[1] != ":":
        raise ValueError(f"missing colon: {element}")
    match element[0]:
        case "f":
            return element
        case "k":
            fields = _decode(element[2:])
            if not isinstance(fields, dict):
                raise ValueError(f"expected an object: {element}")
            return key_element(list(fields.items()))
        case "v":
            return value_element(_decode(element[2:]))
        case "i":
            return f"i:{int(element[2:])}"
        case _:
            return None


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


def order(element: str) -> Order:
    """Sorts fields, then keys, then values, then indices; numbers by size, not by their digits."""
    return _order(element) if len(element) <= _REMEMBERED else _order.__wrapped__(element)


@lru_cache(maxsize=8192)
def _order(element: str) -> Order:
    match element[0]:
        case "f":
            return (0, element)
        case "k":
            return (1, tuple((name, _value_order(value)) for name, value in sorted(_decode(element[2:]).items())))
        case "v":
            return (2, _value_order(_decode(element[2:])))
        case "i":
            return (3, int(element[2:]))
        case _:  # "." is the node itself
            return (-1,)


def text_order(keys: list[str]) -> Callable[[str], str] | None:
    """A quick way to sort elements that are in the order of their texts and all name one text each, as in lists by name
    and in sets: by that text alone. None where they are of other sorts; "." may be among them, and stays the first."""
    first, last, count = keys[0], keys[-1], len(keys)
    if first == ".":
        first, count = keys[1], count - 1
    if last.startswith('k:{"'):
        start, tail, quotes = last.find(':"') + 2, 2, 4
    elif last.startswith('v:"'):
        start, tail, quotes = 3, 1, 2
    else:
        return None
    whole = "".join(keys)
    if first[:start] != last[:start] or "\\" in whole or whole.count('"') != quotes * count:
        return None
    return lambda key: key[start:-tail]


def _value_order(value: Any) -> Order:
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case list():
            return (3, tuple(map(_value_order, value)))
        case dict():
            return (4, tuple((key, _value_order(value[key])) for key in sorted(value)))
        case _:
            return (5,)


def show(element: str) -> str:
    """`.spec`, `[name="a"]`, `[="a"]`, `[0]`: concatenated they are a path as messages print it."""
    match element[0]:
        case "f":
            return f".{element[2:]}"
        case "k":
            fields = sorted(_decode(element[2:]).items())
            return f"[{','.join(f'{name}={_show_value(value)}' for name, value in fields)}]"
        case "v":
            return f"[={_show_value(_decode(element[2:]))}]"
        case _:
            return f"[{element[2:]}]"


def _show_value(value: Any) -> str:
    match value:
        case str():
            return verb_q(value)
        case list():
            return f"[{','.join(map(_show_value, value))}]"
        case dict():
            return "".join(f"{key}={_show_value(value[key])}" for key in sorted(value))
        case _:
            return to_json(value)
