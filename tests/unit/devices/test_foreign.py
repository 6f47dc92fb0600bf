"""Processes on cards that are nobody's here: what the annotation says closes their cards and no others."""

from __future__ import annotations

import pytest

from gpuaas.devices.foreign import (
    FOREIGN,
    IGNORED,
    ForeignProcess,
    encode_foreign,
    foreign_processes,
    is_ill,
    with_foreign,
)
from gpuaas.devices.inventory import Pool, simulated_cards

CARDS = simulated_cards("n", Pool("NVIDIA-H200", 2))
EVE = ForeignProcess(CARDS[0].uuid, 42, "eve", "python", 3 << 30)


def test_the_card_is_closed_with_who_uses_it_and_is_not_ill() -> None:
    used, free = with_foreign(CARDS, {FOREIGN: encode_foreign([EVE])})
    assert used.unhealthy == "used by processes that are not gpuaas's: pid 42 (python of user eve), 3072 MiB"
    assert not is_ill(used)
    assert not free.unhealthy


def test_many_processes_are_counted() -> None:
    many = [ForeignProcess(CARDS[0].uuid, number) for number in range(9)]
    assert with_foreign(CARDS, {FOREIGN: encode_foreign(many)})[0].unhealthy.endswith("and 6 more")


def test_where_they_are_ignored_no_card_is_closed() -> None:
    assert with_foreign(CARDS, {FOREIGN: encode_foreign([EVE]), IGNORED: "true"}) == CARDS


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"card":"x"}', '[{"card":"x","pid":"1"}]', "[" * 100_000])
def test_what_cannot_be_read_closes_nothing(text: str) -> None:
    assert foreign_processes(text) == ()
    assert with_foreign(CARDS, {FOREIGN: text}) == CARDS


def test_the_text_is_read_back() -> None:
    assert foreign_processes(encode_foreign([EVE])) == (EVE,)
