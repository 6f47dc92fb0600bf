"""Protobuf numbers of the built-in types: Go clients send built-in kinds as protobuf and do not fall back to JSON.

A field's number is its place in its table, except for the types listed in `types/protobuf.numbers`; `2.1` is field 1 of
the message in field 2: what Go embeds is flat in JSON and a message of its own here.
"""

import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Final

from gpuaas.api.kubernetes.schemas import TABLES, schema_source

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
Numbers = Mapping[str, tuple[int, ...]]


@cache
def wire_numbers(name: str) -> Numbers:
    """The numbers of the fields of a type such as `io.k8s.api.core.v1.Volume`; KeyError if there is no such type."""
    prefix, _, short = name.rpartition(".")
    listed = _exceptions().get((TABLES[prefix][0], short))
    if listed is not None:
        return listed
    fields = [
        key for key in schema_source(name).get("properties", {}) if key not in ("kind", "apiVersion") or _own(name)
    ]
    return {key: (place,) for place, key in enumerate(fields, 1)}


def wire_type(api_version: str, kind: str) -> str | None:
    """The name of the type a protobuf body says it is."""
    group, _, version = api_version.rpartition("/")
    for prefix, (_, its_group, its_version) in TABLES.items():
        if (its_group, its_version) == (group, version) and prefix != _META and _exists(f"{prefix}.{kind}"):
            return f"{prefix}.{kind}"
    return f"{_META}.{kind}" if _exists(f"{_META}.{kind}") else None


def _own(name: str) -> bool:
    """Whether `kind` and `apiVersion` are the type's own fields, not those every object has."""
    return "x-kubernetes-group-version-kind" not in schema_source(name)


def _exists(name: str) -> bool:
    try:
        schema_source(name)
    except KeyError:
        return False
    return True


@cache
def _exceptions() -> dict[tuple[str, str], Numbers]:
    data = pkgutil.get_data(__package__, "types/protobuf.numbers") or b""
    found: dict[tuple[str, str], Numbers] = {}
    for line in data.decode().splitlines():
        table, short, *fields = line.split()
        found[table, short] = {
            key: tuple(int(step) for step in number.split("."))
            for key, _, number in (field.partition("=") for field in fields)
        }
    return found
