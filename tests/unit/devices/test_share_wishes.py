"""Sharing by `gpuaas share`, and plans of MIG geometry: what is offered, whom it displaces, what it admits."""

import time

import pytest

from gpuaas.devices.advertise import config_in_force, keep
from gpuaas.devices.cards import Card
from gpuaas.devices.holding import Held, choose
from gpuaas.devices.inventory import Pool, cards_shown, encode, simulated_cards, with_layout
from gpuaas.devices.mig_plan import NodeCardsNow, Waiting, plans
from gpuaas.devices.offer import offer
from gpuaas.devices.plugin_config import PluginConfig
from gpuaas.devices.sharing import Wish, WishError, config_of, displaced, read_wish, with_card

CARDS = simulated_cards("n", Pool("NVIDIA-A100-SXM4-40GB", 2))
ZERO, ONE = (card.uuid for card in CARDS)
MIXED = PluginConfig(mig_strategy="mixed")


@pytest.mark.parametrize(
    ("wish", "counts"),
    [
        (Wish("time-slicing", 4), {"nvidia.com/gpu": 8}),
        (Wish("mps", 3), {"nvidia.com/gpu": 6}),
        (Wish("none"), {"nvidia.com/gpu": 2}),
        (Wish("time-slicing", 4, frozenset({ZERO})), {"nvidia.com/gpu": 1, "nvidia.com/gpu.shared": 4}),
        (Wish("time-slicing", 4, frozenset({ZERO, ONE})), {"nvidia.com/gpu": 8}),
    ],
)
def test_what_a_wish_makes_the_node_offer_and_that_it_is_kept(wish: Wish, counts: dict[str, int]) -> None:
    assert read_wish(wish.document()) == wish
    config = config_of(wish, CARDS)
    assert {name: len(devices) for name, devices in offer(CARDS, config).items()} == counts
    kept = config_in_force(keep(config, "gpuaas share", says_strategy=False), CARDS)
    assert kept is not None
    assert {name: len(devices) for name, devices in offer(CARDS, kept).items()} == counts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "must be JSON"),
        ("[]", "must be JSON"),
        ('{"strategy":"fair"}', "strategy is 'fair', must be time-slicing, mps or none"),
        ('{"strategy":"mps","replicas":1}', "replicas is 1, must be from 2 to 1024"),
        ('{"strategy":"mps","replicas":true}', "replicas is True"),
        ('{"strategy":"mps","replicas":2,"cards":"all"}', "cards must be a list of UUIDs"),
    ],
)
def test_a_wish_that_cannot_be_names_the_field(text: str, words: str) -> None:
    with pytest.raises(WishError, match=words):
        read_wish(text)


def test_a_card_the_node_has_not_is_refused() -> None:
    with pytest.raises(WishError, match="the node has no card GPU-x"):
        config_of(Wish("mps", 2, frozenset({"GPU-x"})), CARDS)


def test_cards_of_one_node_are_shared_alike_and_come_and_go_one_by_one() -> None:
    four = Wish("time-slicing", 4)
    first = with_card(None, four, ZERO, [ZERO, ONE])
    assert first.cards == {ZERO}
    assert with_card(first, four, ONE, [ZERO, ONE]).cards == {ZERO, ONE}
    with pytest.raises(WishError, match="shared by time-slicing x 4"):
        with_card(first, Wish("mps", 2), ONE, [ZERO, ONE])
    assert with_card(four, Wish("none"), ZERO, [ZERO, ONE]).cards == {ONE}, "the whole node was shared"
    assert with_card(first, Wish("none"), ZERO, [ZERO, ONE]).strategy == "none"


