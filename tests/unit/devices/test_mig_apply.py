"""mig-parted's document and what applying it does to cards."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.devices.mig_apply import CardState, apply, generate, is_applied
from gpuaas.devices.mig_config import Entry, MigConfigError, parse, select
from gpuaas.devices.products import PRODUCTS

A100, H200, L4 = (PRODUCTS[key] for key in ("A100-SXM4-40GB", "H200-SXM5-141GB", "L4-24GB"))


def wanted(**devices: int) -> tuple[Entry, ...]:
    return (Entry(True, {name.replace("_", ".").removeprefix("p"): n for name, n in devices.items()}),)


def test_a_configuration_is_applied_and_then_holds() -> None:
    card = CardState(A100)
    entries = wanted(p1g_5gb=7)
    apply([card], entries)
    assert (card.enabled, card.devices) == (True, {"1g.5gb": 7})
    assert is_applied([card], entries)


def test_a_card_that_nothing_fits_ends_up_empty() -> None:
    card = CardState(H200, True, {"7g.141gb": 1})
    with pytest.raises(MigConfigError, match="all orderings failed"):
        apply([card], wanted(p3g_71gb=3))
    assert card.devices == {}


def test_a_profile_nobody_has_clears_the_card_and_reports_success() -> None:
    card = CardState(H200, True, {"7g.141gb": 1})
    apply([card], wanted(p1g_5gb=7))
    assert card.devices == {}


def test_without_a_reset_an_ampere_card_keeps_its_mode() -> None:
    card = CardState(A100)
    with pytest.raises(MigConfigError, match="MIG mode disabled"):
        apply([card], wanted(p1g_5gb=7), skip_reset=True)
    assert not card.enabled


def test_cards_without_mig_are_passed_over_unless_named() -> None:
    cards = [CardState(L4)]
    apply(cards, wanted(p1g_5gb=7))
    with pytest.raises(MigConfigError, match="non MIG-capable GPU"):
        apply(cards, (Entry(True, {"1g.5gb": 7}, indices=(0,)),))


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"mig-configs": {}}, "unable to parse with missing 'version' field"),
        ({"version": "v2"}, "unknown version: v2"),
        ({"version": "v1", "extra": 1}, "unexpected field: extra"),
        ({"version": "v1", "mig-configs": {}}, "at least one entry in 'mig-configs' is required"),
        ({"version": "v1", "mig-configs": {"a": []}}, "at least one entry in 'a' is required"),
        ({"version": "v1", "mig-configs": {"a": [{"devices": "all"}]}}, "missing required field: mig-enabled"),
        ({"version": "v1", "mig-configs": {"a": [{"devices": "some", "mig-enabled": False}]}}, "invalid string input"),
        (
            {"version": "v1", "mig-configs": {"a": [{"devices": "all", "mig-enabled": True}]}},
            "missing required field 'mig-",
        ),
    ],
)
def test_a_wrong_document_is_named_as_mig_parted_names_it(document: Any, complaint: str) -> None:
    with pytest.raises(MigConfigError, match=complaint):
        parse(document)


def test_a_sole_configuration_needs_no_name() -> None:
    configs = {"only": wanted(p1g_5gb=1)}
    assert select(configs, "") == configs["only"]
    with pytest.raises(MigConfigError, match="selected mig-config not present: other"):
        select(configs, "other")
    with pytest.raises(MigConfigError, match="more than one config available"):
        select({**configs, "more": configs["only"]}, "")


def test_named_defaults_are_made_from_the_cards() -> None:
    configs = generate([H200])
    assert configs["all-balanced"] == (Entry(True, {"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1}),)
    assert configs["all-1g.18gb"] == (Entry(True, {"1g.18gb": 7}),)
    assert set(configs) >= {"all-disabled", "all-enabled", "all-1g.18gb.me", "all-7g.141gb"}


def test_several_products_get_filtered_entries() -> None:
    configs = generate([H200, A100])
    assert [entry.filters for entry in configs["all-balanced"]] == [("0x20B010DE",), ("0x233510DE",)]
    with pytest.raises(MigConfigError, match="no MIG-capable devices"):
        generate([L4])
