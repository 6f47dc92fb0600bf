"""Long bodies: read in a thread, and then the same as short ones; and the limits of every body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuaas.apiserver.bodies import prepare, read_object
from gpuaas.apiserver.prepared import OFF_LOOP, Prepared
from gpuaas.base.errors import ApiError, BadRequest, TooLarge

from .conftest import APPLY, JSON, MAPS, MERGE, YAML, Api, config_map

LONG = "x" * OFF_LOOP


@pytest.mark.parametrize(
    ("media", "text"),
    [
        (JSON, json.dumps(config_map("long-json", a=LONG))),
        (YAML, f"metadata: {{name: long-yaml}}\ndata: {{a: {LONG}}}\n"),
    ],
)
def test_a_long_body_is_created_like_a_short_one(api: Api, media: str, text: str) -> None:
    made = api.send("POST", MAPS, text, media)
    assert made.status == 201
    assert made.body["data"] == {"a": LONG}


def test_long_patches_are_applied(api: Api) -> None:
    api.send("POST", MAPS, config_map("long-patch", a="1"))
    merged = api.send("PATCH", f"{MAPS}/long-patch", {"data": {"b": LONG}}, MERGE)
    assert merged.body["data"] == {"a": "1", "b": LONG}
    text = f"apiVersion: v1\nkind: ConfigMap\ndata: {{c: {LONG}}}\n"
    applied = api.send("PATCH", f"{MAPS}/long-patch", text, APPLY, fieldManager="m")
    assert applied.body["data"] == {"a": "1", "b": LONG, "c": LONG}


@pytest.mark.parametrize(
    ("media", "text", "words"),
    [
        (JSON, '{"metadata":{"name":"z"},"data":{"b":"1","b":"2","a":"%s"}}', 'duplicate field "data.b"'),
        (YAML, "metadata: {name: z}\ndata:\n  b: '1'\n  b: '2'\n  a: %s", 'line 4: key "b" already set in map'),
        (JSON, '{"metadata":{"name":"z"},"new":1,"data":{"a":"%s"}}', 'unknown field "new"'),
    ],
)
def test_keys_that_came_twice_are_noticed_in_long_bodies(api: Api, media: str, text: str, words: str) -> None:
    answer = api.send("POST", MAPS, text % LONG, media, fieldValidation="Strict")
    assert answer.status == 400
    assert words in answer.message


@pytest.mark.parametrize("text", ['{"data":{"a":"%s"', "%s", '["%s"]'])
def test_a_long_broken_body_is_refused_in_the_words_of_a_short_one(api: Api, text: str) -> None:
    long, short = api.send("POST", MAPS, text % LONG), api.send("POST", MAPS, text % "x")
    assert long.status == short.status == 400
    assert long.message.partition(" (")[0] == short.message.partition(" (")[0]


def test_a_prepared_body_may_be_read_more_than_once() -> None:
    made = prepare(b'{"kind":"A","metadata":{}}', JSON, ("v1", "A"))
    first = read_object(made, JSON, "A")
    first["metadata"]["name"] = "changed"
    assert read_object(made, JSON, "A") == {"kind": "A", "metadata": {}}
    assert isinstance(made, Prepared)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"[" + b"[]," * 200_000 + b"1]", TooLarge, "the limit is 200000 keys and values, found "),
        (b'{"' + b"k" * 40_000 + b'":1}', BadRequest, "a key of an object has 40000 characters, the limit is 4096"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, BadRequest, "exceeded max depth: the limit is 200"),
    ],
)
def test_a_refusal_names_the_limit(body: bytes, kind: type[ApiError], words: str) -> None:
    for given in (body, prepare(body, JSON, ("v1", "A"))):
        with pytest.raises(kind) as refused:
            read_object(given, JSON, "A")
        assert words in refused.value.message


def test_warnings_are_cut_off_where_they_are_long(api: Api) -> None:
    data: dict[str, Any] = {f"field-{index:090}": 1 for index in range(60)}
    answer = api.send("POST", MAPS, {**config_map("warned"), **data}, dryRun="All")
    assert answer.status == 201
    assert 0 < sum(map(len, answer.warnings)) < 6_000
