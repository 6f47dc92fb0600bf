"""Numbers in YAML as Kubernetes reads them."""

from typing import Any

import pytest

from gpuaas.machinery.yamltext import load_yaml


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
    ],
)
def test_a_number_is_a_number_where_it_fits_into_64_bits(text: str, value: Any) -> None:
    assert load_yaml(f"x: {text}") == {"x": value}
