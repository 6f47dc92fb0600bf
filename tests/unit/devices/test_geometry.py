"""MIG geometry: names, valid sets, places."""

from __future__ import annotations

import re
from itertools import product as combinations_of

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.devices.geometry import arrange, fits, instances_for, profile_of, share_of
from gpuaas.devices.mig_profile import parse_profile
from gpuaas.devices.products import PRODUCTS, find

H200, A30 = PRODUCTS["H200-SXM5-141GB"], PRODUCTS["A30-24GB"]


@pytest.mark.parametrize(("product", "valid"), [(H200, 127), (A30, 19)])
def test_as_many_sets_are_valid_as_the_driver_accepts(product: object, valid: int) -> None:
    assert product in (H200, A30)
    profiles = product.profiles  # type: ignore[attr-defined]
    counts = combinations_of(*(range(profile.max + 1) for profile in profiles))
    sets = [{p.name: n for p, n in zip(profiles, row, strict=True) if n} for row in counts]
    assert sum(fits(product, chosen) for chosen in sets if chosen) == valid  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("devices", "fit"),
    [
        ({"1g.18gb": 7}, True),
        ({"1g.18gb": 8}, False),
        ({"3g.71gb": 2}, True),
        ({"3g.71gb": 2, "1g.18gb": 1}, False),  # two 3g cover all memory slots although a compute slice is left
        ({"4g.71gb": 1, "3g.71gb": 1}, True),
        ({"4g.71gb": 1, "3g.71gb": 1, "1g.18gb": 1}, False),
        ({"1g.35gb": 4}, True),
        ({"1g.18gb+me": 2}, False),
        ({"7g.141gb": 1, "1g.18gb": 1}, False),
        ({"1c.3g.71gb": 3}, True),  # compute instances share one GPU instance
        ({"1c.3g.71gb": 7}, False),
        ({"1g.5gb": 1}, False),  # of another product
        ({}, True),
    ],
)
def test_which_sets_fit_on_an_h200(devices: dict[str, int], fit: bool) -> None:
    assert fits(H200, devices) is fit


@given(st.lists(st.sampled_from(H200.profiles), max_size=7))
def test_an_arrangement_overlaps_nowhere_and_uses_only_allowed_starts(wanted: list) -> None:  # type: ignore[type-arg]
    found = arrange(H200, wanted)
    if found is None:
        return
    slots = [slot for place in found for slot in range(place.start, place.start + place.size)]
    assert len(slots) == len(set(slots))
    assert max(slots, default=0) < H200.slots
    assert all(place.start in H200.by_name[place.profile].starts for place in found)


def test_what_is_kept_stays_where_it_is() -> None:
    kept = arrange(H200, instances_for(H200, {"3g.71gb": 1}) or [])
    assert kept is not None
    more = arrange(H200, instances_for(H200, {"1g.18gb": 3}) or [], kept)
    assert more is not None
    assert more[0] == kept[0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "profile is the empty string"),
        ("1g", "parsed wrong number of fields, expected 2 or 3"),
        ("1g.5", "missing 'gb' from '%dgb'"),
        ("xg.5gb", "malformed number in '%dg'"),
        (" 1g.5gb", "leading or trailing spaces on '%dg'"),
        ("1g.5gb+", "empty attribute in list"),
        ("1g.5gb+me,me", "non unique attribute in list"),
        ("1g.5gb+1me", "attribute begins with a number"),
        ("1g.5gb+me-x", "contains both '+/-' attributes"),
    ],
)
def test_a_malformed_profile_is_explained(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_profile(text)


@pytest.mark.parametrize("name", ["1g.5gb", "1c.3g.20gb", "1g.5gb+me", "4g.24gb-me", "1g.24gb+me.all"])
def test_a_profile_reads_and_shows_the_same(name: str) -> None:
    assert str(parse_profile(name)) == name


def test_a_slice_is_a_part_of_its_card() -> None:
    assert share_of(H200, "1g.18gb") == pytest.approx(1 / 7)
    assert share_of(A30, "2g.12gb") == pytest.approx(1 / 2)
    assert profile_of(H200, "3c.4g.71gb") is None


@pytest.mark.parametrize("spelling", ["NVIDIA H200", "NVIDIA-H200", "nvidia-h200", "H200-SXM5-141GB"])
def test_a_product_is_found_by_name_label_or_key(spelling: str) -> None:
    assert find(spelling) is H200


def test_every_profile_is_named_by_nvidias_rule() -> None:
    """Gigabytes of a name: the profile's eighths of the card's memory, rounded up, times its size in GiB."""
    for product in PRODUCTS.values():
        for profile in product.profiles if product.measured else ():
            eighths = -(-8 * profile.memory_mib // product.memory_mib)
            size = -(-product.memory_mib // 1024)
            assert profile.parsed.gigabytes == int(eighths * size / 8 + 0.5), (product.key, profile.name)
