"""The stylesheet keeps what docs/design/visual.md promises of colour, in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpuaas.web

WEB = Path(gpuaas.web.__file__).parent
CSS = (WEB / "static" / "style.css").read_text()
COLOURS = {
    name: dict(zip(("light", "dark"), found, strict=True))
    for name, *found in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", CSS)
}
SURFACES, TEXTS = ("n1", "n2", "n3"), ("n6", "n7", "n8")
SERIES = tuple(f"s{number}" for number in range(1, 9))
STATES = ("accent", "wait", "run", "ok", "bad", "move")


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str, theme: str) -> float:
    light, dark = sorted((luminance(COLOURS[name][theme]) for name in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("text", [*TEXTS, *STATES])
def test_text_and_the_words_of_states_can_be_read_on_every_surface(text: str, surface: str, theme: str) -> None:
    assert contrast(text, surface, theme) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("series", SERIES)
def test_a_team_s_colour_stands_out_from_the_page_and_carries_its_letter(series: str, theme: str) -> None:
    assert contrast(series, "n1", theme) >= 3
    assert contrast("on-series", series, theme) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_edges_of_controls_are_seen(theme: str) -> None:
    assert contrast("n5", "n1", theme) >= 3


def test_every_colour_is_a_token() -> None:
    after_tokens = CSS.partition("/* ground */")[2]
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?!-)(?=[;, )])", after_tokens)


def test_every_token_that_is_used_is_defined_and_the_other_way_round() -> None:
    defined = set(re.findall(r"(--[\w-]+):", CSS))
    used = set(re.findall(r"var\((--[\w-]+)", CSS))
    assert used - defined == set()
    assert defined - used == set()


def test_templates_keep_to_the_content_security_policy() -> None:
    for template in (WEB / "templates").glob("*.html"):
        text = template.read_text()
        assert "style=" not in text, template.name
        assert not re.search(r"\son\w+=", text), template.name
        assert not re.search(r"https?://(?!www\.w3\.org)", text), template.name
