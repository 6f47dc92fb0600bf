"""YAML as Kubernetes reads it: scalars as Go resolves them, and a limit on everything a text can grow to."""

from typing import Any

import pytest

from gpuaas.machinery.yamltext import BODY, YamlError, dump_yaml, load_yaml, load_yaml_documents, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x1f", 31),
        ("-0x1f", -31),
        ("0777", 511),
        ("0b101", 5),
        ("1_000", 1000),
        ("9223372036854775807", 2**63 - 1),
        ("18446744073709551615", 2**64 - 1),
        ("0xffffffffffffffff", 2**64 - 1),
        ("0x1ffffffffffffffff", "0x1ffffffffffffffff"),
        ("0x" + "f" * 5000, "0x" + "f" * 5000),
        ("0b" + "1" * 5000, "0b" + "1" * 5000),
        ("0" + "7" * 5000, "0" + "7" * 5000),
        ("9" + ":59" * 50, "9" + ":59" * 50),
        ("1:59:59", "1:59:59"),
        ("1:30.5", "1:30.5"),
        ("-0b11", -3),
        ("+12", 12),
        ("0o17", 15),
        ("08", 8),
        ("99999999999999999999", 1e20),
        ("9" * 400, "9" * 400),
        ("1e999999", "1e999999"),
        ("1e3", 1000),
        ("1.0", 1),
        (".5", 0.5),
        (".5_0", ".5_0"),
        ("_1", "_1"),
        ("\uff11\uff12", "\uff11\uff12"),
        ("2020-01-02", "2020-01-02"),
        ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05Z"),
    ],
)
def test_a_number_is_a_number_where_it_fits_into_64_bits(text: str, value: Any) -> None:
    assert load_yaml(f"x: {text}") == {"x": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("~", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("Yes", True),
        ("OFF", False),
        ("yES", "yES"),
        ("!!str 1", "1"),
        ("!!float 1", 1),
        ("!!binary aGk=", "hi"),
        ("!unknown x", "x"),
        ("'1'", "1"),
        ("=", "="),
    ],
)
def test_other_scalars(text: str, value: Any) -> None:
    assert load_yaml(f"x: {text}") == {"x": value}
    assert type(load_yaml(f"x: {text}")["x"]) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &a {x: 1}\nb: {<<: *a, w: 2}", {"a": {"x": 1}, "b": {"x": 1, "w": 2}}),
        ("a: &a {x: 1}\nb: {x: 2, <<: *a}", {"a": {"x": 1}, "b": {"x": 2}}),
        ("b: {<<: [{x: 1, w: 1}, {x: 2, z: 2}]}", {"b": {"x": 1, "w": 1, "z": 2}}),
        ("b: {'<<': {x: 1}}", {"b": {"<<": {"x": 1}}}),
        ("a: &a x\nb: {*a : 1}", {"a": "x", "b": {"x": 1}}),
        ("{1: a, 1.5: b, true: c}", {"1": "a", "1.5": "b", "true": "c"}),
    ],
)
def test_merge_keys_and_aliases(text: str, value: Any) -> None:
    assert load_yaml(text) == value


def test_an_alias_is_a_tree_of_its_own() -> None:
    value = load_yaml("a: &a {x: [1]}\nb: *a")
    assert value["a"] is not value["b"]
    assert value["a"]["x"] is not value["b"]["x"]


def test_keys_that_came_twice_are_noted_with_their_lines() -> None:
    found = read_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
    assert found.value == {"a": 3, "b": {"c": 2}}
    assert found.repeats == ['line 4: key "c" already set in map', 'line 5: key "a" already set in map']


def _merges(levels: int) -> str:
    lines = ["x0: &x0 {a: 1}"]
    lines += [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 8)}]}}" for n in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: '" + "x" * BODY.size + "'", f"the limit is {BODY.size}"),
        ("[" + "1," * BODY.values + "1]", f"more than {BODY.values} values"),
        ("[" * 300, f"exceeded max depth: the limit is {BODY.depth}"),
        ("--- 1\n--- 2\n", "expected one YAML document, found more"),
        ("a: &a " + "x" * 1000 + "\nb: [" + "*a," * 2000 + "]", f"more than {BODY.expansion} bytes"),
        (_merges(8), f"excessive aliasing: with aliases and merge keys expanded it has more than {BODY.values} values"),
        ("%TAG !a! x\n" * 50 + "--- 1", "more than 16 directives"),
        (("%TAG !a! x\n" * 50 + "--- 1").encode("utf-16"), "more than 16 directives"),
        ("&a [*a]", "anchor 'a' value contains itself"),
        ("[*b]", "unknown anchor 'b' referenced"),
        ("<<: [1]", "map merge requires map or sequence of maps as the value"),
        ("!!int x", "cannot decode !!str `x` as a !!int"),
        ("a: .inf", "unsupported value: +Inf"),
        ("{[a]: b}", "a key must be a string, found a list or a map"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "bytes",
)
def test_what_is_over_a_limit_or_no_object_is_refused_by_name(text: str | bytes, words: str) -> None:
    with pytest.raises(YamlError) as refused:
        read_yaml(text)
    assert words in str(refused.value)


def test_a_file_may_hold_many_documents() -> None:
    assert list(load_yaml_documents("--- 1\n--- 2\n---\na: 1\n")) == [1, 2, {"a": 1}]
    assert load_yaml("") is None


@pytest.mark.parametrize("text", ["1:59:59", "0o17", "08", "y", ".inf", "1_0", "~", "2020-01-02", "", "1e3", "plain"])
def test_text_stays_text_when_it_is_written_and_read_again(text: str) -> None:
    assert load_yaml(dump_yaml({"x": text})) == {"x": text}
