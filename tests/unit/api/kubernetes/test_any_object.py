"""Whatever well-typed object a user sends, the rules answer: with defaults, with complaints, never with an exception."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.api.kubernetes.typed_objects import SCHEMAS, objects

from gpuaas.api.kinds import Kind
from gpuaas.api.kubernetes import builtin_kinds
from gpuaas.api.metadata import validate_metadata, validate_metadata_update
from gpuaas.base.errors import BadRequest
from gpuaas.machinery.schema.decode import normalize

_NOW = 1_767_225_600.0
_STORED = [kind for kind in builtin_kinds() if not kind.virtual]
_QUICK = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _decoded(kind: Kind, sent: Any) -> dict[str, Any] | None:
    sent = {**(sent or {}), "apiVersion": kind.api_version, "kind": kind.kind}
    try:
        return normalize(SCHEMAS.named(kind.schema), sent).obj
    except BadRequest:
        return None


@pytest.mark.parametrize("kind", _STORED, ids=lambda kind: f"{kind.api_version}/{kind.kind}")
@_QUICK
@given(data=st.data())
def test_any_object_gets_an_answer(kind: Kind, data: st.DataObject) -> None:
    obj = _decoded(kind, data.draw(objects(kind.schema)))
    old = _decoded(kind, data.draw(objects(kind.schema)))
    if obj is None or old is None:
        return
    rules = kind.behaviour
    for made in (obj, old):
        rules.default(made)
        rules.prepare_create(made)
    assert isinstance(validate_metadata(obj, kind.namespaced, rules.name_messages), list)
    assert isinstance(rules.validate(obj), list)
    rules.prepare_update(obj, old)
    assert isinstance(validate_metadata_update(obj, old), list)
    assert isinstance(rules.check_update(obj, old), list)
    rules.prepare_status_update(obj, old)
    assert isinstance(rules.validate_status_update(obj, old), list)
    assert set(rules.fields(obj)) <= set(rules.field_selectors)
    if kind.row is not None:
        assert len(kind.row(obj, _NOW)) == len(kind.columns)


@pytest.mark.parametrize("kind", _STORED, ids=lambda kind: f"{kind.api_version}/{kind.kind}")
@_QUICK
@given(data=st.data())
def test_defaults_are_filled_in_once(kind: Kind, data: st.DataObject) -> None:
    obj = _decoded(kind, data.draw(objects(kind.schema)))
    if obj is None:
        return
    kind.behaviour.default(obj)
    once = normalize(SCHEMAS.named(kind.schema), obj).obj
    kind.behaviour.default(once)
    again = normalize(SCHEMAS.named(kind.schema), once).obj
    kind.behaviour.default(again)
    assert again == once
