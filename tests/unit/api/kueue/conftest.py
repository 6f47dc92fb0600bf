"""One judge for Kueue's objects: what the API would answer to a write, schema and rules first, then the webhook."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from gpuaas.api.crds import Bundled
from gpuaas.api.kueue.kinds import KINDS
from gpuaas.base.errors import ApiError, Denied, Invalid
from gpuaas.machinery.schema.model import Schema, SchemaSet
from gpuaas.machinery.schema.rules import validate_custom
from gpuaas.machinery.schema.structural import apply_defaults, prune

Judge = Callable[..., str]


@cache
def kind(name: str) -> Bundled:
    return next(bundled for bundled in KINDS if bundled.kind == name)


@cache
def schema(name: str, version: str) -> Schema:
    found = next(entry for entry in kind(name).versions if entry.name == version)
    return SchemaSet(lambda missing: {}[missing]).inline(found.schema())


def read(obj: Mapping[str, Any]) -> dict[str, Any]:
    """As the server reads a request: unknown fields gone, defaults in."""
    version = obj["apiVersion"].partition("/")[2]
    place = schema(obj["kind"], version)
    return apply_defaults(place, prune(place, dict(obj))[0])


@pytest.fixture
def answer() -> Judge:
    """The message of the refusal, or "" for an accepted write."""

    def judge(obj: dict[str, Any], old: dict[str, Any] | None = None, *, status: bool = False) -> str:
        obj = read(obj)
        old = None if old is None else read(old)
        try:
            _write(obj, old, status=status)
        except ApiError as error:
            return error.message
        return ""

    return judge


def _write(obj: dict[str, Any], old: dict[str, Any] | None, *, status: bool) -> None:
    bundled = kind(obj["kind"])
    version = obj["apiVersion"].partition("/")[2]
    if errors := validate_custom(schema(bundled.kind, version), obj, old):
        raise Invalid(bundled.group, bundled.kind, obj["metadata"]["name"], errors)
    behaviour = bundled.behaviour
    if behaviour is None:
        return
    if old is None:
        errors = behaviour.validate(obj)
    elif status:
        errors = behaviour.validate_status_update(obj, old)
    else:
        errors = behaviour.check_update(obj, old)
    if errors:
        raise Denied(behaviour.webhook, errors)
