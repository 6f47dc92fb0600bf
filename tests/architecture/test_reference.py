"""The reference pages say what the code does now."""

import pytest
from docs_build.pages import FOLDER, NAMES, pages

FORGOTTEN = "the code tells something else by now: run `make docs`"


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_page_is_as_the_code_has_it(name: str) -> None:
    file = FOLDER / name
    assert file.exists(), FORGOTTEN
    assert file.read_text() == pages()[name], FORGOTTEN


def test_no_reference_page_is_left_that_nobody_writes() -> None:
    assert sorted(file.name for file in FOLDER.iterdir()) == sorted(NAMES)
