"""Selectors select what kubectl's users expect, and a selector nobody can read is refused with words."""

import re
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gpuaas.base.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER,
    IN,
    LESS,
    MOST_TERMS,
    NOT_IN,
    LabelSelector,
    Requirement,
    from_label_selector,
    parse_fields,
    parse_labels,
)

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


IN_REQUIREMENT = "unable to parse requirement: "
UNREADABLE = [
    ("=x", "found '=', expected: !, identifier, or 'end of string'"),
    ("(app)", "found '(', expected: !, identifier, or 'end of string'"),
    ("app=a b", "found 'b', expected: ',' or 'end of string'"),
    ("!app=a", "found '=', expected: ',' or 'end of string'"),
    ("app,", "found '', expected: identifier after ','"),
    ("app,,tier", "found ',', expected: identifier after ','"),
    ("!", IN_REQUIREMENT + "found '', expected: identifier"),
    ("app=(a)", IN_REQUIREMENT + "found '(', expected: identifier"),
    ("app tier", IN_REQUIREMENT + "found 'tier', expected: in, notin, =, ==, !=, gt, lt"),
    ("app in", IN_REQUIREMENT + "found '' expected: '('"),
    ("app in (", IN_REQUIREMENT + "found '', expected: ',', ')' or identifier"),
    ("app in (a", IN_REQUIREMENT + "found '', expected: ',' or ')'"),
    ("app in (a,", IN_REQUIREMENT + "found '', expected: ',', or identifier"),
    ("app in (a b)", IN_REQUIREMENT + "found 'b', expected: ',' or ')'"),
    ("size>x", IN_REQUIREMENT + "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
    ("app=" + "v" * 64, IN_REQUIREMENT + f'values[0][app]: Invalid value: "{"v" * 64}": must be no more than 63 bytes'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), UNREADABLE, ids=[text for text, _ in UNREADABLE])
def test_a_label_selector_nobody_can_read_is_refused_in_kubernetes_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        parse_labels(text)


@pytest.mark.parametrize(
    ("text", "part"), [("-x=1", '<nil>: Invalid value: "-x"'), ("app=-", "values[0][app]: Invalid")]
)
def test_a_selector_names_the_key_or_value_that_is_spelled_wrong(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(IN_REQUIREMENT + part)):
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
    with pytest.raises(ValueError, match=r"can't understand 'metadata\.name'"):
        parse_fields("metadata.name")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        (r"metadata.name=\x", r"invalid field selector: invalid escape sequence: \x"),
    ],
)
def test_a_value_of_a_field_selector_is_escaped_or_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        parse_fields(text)


KEYS = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.sampled_from(["", "x", "1", "5", "10", "-3", "\u0663"])
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from([IN, NOT_IN]), st.lists(VALUES, max_size=12).map(tuple)),
    st.builds(Requirement, KEYS, st.sampled_from([EXISTS, DOES_NOT_EXIST])),
    st.builds(Requirement, KEYS, st.sampled_from([GREATER, LESS]), st.sampled_from(["0", "5", "9", "-9"]).map(lambda bound: (bound,))),
)  # fmt: skip


@given(st.lists(REQUIREMENTS, min_size=9, max_size=14), st.dictionaries(KEYS, VALUES))
def test_many_requirements_mean_what_each_of_them_means(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    """They are folded by key; what matches is the same."""
    assert LabelSelector(tuple(requirements)).matches(labels) is all(each.matches(labels) for each in requirements)


@pytest.mark.parametrize(("size", "good"), [(MOST_TERMS, True), (MOST_TERMS + 1, False)])
@pytest.mark.parametrize(
    ("read", "text"),
    [(parse_labels, ["a"]), (parse_labels, ["a in (b", "c"]), (parse_fields, ["metadata.name!=a"])],
    ids=["requirements", "values", "fields"],
)  # fmt: skip
def test_a_selector_has_so_many_terms_and_no_more(read: Any, text: list[str], size: int, good: bool) -> None:
    selector = ",".join([*text, *[text[-1]] * (size - len(text))]) + (")" if "(" in text[0] else "")
    if good:
        assert read(selector)
    else:
        with pytest.raises(ValueError, match=f"a selector of {size} requirements and values: limit is {MOST_TERMS}"):
            read(selector)
