"""The gallery: every component in every state, judged as the pages are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.browser import axe
from tests.browser.conftest import Served
from tests.browser.test_pages import judge
from tests.conformance.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["judge"]


@pytest.fixture(scope="module")
def developed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUAAS_DEVELOPMENT", "1")
        with Service(tmp_path_factory.mktemp("gallery") / "home") as service:
            yield Served(service)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1024, 1920])
def test_no_component_has_a_barrier_or_is_too_wide(
    developed: Served,
    page: Page,
    judge: str,
    width: int,
    theme: str,
) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 800})
    developed.sign_in(page)
    page.goto(developed.address("/gallery"))
    assert axe.violations(page, judge) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
