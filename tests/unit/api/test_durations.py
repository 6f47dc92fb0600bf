"""Ages as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.api.durations import age, human_duration

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3_600, 86_400, 365 * 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (2 * _MINUTE, "2m"),
        (9 * _MINUTE + 59, "9m59s"),
        (10 * _MINUTE + 59, "10m"),
        (3 * _HOUR - 1, "179m"),
        (3 * _HOUR, "3h"),
        (7 * _HOUR + 59 * _MINUTE, "7h59m"),
        (8 * _HOUR + 59 * _MINUTE, "8h"),
        (47 * _HOUR, "47h"),
        (2 * _DAY, "2d"),
        (7 * _DAY + 23 * _HOUR, "7d23h"),
        (8 * _DAY + 23 * _HOUR, "8d"),
        (2 * _YEAR - 1, "729d"),
        (2 * _YEAR, "2y"),
        (7 * _YEAR + _DAY, "7y1d"),
        (8 * _YEAR + _DAY, "8y"),
    ],
)
def test_a_span_has_at_most_two_units(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@given(st.floats(min_value=0, max_value=1e11, allow_nan=False))
def test_what_is_shown_is_never_more_than_what_was(seconds: float) -> None:
    units = {"s": 1, "m": _MINUTE, "h": _HOUR, "d": _DAY, "y": _YEAR}
    shown, number = 0, ""
    for char in human_duration(seconds):
        if char.isdigit():
            number += char
        else:
            shown, number = shown + int(number) * units[char], ""
    assert shown <= seconds


def test_the_age_of_what_has_no_time_is_unknown() -> None:
    assert age(None, 0.0) == "<unknown>"
    assert age("2026-01-01T00:00:00Z", 1_767_225_690.0) == "90s"
