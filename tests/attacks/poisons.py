"""Objects that no controller expects: what an older, looser version, another program or a broken disk may have left in the store.

`drawn` makes them for any kind from its OpenAPI schema; they are written past the API (`inject`), with the server stopped.
Some are well typed and absurdly large, others lack what every object has.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.conformance.hostile import Kind

from gpuaas.base.clock import SystemClock
from gpuaas.store import Store

Object = dict[str, Any]

WIDE = 60_000  # bytes of one drawn object: all kinds together stay a few tens of megabytes
_COUNTS = (3000, 1000, 300, 100, 30, 10, 3, 1)
_DEPTH = 9


def drawn(kind: Kind, namespace: str) -> Iterator[tuple[str, Object]]:
    """(how, object): `bare` has only a name, `hollow` all fields and nothing in them, `wide` the most entries that go
    into `WIDE` bytes, `odd` strings that are no quantity, no time and no name, `owned` thousands of owners."""
    yield "bare", _named(kind, namespace, "bare", {})
    yield "hollow", _named(kind, namespace, "hollow", _filled(kind, 0, ""))
    yield "odd", _named(kind, namespace, "odd", _filled(kind, 1, "no such thing"))
    for count in _COUNTS:
        made = _named(kind, namespace, "wide", _filled(kind, count, "a"))
        if count == 1 or len(json.dumps(made)) <= WIDE:
            yield "wide", made
            break
    owners = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": f"o{each}", "uid": f"o{each}", "controller": each == 0}
        for each in range(300)
    ]
    crowded = {"ownerReferences": owners, "finalizers": [f"example.com/f{each}" for each in range(300)]}
    made = _named(kind, namespace, "owned", _filled(kind, 1, "a"))
    yield "owned", {**made, "metadata": {**made["metadata"], **crowded}}


def inject(store: Path, objects: Iterable[tuple[str, Object]]) -> None:
    """Writes (key, object) pairs into a store nobody has open, past every check."""

    async def write() -> None:
        opened = await Store.open(store, clock=SystemClock(), fsync=False)
        try:
            pending = []
            for key, obj in objects:

                def render(revision: int, obj: Object = obj) -> tuple[bytes, Object]:
                    kept = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
                    return json.dumps(kept, separators=(",", ":")).encode(), kept

                pending.append(opened.put(key, render))
                if len(pending) == 100:
                    await asyncio.gather(*pending)
                    pending.clear()
            await asyncio.gather(*pending)
        finally:
            await opened.close()

    asyncio.run(write())


def key(kind: Kind, obj: Object) -> str:
    meta = obj["metadata"]
    return f"{kind.group}/{kind.plural}/{meta.get('namespace', '')}/{meta['name']}"


def _named(kind: Kind, namespace: str, how: str, filled: Object) -> Object:
    name = f"poison-{how}"
    if kind.kind == "CustomResourceDefinition":
        name = f"poison{how}s.poison.example"
    meta: Object = {
        "name": name,
        "uid": f"poison-{kind.group}-{kind.plural}-{how}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
    }
    if kind.namespaced:
        meta["namespace"] = namespace
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta, **filled}


def _filled(kind: Kind, count: int, text: str) -> Object:
    made = _by_schema(kind.schema, kind.schemas, count, text, _DEPTH)
    assert isinstance(made, dict)
    return {name: part for name, part in made.items() if name not in ("kind", "apiVersion", "metadata")}


def _by_schema(schema: Object, schemas: dict[str, Object], count: int, text: str, depth: int) -> Any:
    while True:
        if "$ref" in schema:
            schema = schemas.get(schema["$ref"].rpartition("/")[2], {})
        elif len(schema.get("allOf") or ()) == 1 and "type" not in schema:
            schema = schema["allOf"][0]
        else:
            break
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return text or 0
    match schema.get("type"):
        case "object":
            return _object(schema, schemas, count, text, depth)
        case "array":
            inner = min(count, 1)
            if depth <= 0:
                return []
            one = _by_schema(schema.get("items") or {}, schemas, inner, text, depth - 1)
            return [_numbered(one, index) for index in range(count)]
        case "integer" | "number":
            return 2**31 - 1 if count else 0
        case "boolean":
            return bool(count)
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" and text == "a" else text
        case _:
            return text


def _object(schema: Object, schemas: dict[str, Object], count: int, text: str, depth: int) -> Object:
    if depth <= 0:
        return {}
    made = {
        name: _by_schema(part, schemas, count, text, depth - 1)
        for name, part in (schema.get("properties") or {}).items()
    }
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        value = _by_schema(extra, schemas, min(count, 1), text, depth - 1)
        made |= {f"key-{index}": value for index in range(count)}
    return made


def _numbered(one: Any, index: int) -> Any:
    return {**one, "name": f"n{index}"} if isinstance(one, dict) and "name" in one else one
