"""Schemas of third-party kinds, read from data: `schemas/FILE.json` has one entry for each kind and each part of it.

An entry is an OpenAPI schema of an object, without `type: object`, in which a place may be

- `{"part": "Name"}` or `{"part": "FILE:Name"}`: another entry, of this file or of another;
- `{"builtin": "api.core.v1.PodTemplateSpec"}`: a type of Kubernetes itself, written out in full (module expansion).

Keywords beside either are added to what it stands for. `"embeds": "api.core.v1.PodSpec"` gives an entry the fields of
that type as well, as Go embeds structs. Entries are built once and shared; treat results as read-only.
"""

import pkgutil
from functools import cache
from typing import Any

import msgspec

from gpuaas.api.crds import whole_object
from gpuaas.api.expansion import expanded
from gpuaas.api.kinds import Object


def kind_schema(file: str, kind: str) -> Object:
    """The structural schema of a kind; KeyError if there is none."""
    return whole_object(_entry(file, kind))


@cache
def _entries(file: str) -> dict[str, Object]:
    data = pkgutil.get_data(__package__, f"schemas/{file}.json")
    if data is None:
        raise KeyError(file)
    entries: dict[str, Object] = msgspec.json.decode(data)
    return entries


@cache
def _entry(file: str, name: str) -> Object:
    said = _entries(file)[name]
    schema: Object = {"type": "object", **{key: value for key, value in said.items() if key != "embeds"}}
    embedded = expanded(f"io.k8s.{said['embeds']}")["properties"] if "embeds" in said else {}
    properties = {**embedded, **{key: _place(file, place) for key, place in said.get("properties", {}).items()}}
    if properties:
        schema["properties"] = dict(sorted(properties.items()))
    return schema


def _place(file: str, place: Object) -> Object:
    here: dict[str, Any] = {key: value for key, value in place.items() if key not in ("part", "builtin")}
    for key in ("items", "additionalProperties"):
        if isinstance(here.get(key), dict):
            here[key] = _place(file, here[key])
    if "builtin" in place:
        return {**expanded(f"io.k8s.{place['builtin']}"), **here}
    if "part" in place:
        other, _, name = place["part"].rpartition(":")
        return {**_entry(other or file, name), **here}
    return here
