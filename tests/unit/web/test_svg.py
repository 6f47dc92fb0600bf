"""Charts: values in, SVG out, as text that can be compared."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from gpuaas.web import svg
from gpuaas.web.svg import Mark, Move, Part, Series

EVIL = '"><script>alert(1)</script>'


def rects(drawing: str, kind: str) -> list[tuple[float, float]]:
    """x and width of the rectangles of a class, in percent."""
    found = ET.fromstring(drawing).iter("rect")
    return [
        (float(each.attrib["x"].rstrip("%")), float(each.attrib["width"].rstrip("%")))
        for each in found
        if each.attrib.get("class") == kind
    ]


def test_the_parts_of_a_bar_follow_each_other_on_the_scale() -> None:
    parts = [Part("used", 4), Part("borrowed", 2), Part("lent", 0), Part("pending", 1)]
    drawing = svg.bar(parts, 10, tick=4, label="a")
    assert rects(drawing, "used") == [(0, 40)]
    assert rects(drawing, "borrowed") == [(40, 20)]
    assert rects(drawing, "lent") == []
    assert rects(drawing, "pending-edge") == [(60, 10)]
    assert 'class="tick" x1="40.00%"' in drawing


def test_borrowed_and_lent_have_a_pattern_besides_their_colour() -> None:
    drawing = svg.bar([Part("borrowed", 1), Part("lent", 1)], 4, label="a")
    assert re.findall(r"url\(#([\w-]+)\)", drawing) == ["p-lines", "p-dots"]


@pytest.mark.parametrize(("scale", "width"), [(0, []), (1, [(0, 1000)])])
def test_a_bar_without_a_scale_is_empty_and_one_beyond_it_is_cut_off(scale: float, width: list[object]) -> None:
    assert rects(svg.bar([Part("used", 50)], scale, label="a"), "used") == width


def test_an_hour_of_one_amount_is_one_rectangle() -> None:
    drawing = svg.strip([Series("a", "s1", [2, 2, 2, 2]), Series("b", "s2", [0, 1, 1, 0])], 4, [], label="x")
    assert rects(drawing, "s1") == [(0, 100)]
    assert rects(drawing, "s2") == [(25, 50)]


def test_a_stack_grows_from_the_bottom_and_never_beyond_the_top() -> None:
    drawing = svg.strip([Series("a", "s1", [2]), Series("b", "s2", [6])], 4, [], label="x")
    places = re.findall(r'y="([\d.]+)%" width="[\d.]+%" height="([\d.]+)%"', drawing)
    assert places == [("75.00", "25.00"), ("0.00", "75.00")]


def test_marks_stay_on_the_axis() -> None:
    drawing = svg.strip([], 1, [Mark(-1, "a"), Mark(2, "b")], label="x")
    assert re.findall(r'class="mark" x1="([\d.]+%)"', drawing) == ["0.00%", "100.00%"]


def test_a_move_goes_from_the_victim_s_lane_to_the_preemptor_s_with_the_lost_run_as_its_tail() -> None:
    drawing = svg.timeline(["a", "b"], [Move(0.5, 0.2, "a", "b", 8, "t")], label="x")
    assert rects(drawing, "tail") == [(30, 20)]
    (arrow,) = (each for each in ET.fromstring(drawing).iter("line") if each.attrib["class"] == "arrow")
    assert (arrow.attrib["x1"], arrow.attrib["y1"], arrow.attrib["y2"]) == ("50.00%", "38", "82")


def test_a_run_longer_than_the_axis_begins_at_its_edge() -> None:
    assert rects(svg.timeline(["a"], [Move(0.1, 3, "a", "a", 1, "t")], label="x"), "tail") == [(0, 10)]


def test_names_from_outside_are_escaped_everywhere() -> None:
    drawings = [
        svg.bar([Part("used", 1, EVIL)], 2, label=EVIL),
        svg.strip([Series(EVIL, "s1", [1])], 1, [Mark(0, EVIL)], label=EVIL),
        svg.timeline([EVIL], [Move(0, 0, EVIL, EVIL, 1, EVIL)], label=EVIL),
    ]
    for drawing in drawings:
        assert "<script" not in drawing
        ET.fromstring(drawing)


def test_a_team_s_colour_follows_from_the_names_and_eight_teams_have_eight() -> None:
    names = [f"team-{each}" for each in "abcdefgh"]
    assert len(set(svg.tones(names).values())) == 8
    assert svg.tones(names) == svg.tones(reversed(names))
    assert set(svg.tones([*names, "one-more"]).values()) == set(svg.tones(names).values())


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "0"), (16, "16"), (1024, "1,024"), (0.5, "0.5"), (1 / 7, "0.14"), (88.63, "88.6"), (2.001, "2")],
)
def test_numbers_are_short(amount: float, words: str) -> None:
    assert svg.number(amount) == words


@pytest.mark.parametrize(
    "state", ["Pending", "Reserved", "Admitted", "Running", "Succeeded", "Failed", "Evicted", "Inactive"]
)
def test_every_state_of_a_job_has_a_shape_of_its_own(state: str) -> None:
    assert svg.glyph(state) != svg.glyph("")
