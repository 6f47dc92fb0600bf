"""Selectors select what kubectl's users expect, and a selector nobody can read is refused with words."""

import pytest

from gpuaas.base.selectors import from_label_selector, parse_fields, parse_labels

LABELS = {"app": "web", "tier": "front", "size": "10"}

MATCHES = [
    ("app=web", True),
    ("app==web", True),
    ("app!=web", False),
    ("app!=db", True),
    ("missing!=x", True),
    ("app in (web, db)", True),
    ("app notin (web,db)", False),
    ("missing notin (a)", True),
    ("app", True),
    ("!app", False),
    ("!missing", True),
    ("app=web,tier=front", True),
    ("app=web,tier=back", False),
    ("size>5", True),
    ("size<5", False),
    ("app=", False),
    ("missing in (,a)", False),
    ("", True),
]


@pytest.mark.parametrize(("text", "want"), MATCHES, ids=[text or "nothing" for text, _ in MATCHES])
def test_a_label_selector_matches(text: str, want: bool) -> None:
    assert parse_labels(text).matches(LABELS) is want


@pytest.mark.parametrize("text", ["app in", "app in (a", "=x", "app=a b", "app,", "-x=1", "app=-", "size>x"])
def test_a_label_selector_nobody_can_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_labels(text)


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert from_label_selector(None) is None
    everything = from_label_selector({})
    assert everything is not None
    assert everything.matches({})


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ({"key": "app", "operator": "In", "values": ["web"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["web"]}, False),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "app", "operator": "DoesNotExist"}, False),
    ],
)
def test_expressions_of_an_object_selector_match(expression: dict[str, object], want: bool) -> None:
    selector = from_label_selector({"matchExpressions": [expression]})
    assert selector is not None
    assert selector.matches(LABELS) is want


def test_field_selectors_are_terms_with_escapes() -> None:
    terms = parse_fields(r"metadata.name=a\,b,status.phase!=Running,spec.x==1")
    assert [(term.path, term.value, term.equal) for term in terms] == [
        ("metadata.name", "a,b", True),
        ("status.phase", "Running", False),
        ("spec.x", "1", True),
    ]


def test_a_field_selector_without_an_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="can't understand 'metadata.name'"):
        parse_fields("metadata.name")
