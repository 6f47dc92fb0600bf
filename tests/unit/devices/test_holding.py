"""Who gets which device, what is free beside it, and what a program is told."""

import json
from typing import Any

import pytest

from gpuaas.devices.holding import (
    Held,
    NoDeviceError,
    choose,
    encode,
    free_ids,
    held_by,
    requests_of,
    smi,
    variables,
)
from gpuaas.devices.inventory import Pool, simulated_cards, with_layout
from gpuaas.devices.offer import offer
from gpuaas.devices.plugin_config import PluginConfig, SharedResource, Sharing

A100 = "NVIDIA-A100-SXM4-40GB"
GPU = "nvidia.com/gpu"
MIXED = PluginConfig(mig_strategy="mixed")
SLICED = PluginConfig(time_slicing=Sharing((SharedResource(GPU, 2),)))


def indices(held: tuple[Held, ...]) -> list[int]:
    return [one.index for one in held]


def test_two_cards_are_a_pair_that_nvlink_connects() -> None:
    cards = simulated_cards("n", Pool(A100, 4, nvlink="pairs"))
    offered = offer(cards, MIXED)
    first = choose(offered, MIXED, {"main": {GPU: 1}}, ())
    assert indices(first) == [0]
    assert indices(choose(offered, MIXED, {"main": {GPU: 2}}, first)) == [2, 3]


def test_two_cards_lie_on_one_socket_where_nothing_else_differs() -> None:
    cards = simulated_cards("n", Pool("NVIDIA-L40S", 4, numa=2))
    offered = offer(cards, MIXED)
    first = choose(offered, MIXED, {"main": {GPU: 1}}, ())
    assert indices(choose(offered, MIXED, {"main": {GPU: 2}}, first)) == [2, 3]


def test_each_container_has_its_own() -> None:
    offered = offer(simulated_cards("n", Pool(A100, 4)), MIXED)
    held = choose(offered, MIXED, {"a": {GPU: 1}, "b": {GPU: 2}}, ())
    seen = {name: variables(held, name)["CUDA_VISIBLE_DEVICES"].split(",") for name in "ab"}
    assert [len(seen["a"]), len(seen["b"])] == [1, 2]
    assert not set(seen["a"]) & set(seen["b"])
    assert variables(held, "c") == {}


def test_a_whole_card_and_what_lies_on_it_exclude_each_other() -> None:
    cards = simulated_cards("n", Pool(A100, 1))
    whole = choose(offer(cards, MIXED), MIXED, {"main": {GPU: 1}}, ())
    shared = offer(cards, SLICED)
    assert free_ids(shared[GPU], whole) == []
    replica = choose(shared, SLICED, {"main": {GPU: 1}}, ())
    assert free_ids(offer(cards, MIXED)[GPU], replica) == []
    cut = offer((with_layout(cards[0], {"1g.5gb": 7}),), MIXED)
    resource = "nvidia.com/mig-1g.5gb"
    assert free_ids(cut[resource], whole) == []
    slice_ = choose(cut, MIXED, {"main": {resource: 1}}, ())
    assert len(free_ids(cut[resource], slice_)) == 6
    assert free_ids(offer(cards, MIXED)[GPU], slice_) == []


def test_too_few_are_named_and_nothing_is_given() -> None:
    offered = offer(simulated_cards("n", Pool(A100, 2)), MIXED)
    with pytest.raises(NoDeviceError, match=r"3 of nvidia\.com/gpu asked for, 2 of 2 free"):
        choose(offered, MIXED, {"main": {GPU: 3}}, ())


def test_choosing_among_many_cards_takes_no_search_of_every_division() -> None:
    for wiring in ("all", "pairs", "none"):
        offered = offer(simulated_cards("n", Pool(A100, 64, nvlink=wiring, numa=2)), MIXED)
        assert len(choose(offered, MIXED, {"main": {GPU: 24}}, ())) == 24
        assert len(choose(offered, MIXED, {"main": {GPU: 6}}, ())) == 6


def test_the_annotation_gives_back_what_it_was_made_of() -> None:
    cut = offer((with_layout(simulated_cards("n", Pool(A100, 1))[0], {"3g.20gb": 2}),), MIXED)
    held = choose(cut, MIXED, {"main": {"nvidia.com/mig-3g.20gb": 2}}, ())
    assert held_by({"metadata": {"annotations": {"gpuaas.dev/devices": encode(held)}}}) == held


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", '{"main": 1}', '{"main": [1]}', '{"main": [{"id": 1}]}', "[" * 100_000, '{"main": "x"}'],
)
def test_an_annotation_that_cannot_be_read_gives_nothing(text: str) -> None:
    assert held_by({"metadata": {"annotations": {"gpuaas.dev/devices": text}}}) == ()


@pytest.mark.parametrize(
    ("container", "found"),
    [
        ({"limits": {GPU: "2"}}, {"main": {GPU: 2}}),
        ({"limits": {GPU: 1, "cpu": "1"}}, {"main": {GPU: 1}}),
        ({"requests": {GPU: "1"}}, {"main": {GPU: 1}}),
        ({"limits": {GPU: "0"}}, {}),
        ({"limits": {"other.com/gpu": "1"}}, {}),
        ({}, {}),
    ],
)
def test_what_a_pod_asks_for(container: Any, found: Any) -> None:
    assert requests_of({"containers": [{"name": "main", "resources": container}]}, (GPU,)) == found


def test_nvidia_smi_lists_slices_below_their_card() -> None:
    card = with_layout(simulated_cards("n", Pool(A100, 1))[0], {"3g.20gb": 2})
    cut = offer((card,), MIXED)
    held = choose(cut, MIXED, {"main": {"nvidia.com/mig-3g.20gb": 2}}, ())
    assert smi(held, "main", ["-L"]) == [
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {card.uuid})",
        f"  MIG 3g.20gb         Device  0: (UUID: {card.devices[0].uuid})",
        f"  MIG 3g.20gb         Device  1: (UUID: {card.devices[1].uuid})",
    ]
    assert smi(held, "other", ["-L"]) == ["No devices found."]
    assert smi(held, "main", ["--query-gpu=name"]) is None
    assert any("NVIDIA A100-SXM4-40GB" in line for line in smi(held, "main", []) or ())
    assert json.loads(encode(())) == {}