def test_only_who_holds_what_is_taken_away_is_displaced() -> None:
    four = config_of(Wish("time-slicing", 4), CARDS)
    holders: dict[str, list[tuple[str, list[tuple[str, str]]]]] = {
        ZERO: [("a", [("nvidia.com/gpu", f"{ZERO}::0")]), ("b", [("nvidia.com/gpu", f"{ZERO}::3")])],
        ONE: [("c", [("nvidia.com/gpu", f"{ONE}::1")])],
    }

    def after(wish: Wish) -> dict[str, set[str]]:
        config = config_of(wish, CARDS)
        return displaced(CARDS, four, config, offer(CARDS, config), holders)

    assert after(Wish("time-slicing", 8)) == {}
    assert after(Wish("time-slicing", 2)) == {ZERO: {"b"}}
    assert after(Wish("mps", 4)) == {ZERO: {"a", "b"}, ONE: {"c"}}, "the way of sharing is another"
    assert after(Wish("none")) == {ZERO: {"a", "b"}, ONE: {"c"}}


def held(cards: tuple[Card, ...], resource: str, config: PluginConfig = MIXED) -> tuple[Held, ...]:
    return choose(offer(cards, config), config, {"main": {resource: 1}}, ())


def test_the_plan_admits_most_of_what_waits_and_names_what_it_displaces() -> None:
    small = [Waiting(f"w{n}", ({"nvidia.com/mig-1g.5gb": 1},)) for n in range(9)]
    large = [Waiting("big", ({"nvidia.com/mig-3g.20gb": 1},))]
    node = NodeCardsNow("n", CARDS, MIXED, {"ns/p": held(CARDS, "nvidia.com/gpu")})
    best = plans([node], [*large, *small])[0]
    assert (best.node, best.config, len(best.admits)) == ("n", "all-1g.5gb", 9)
    assert best.displaces == ("ns/p",)
    assert best.offers == {"nvidia.com/mig-1g.5gb": 14}
    assert plans([node], large)[0].config in ("all-3g.20gb", "all-balanced")


def test_a_plan_that_admits_no_more_is_none_and_ill_cards_admit_nothing() -> None:
    assert plans([NodeCardsNow("n", CARDS, MIXED)], [Waiting("w", ({"nvidia.com/gpu": 1},))]) == []
    assert plans([NodeCardsNow("n", CARDS, MIXED)], []) == []
    l4 = simulated_cards("m", Pool("NVIDIA-L4", 2))
    assert plans([NodeCardsNow("m", l4, MIXED)], [Waiting("w", ({"nvidia.com/mig-1g.5gb": 1},))]) == []


def test_a_plan_says_what_could_be_admitted_without_it_and_not_with_it() -> None:
    waiting = [Waiting("whole", ({"nvidia.com/gpu": 1},))]
    waiting += [Waiting(f"w{n}", ({"nvidia.com/mig-1g.5gb": 1},)) for n in range(3)]
    best = plans([NodeCardsNow("n", CARDS, MIXED)], waiting)[0]
    assert best.loses == ("whole",)
    assert len(best.admits) == 3


def test_cards_are_read_back_from_what_a_node_shows() -> None:
    cut = (with_layout(CARDS[0], {"3g.20gb": 1, "1g.5gb": 4}), CARDS[1])
    shown = cards_shown(encode(cut))
    assert [(card.uuid, card.name, card.mig, card.devices) for card in shown] == [
        (card.uuid, card.name, card.mig, card.devices) for card in cut
    ]
    assert cards_shown("nonsense") == ()


def test_all_pods_of_a_job_fit_or_none_and_what_is_given_back_is_used() -> None:
    slices = {"nvidia.com/mig-1g.5gb": 1}
    waiting = [Waiting("gang", (slices,) * 20), Waiting("pair", (slices, slices)), Waiting("one", (slices,))]
    best = plans([NodeCardsNow("n", CARDS, MIXED)], waiting)[0]
    assert best.admits == ("pair", "one"), "the gang needs more than fourteen slices"


def test_a_plan_for_a_large_fleet_takes_time_by_its_size() -> None:
    nodes = [NodeCardsNow(f"n{number}", CARDS, MIXED) for number in range(1000)]
    waiting = [Waiting(f"w{number}", ({"nvidia.com/mig-1g.5gb": 1},)) for number in range(2000)]
    began = time.process_time()
    assert len(plans(nodes, waiting)[0].admits) == 14
    assert time.process_time() - began < 60
