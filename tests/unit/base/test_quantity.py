"""Quantities are exact, print canonically, and refuse what Kubernetes refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.base.quantity import NANO, Quantity, parse_quantity

CANONICAL = {
    "0": "0",
    "1000": "1k",
    "1024": "1024",
    "0.5": "500m",
    "1500m": "1500m",
    "1000m": "1",
    "1.5Gi": "1536Mi",
    "0.5Gi": "512Mi",
    "0.5Ki": "512",
    "1024Mi": "1Gi",
    "1e3": "1e3",
    "12E6": "12e6",
    "5E": "5E",
    "-1500m": "-1500m",
    "100u": "100u",
    "1n": "1n",
    "0.0000000001": "1n",  # finer than a billionth: rounded up
    "+2": "2",
    ".5": "500m",
    "9223372036854775808": "9223372036854775807",  # more than 64 bits: capped
}


@pytest.mark.parametrize(("text", "want"), CANONICAL.items(), ids=CANONICAL)
def test_a_quantity_prints_in_its_canonical_form(text: str, want: str) -> None:
    assert str(parse_quantity(text)) == want


@pytest.mark.parametrize(
    "text", ["", "abc", "1.2.3", "1KiB", "1 Gi", "Gi", "--1", "1ee3", "1e99999", "1" * 1_000_000 + "!"]
)
def test_what_is_no_quantity_is_refused_with_words(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [("1500m", 2, 1500), ("0.1m", 1, 1), ("2Ki", 2048, 2_048_000), ("-1500m", -2, -1500), ("3", 3, 3000)],
)
def test_whole_units_and_thousandths_are_rounded_away_from_zero(text: str, value: int, milli: int) -> None:
    quantity = parse_quantity(text)
    assert (quantity.value, quantity.milli) == (value, milli)


@given(st.integers(-(2**62), 2**62), st.sampled_from(["decimal", "binary", "exponent"]))
def test_whatever_is_printed_reads_back_as_the_same_amount(units: int, family: str) -> None:
    quantity = Quantity(units * NANO, family)
    assert parse_quantity(str(quantity)).nano == quantity.nano


@given(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_sums_and_differences_are_exact(left: int, right: int) -> None:
    total = Quantity(left) + Quantity(right)
    assert total.nano == left + right
    assert (total - Quantity(right)).nano == left
