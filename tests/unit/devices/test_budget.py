"""Memory budgets of shares: equal parts, what pods ask for, and that a card is never promised twice."""

from __future__ import annotations

import pytest

from gpuaas.devices.budget import BudgetError, asked_mib, budgets_of
from gpuaas.devices.holding import NoDeviceError, choose, encode, held_by
from gpuaas.devices.inventory import Pool, simulated_cards
from gpuaas.devices.offer import Offer, offer
from gpuaas.devices.plugin_config import PluginConfig, load

GPU = "nvidia.com/gpu"
ONE = {"main": {GPU: 1}}
H200 = 143771 - 640  # MiB, without what the driver keeps


def shared(replicas: int, cards: int = 1, how: str = "timeSlicing") -> tuple[Offer, PluginConfig]:
    document = {"version": "v1", "sharing": {how: {"resources": [{"name": GPU, "replicas": replicas}]}}}
    config = load(document, {"MPS_ROOT": "/run/mps"})
    return offer(simulated_cards("n", Pool("NVIDIA-H200", cards)), config), config


@pytest.mark.parametrize(("replicas", "part"), [(2, H200 // 2), (4, H200 // 4), (7, H200 // 7)])
def test_a_replica_has_an_equal_part_of_what_the_driver_leaves(replicas: int, part: int) -> None:
    [held] = choose(*shared(replicas), ONE, [])
    assert (held.budget, held.sharing, held.shares) == (part, "time-slicing", replicas)


def test_a_whole_card_has_a_budget_only_where_it_is_asked_for() -> None:
    cards = simulated_cards("n", Pool("NVIDIA-H200", 1))
    config = PluginConfig()
    assert choose(offer(cards, config), config, ONE, [])[0].budget == 0
    assert choose(offer(cards, config), config, ONE, [], asked=1024)[0].budget == 1024


def test_who_asks_for_more_than_its_part_leaves_less_for_others() -> None:
    offered, config = shared(4)
    half = choose(offered, config, ONE, [], asked=H200 // 2)
    taken = [*half]
    for _ in range(2):
        taken += choose(offered, config, ONE, taken)
    with pytest.raises(NoDeviceError, match="1 of 4 free, 0 of them may"):
        choose(offered, config, ONE, taken)
    assert sum(one.budget for one in taken) <= H200


def test_two_replicas_of_one_request_have_room_for_both() -> None:
    offered, config = shared(4)
    with pytest.raises(NoDeviceError):
        choose(offered, config, {"main": {GPU: 2}}, [], asked=H200 // 2 + 1)
    assert len(choose(offered, config, {"main": {GPU: 2}}, [], asked=H200 // 2)) == 2


def test_budgets_look_for_a_card_with_room() -> None:
    offered, config = shared(2, cards=2)
    first = choose(offered, config, ONE, [], asked=H200)
    second = choose(offered, config, ONE, list(first))
    assert first[0].card != second[0].card


@pytest.mark.parametrize("text", ["lots", "-1Gi", "0", "1Mi"])
def test_an_amount_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(BudgetError, match="annotation gpuaas"):
        asked_mib({"gpuaas.dev/gpu-memory": text})


def test_more_than_a_card_has_is_refused_with_the_figures() -> None:
    with pytest.raises(BudgetError, match="asks for 204800 MiB of a NVIDIA H200, which has 143131 MiB for programs"):
        choose(*shared(2), ONE, [], asked=asked_mib({"gpuaas.dev/gpu-memory": "200Gi"}))


def test_the_budget_is_read_back_from_the_pod() -> None:
    held = choose(*shared(4), ONE, [], asked=12 * 1024)
    pod = {"metadata": {"annotations": {"gpuaas.dev/devices": encode(held)}}}
    assert held_by(pod) == held
    assert budgets_of(held) == {held[0].uuid: 12 << 30}


def test_two_containers_on_one_card_share_the_sum_of_their_budgets() -> None:
    held = choose(*shared(4), {"a": {GPU: 1}, "b": {GPU: 1}}, [])
    assert budgets_of(held) == {held[0].uuid: 2 * (H200 // 4) << 20}


def test_a_card_that_may_not_be_shared_with_others_is_passed_over() -> None:
    offered, config = shared(2, cards=2, how="mps")
    [first] = choose(offered, config, ONE, [])
    [second] = choose(offered, config, ONE, [first], barred=frozenset({first.card}))
    assert second.card != first.card
    with pytest.raises(NoDeviceError, match="4 of 4 free, 0 of them may be shared"):
        choose(offered, config, ONE, [], barred=frozenset({first.card, second.card}))
