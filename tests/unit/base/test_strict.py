"""`gpuaas up --strict LIST`: what the list may name."""

import pytest

from gpuaas.base.strict import NOT_STRICT, read_strict, write_strict


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("none", ""),
        ("nvidia", "nvidia"),
        ("odh, multikueue", "multikueue,odh"),
        ("nvidia,nvidia,", "nvidia"),
    ],
)
def test_a_list_is_kept_in_one_order(text: str, kept: str) -> None:
    assert write_strict(read_strict(text)) == kept
    assert read_strict(kept) == read_strict(text)


@pytest.mark.parametrize("text", ["kueue", "nvidia;odh", "nvidia,none"])
def test_an_unknown_item_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is none of multikueue, nvidia, odh"):
        read_strict(text)


def test_the_default_keeps_no_original_exactly() -> None:
    assert read_strict("none") == NOT_STRICT
