from __future__ import annotations

import pytest

from gpuaas.base.numbers import integer, is_digits, natural, parse_integer
from gpuaas.base.quantity import parse_quantity

FOREIGN = ["٣", "３", "१", "³", "1３", "٣٤", "Ⅷ", "一"]
UNREADABLE = ["", " 1", "1 ", "1_000", "+", "-", "--1", "1.0", "0x1", "1e3", "\n1", "1\n", "9" * 5000]


@pytest.mark.parametrize("text", FOREIGN + UNREADABLE)
def test_what_go_does_not_read_is_no_number(text: str) -> None:
    assert natural(text) is None
    assert integer(text) is None
    with pytest.raises(ValueError, match=r"strconv\.ParseInt: parsing"):
        parse_integer(text)


@pytest.mark.parametrize("text", FOREIGN)
def test_digits_of_other_alphabets_are_no_digits(text: str) -> None:
    assert not is_digits(text)
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity(text)
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity(f"1e{text}")


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("+5", 5), ("-5", -5), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63)), ("0" * 900 + "1", 1)],
)  # fmt: skip
def test_what_go_reads(text: str, number: int) -> None:
    assert integer(text) == parse_integer(text) == number
    assert natural(text) == (number if text.isdigit() else None)


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), "+" + str(2**64)])
def test_what_64_bits_do_not_hold_is_out_of_range(text: str) -> None:
    with pytest.raises(ValueError, match="value out of range"):
        parse_integer(text)
