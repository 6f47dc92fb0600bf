"""Tables for kubectl: ages, cells by type, rows and what they carry along."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpuaas.api.kinds import Column, Kind
from gpuaas.base.clock import rfc3339
from gpuaas.machinery.tables import AGE, cell, table

MINUTE, HOUR, DAY = 60, 3_600, 86_400
YEAR = 365 * DAY

LONG = {
    -1: "0s",
    -2: "<invalid>",
    0: "0s",
    119: "119s",
    120: "2m",
    125: "2m5s",
    9 * MINUTE + 59: "9m59s",
    10 * MINUTE + 5: "10m",
    179 * MINUTE: "179m",
    3 * HOUR: "3h",
    3 * HOUR + 12 * MINUTE: "3h12m",
    8 * HOUR + 30 * MINUTE: "8h",
    47 * HOUR: "47h",
    2 * DAY: "2d",
    2 * DAY + 5 * HOUR: "2d5h",
    8 * DAY + 5 * HOUR: "8d",
    729 * DAY: "729d",
    2 * YEAR: "2y",
    2 * YEAR + 3 * DAY: "2y3d",
    8 * YEAR + 3 * DAY: "8y",
}


NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize(("seconds", "text"), LONG.items())
def test_dates_are_shown_as_ages(seconds: int, text: str) -> None:
    obj = {"metadata": {"creationTimestamp": rfc3339(NOW - seconds)}}
    assert cell(AGE, obj, NOW) == text


def test_an_age_that_is_not_known() -> None:
    assert cell(AGE, {"metadata": {"creationTimestamp": ""}}, NOW) == "<unknown>"
    assert cell(AGE, {"metadata": {}}, NOW) is None


OBJECT = {
    "apiVersion": "ex.io/v1",
    "kind": "Bar",
    "metadata": {"name": "a", "creationTimestamp": "2025-12-31T21:00:00Z"},
    "spec": {"n": 3, "f": 2.9, "b": True, "s": "x", "o": {"k": 1}, "null": None},
}

CELLS: dict[str, tuple[Column, Any]] = {
    "text": (Column("C", path=".spec.s"), "x"),
    "a number as text": (Column("C", path=".spec.n"), "3"),
    "an object as text": (Column("C", path=".spec.o"), '{"k":1}'),
    "nothing there": (Column("C", path=".spec.missing"), None),
    "an integer": (Column("C", type="integer", path=".spec.n"), 3),
    "an integer from a fraction": (Column("C", type="integer", path=".spec.f"), 2),
    "a number": (Column("C", type="number", path=".spec.n"), 3.0),
    "a boolean": (Column("C", type="boolean", path=".spec.b"), True),
    "a date": (Column("C", type="date", path=".metadata.creationTimestamp"), "3h"),
    "a date that is none": (Column("C", type="date", path=".spec.s"), "<invalid>"),
    "text for an integer": (Column("C", type="integer", path=".spec.s"), None),
    "a boolean for an integer": (Column("C", type="integer", path=".spec.b"), None),
    "a path that cannot be read": (Column("C", path=".a["), None),
}


@pytest.mark.parametrize(("column", "expected"), CELLS.values(), ids=CELLS)
def test_cells(column: Column, expected: Any) -> None:
    assert cell(column, OBJECT, NOW) == expected


BAR = Kind(
    "ex.io",
    "v1",
    "Bar",
    "bars",
    True,
    "io.ex.v1.Bar",
    columns=(Column("N", "integer", path=".spec.n", priority=1), AGE),
)


def test_a_table_of_custom_resources() -> None:
    made = table(BAR, [OBJECT], now=NOW, metadata={"resourceVersion": "7"})
    assert (made["kind"], made["apiVersion"], made["metadata"]) == ("Table", "meta.k8s.io/v1", {"resourceVersion": "7"})
    name, number, created = made["columnDefinitions"]
    assert (name["name"], name["type"], name["format"], name["priority"]) == ("Name", "string", "name", 0)
    assert number == {
        "name": "N",
        "type": "integer",
        "format": "",
        "description": "Custom resource definition column (in JSONPath format): .spec.n",
        "priority": 1,
    }
    assert created["type"] == "date"
    assert [row["cells"] for row in made["rows"]] == [["a", 3, "3h"]]


CARRIED = {
    "None": None,
    "Metadata": {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": OBJECT["metadata"],
    },
    "Object": OBJECT,
}


@pytest.mark.parametrize(("include", "expected"), CARRIED.items())
def test_what_a_row_carries_along(include: str, expected: Any) -> None:
    assert table(BAR, [OBJECT], now=NOW, include=include)["rows"][0]["object"] == expected


def test_built_in_kinds_compute_their_cells() -> None:
    def row(obj: Mapping[str, Any], now: float) -> list[Any]:
        return [obj["spec"]["n"] * 2, now]

    kind = Kind("", "v1", "Pod", "pods", True, "x", columns=(Column("Double"), Column("Now")), row=row)
    assert table(kind, [OBJECT], now=NOW)["rows"][0]["cells"] == ["a", 6, NOW]


def test_later_tables_of_a_watch_have_no_headers() -> None:
    assert table(BAR, [OBJECT], now=NOW, headers=False)["columnDefinitions"] is None
