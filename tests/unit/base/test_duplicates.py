"""Which items of a list came before, for every sort of JSON value."""

from typing import Any

import pytest

from gpuaas.base.duplicates import duplicates


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], []),
        (["a", "b", "a", "a"], [2, 3]),
        ([{"x": [1]}, {"x": [2]}, {"x": [1]}], [2]),
        ([[1, {"a": None}], [1, {"a": None}]], [1]),
        ([1, "1", 1.0], [2]),
        ([None, {}, [], None], [3]),
    ],
)
def test_each_item_that_came_before_is_named(values: list[Any], found: list[int]) -> None:
    assert [index for index, _ in duplicates(values)] == found
    assert found == [index for index, value in enumerate(values) if value in values[:index]]
