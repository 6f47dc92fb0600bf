"""What `python -m bench --against REV` makes of the samples: medians, spreads, verdicts."""

import argparse

import pytest
from bench import against, comparison
from bench.comparison import Samples


def compared(old: list[float], new: list[float], *, judged: bool = True) -> comparison.Comparison:
    return comparison.compare(Samples("line", "µs", judged, old, new))


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ([100.0], 0.0),
        ([100.0, 100.0, 100.0], 0.0),
        ([90.0, 100.0, 110.0], 0.1),
        ([100.0, 90.0, 130.0], 0.2),  # unordered; the median is 100
        ([0.0, 0.0], 0.0),
    ],
)
def test_spread_is_half_of_the_range_as_a_part_of_the_median(figures: list[float], expected: float) -> None:
    assert comparison.spread(figures) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("old", "new", "slower"),
    [
        ([100, 100, 100], [100, 100, 100], False),
        ([100, 100, 100], [104, 104, 104], False),
        ([100, 100, 100], [106, 106, 106], True),
        ([95, 100, 105], [109, 109, 109], False),  # 5 % and the old one's 5 %
        ([95, 100, 105], [111, 111, 111], True),
        ([100, 100, 100], [80, 106, 150], True),  # the new one's spread excuses nothing
        ([100, 100, 100], [50, 50, 50], False),
        ([100, 100, 500], [104, 104, 900], False),  # medians: one slow round does not decide
        ([0, 0], [0, 0], False),
        ([0, 0], [1, 1], True),
    ],
)
def test_slower_than_five_percent_and_the_old_spread(old: list[float], new: list[float], slower: bool) -> None:
    assert compared(old, new).slower is slower


def test_lines_that_are_only_shown_have_no_verdict() -> None:
    found = compared([100], [900], judged=False)
    assert not found.slower
    assert found.verdict == "not judged"
    assert found.ratio == 9


def test_json_has_both_medians_and_the_verdict() -> None:
    assert compared([90, 100, 110], [120, 130, 140]).as_json() == {
        "line": "line",
        "unit": "µs",
        "old": 100,
        "new": 130,
        "oldSpread": pytest.approx(0.1),
        "newSpread": pytest.approx(10 / 130),
        "ratio": pytest.approx(1.3),
        "limit": pytest.approx(1.15),
        "verdict": "above 1.15",
    }


def test_rows_name_figures_spreads_and_ratio() -> None:
    assert comparison.rows([compared([1000], [1020])]) == [
        ("line", "1,000 µs", "±0%", "1,020 µs", "±0%", "1.02", "ok"),
    ]


def test_lines_are_chosen_by_group() -> None:
    assert against.lines_option("engine, api") == ["engine", "api"]
    with pytest.raises(argparse.ArgumentTypeError, match=r"'engines'.*engine, lifecycle, api"):
        against.lines_option("engines")
    with pytest.raises(argparse.ArgumentTypeError, match="name at least one"):
        against.lines_option(",")
