"""Strict decoding: unknown fields and duplicate fields of an object.

Paths have the form of Kubernetes' strict decoder (`spec.template.spec.containers[0].x`). Both finders run only when
there is a problem: decoding itself keeps no paths. At most a hundred problems are reported, each once.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from gpuaas.machinery.schema.model import Schema
from gpuaas.machinery.schema.paths import NO_PATH, Path, text_of

_MOST: Final = 100
_LONGEST: Final = 64 * 1024  # characters of all paths together
# Which keys an object holds twice, by the object's id; the object is kept so that no other can have its id.
_Doubles = dict[int, tuple[dict[str, Any], set[str]]]


def strict_messages(duplicates: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """The sentences for the Warning header or the error, in the order kube-apiserver tells them."""
    sentences = [f'duplicate field "{path}"' for path in duplicates] + [f'unknown field "{path}"' for path in unknown]
    return sentences[:_MOST]


def strict_messages_in_order(raw: bytes | str, duplicates: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """The same in the order of the text: Go finds both in one pass where it reads into a type."""
    problems = {("duplicate", path) for path in duplicates} | {("unknown", path) for path in unknown}
    tree = json.loads(raw, object_pairs_hook=_Pairs)
    found = dict.fromkeys(each for each in _occurrences(tree, "") if each in problems)
    rest = [each for each in sorted(problems) if each not in found]
    return [f'{what} field "{path}"' for what, path in (*found, *rest)][:_MOST]


class _Pairs(list[tuple[str, Any]]):
    """An object of a JSON text with every key it holds, as often as it does."""


def _occurrences(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            where = f"{path}.{key}" if path else key
            yield ("duplicate" if key in seen else "unknown"), where
            seen.add(key)
            yield from _occurrences(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _occurrences(item, f"{path}[{index}]")


def unknown_fields(schema: Schema, obj: Any) -> list[str]:
    """Paths of what the schema does not know, in the order they appear."""
    return first_paths(_unknown(schema, obj, NO_PATH))


def first_paths(found: Iterable[Path], most: int = _MOST) -> list[str]:
    """The first different paths as text, as many as are worth reading. Only these are put together: a path is as long as
    all the keys on it, which the client chose, and there may be as many as the object has values."""
    texts: dict[str, None] = {}
    size = 0
    for path in found:
        text = text_of(path)
        size += len(text)
        if size > _LONGEST and texts:
            break
        texts[text] = None
        if len(texts) == most:
            break
    return list(texts)


def _unknown(schema: Schema, value: Any, path: Path) -> Iterator[Path]:
    match value:
        case dict() if schema.properties or schema.additional is not None:
            for key, item in value.items():
                place = schema.properties.get(key) or schema.additional
                if place is not None:
                    yield from _unknown(place, item, (path, key))
                elif not schema.preserve_unknown:
                    yield path, key
        case list() if schema.items is not None:
            for index, item in enumerate(value):
                yield from _unknown(schema.items, item, (path, index))


def duplicate_fields(raw: bytes | str, schema: Schema | None = None) -> list[str]:
    """Paths of keys that a JSON text holds twice in one object; with a schema, only of fields it knows.

    Raises ValueError when the text is no JSON.
    """
    doubles: _Doubles = {}

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            doubles[id(made)] = made, {key for key, count in counts.items() if count > 1}
        return made

    tree = json.loads(raw, object_pairs_hook=collect)
    if not doubles:
        return []
    return first_paths(_doubled(tree, doubles, schema, NO_PATH))


def _doubled(value: Any, doubles: _Doubles, schema: Schema | None, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        twice = doubles[id(value)][1] if id(value) in doubles else ()
        for key, item in value.items():
            place = None
            if schema is not None:
                place = schema.properties.get(key) or schema.additional
                if place is None and not schema.preserve_unknown:
                    continue
            if key in twice:
                yield path, key
            yield from _doubled(item, doubles, place, (path, key))
    elif isinstance(value, list):
        items = schema.items if schema is not None else None
        for index, item in enumerate(value):
            yield from _doubled(item, doubles, items, (path, index))
