"""JSONPath of printer columns: where paths lead and how values are printed."""

from typing import Any

import pytest

from gpuaas.machinery.jsonpath import parse_path, printed

OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "annotations": {"example.com/x": "y", "plain": "z"}},
    "spec": {"replicas": 3, "items": [{"n": 1}, {"n": 2}, {"n": 3}], "empty": [], "null": None},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Fine"},
            {"type": "Done", "status": "False"},
        ]
    },
}

FOUND: dict[str, list[Any]] = {
    ".metadata.name": ["a"],
    "{.metadata.name}": ["a"],
    "$.metadata.name": ["a"],
    ".spec.replicas": [3],
    ".spec.missing": [],
    ".spec.missing.more": [],
    ".spec.null": [None],
    ".spec.null.more": [],
    ".spec.items[0].n": [1],
    ".spec.items[-1].n": [3],
    ".spec.items[1:].n": [2, 3],
    ".spec.items[:2].n": [1, 2],
    ".spec.items[::2].n": [1, 3],
    ".spec.items[*].n": [1, 2, 3],
    ".spec.items[0,2].n": [1, 3],
    ".spec.items[9].n": [],
    ".spec.empty[0]": [],
    ".spec.replicas[0]": [],
    ".spec.items.n": [],
    ".metadata.annotations.example\\.com/x": ["y"],
    ".metadata.annotations['example\\.com/x']": ["y"],
    ".metadata.annotations['plain']": ["z"],
    '.status.conditions[?(@.type=="Ready")].status': ["True"],
    ".status.conditions[?(@.type=='Done')].status": ["False"],
    '.status.conditions[?(@.type!="Ready")].status': ["False"],
    '.status.conditions[?(@.type == "Ready")].reason': ["Fine"],
    ".status.conditions[?(@.reason)].type": ["Ready"],
    ".spec.items[?(@.n>1)].n": [2, 3],
    ".spec.items[?(@.n<=2)].n": [1, 2],
    '.status.conditions[?(@.type=="Nope")].status': [],
    "..n": [1, 2, 3],
    ".metadata.annotations.*": ["y", "z"],
}


@pytest.mark.parametrize(("path", "expected"), FOUND.items(), ids=FOUND)
def test_where_a_path_leads(path: str, expected: list[Any]) -> None:
    assert parse_path(path).find(OBJECT) == expected


@pytest.mark.parametrize("path", [".a[", ".a[x]", "....a", ".a[?(@.b=='c')", ".a[?(@.b=='c']", "^a", ".a[?(@.b=~'c')]"])
def test_paths_that_cannot_be_read(path: str) -> None:
    with pytest.raises(ValueError):
        parse_path(path)


PRINTED = [
    ("a", "a"),
    (3, "3"),
    (1.5, "1.5"),
    (2.0, "2"),
    (True, "true"),
    ({"b": 1, "a": ["<x>"]}, '{"a":["\\u003cx\\u003e"],"b":1}'),
    ([1, "a"], '[1,"a"]'),
]


@pytest.mark.parametrize(("value", "text"), PRINTED)
def test_how_a_value_is_printed(value: Any, text: str) -> None:
    assert printed(value) == text
