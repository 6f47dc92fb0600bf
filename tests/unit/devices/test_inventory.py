"""A node's cards: what they are derived from, what is kept of them, and what a hand edit cannot do."""

import json
from dataclasses import replace

import pytest

from gpuaas.devices.advertise import (
    advertise,
    check_size,
    config_in_force,
    document_of,
    keep,
    stale_labels,
    stale_resources,
)
from gpuaas.devices.inventory import (
    SIMULATED,
    Pool,
    encode,
    layout_of,
    restored,
    simulated_cards,
    with_closed,
    with_layout,
    without_mig,
)
from gpuaas.devices.plugin_config import ConfigError, PluginConfig, SharedResource, Sharing, load

A100 = Pool("NVIDIA-A100-SXM4-40GB", 2)
MIXED = PluginConfig(mig_strategy="mixed")


def test_the_same_fleet_has_the_same_cards_and_no_two_nodes_share_one() -> None:
    uuids = [[card.uuid for card in simulated_cards(node, A100)] for node in ("a", "b", "a")]
    assert uuids[0] == uuids[2]
    assert len({*uuids[0], *uuids[1]}) == 4


def test_what_a_pool_does_not_say_comes_from_the_product() -> None:
    card = simulated_cards("n", A100)[0]
    assert (card.name, card.memory_mib, card.nvlinks) == ("NVIDIA A100-SXM4-40GB", 40960, (4, 4))
    odd = simulated_cards("n", Pool("My-Card", 1, 1000))[0]
    assert (odd.name, odd.memory_mib, odd.product.mig_capable) == ("My-Card", 1000, False)


def test_a_number_of_gpus_alone_says_nothing_about_their_product() -> None:
    shown = advertise(simulated_cards("n", Pool("", 4)), PluginConfig(), SIMULATED)
    assert shown.capacity == {"nvidia.com/gpu": "4"}
    assert "nvidia.com/gpu.product" not in shown.labels
    assert "nvidia.com/gpu.memory" not in shown.labels


def test_a_layout_survives_its_text() -> None:
    one, two = simulated_cards("n", A100)
    cut = (with_layout(one, {"3g.20gb": 1, "1g.5gb": 2}), replace(two, unhealthy="on fire"))
    assert with_closed(restored((one, two), encode(cut)), encode(cut)) == cut
    assert restored((one, two), encode(cut)) == (cut[0], two), "whether a card takes work is found again"
    assert layout_of(without_mig(cut[0])) == {}


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "{",
        "{}",
        "[1]",
        '[{"uuid":"GPU-x","mig":[]}]',
        '[{"uuid":"UUID","mig":[{"profile":"7g.40gb"},{"profile":"1g.5gb"}]}]',
        '[{"uuid":"UUID","mig":[{"profile":"1g.18gb"}]}]',
        '[{"uuid":"UUID","mig":[{"profile":1}]}]',
        '[{"uuid":"UUID","mig":"all"}]',
        '[{"uuid":"UUID","mig":[' + ",".join(['{"profile":"1g.5gb"}'] * 8) + "]}]",
        "[" * 100_000,
    ],
)
def test_a_text_edited_by_hand_cannot_offer_more_than_the_cards_have(kept: str) -> None:
    cards = simulated_cards("n", A100)
    assert restored(cards, kept.replace("UUID", cards[0].uuid)) == cards


def test_a_closed_card_counts_in_capacity_and_takes_no_work() -> None:
    one, two = simulated_cards("n", A100)
    shown = advertise((replace(one, unhealthy="it is hot"), two), PluginConfig(), SIMULATED)
    assert (shown.capacity, shown.allocatable) == ({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"})


def test_what_is_no_longer_derived_is_stale_and_what_others_wrote_is_not() -> None:
    known = ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared", "cpu", "example.com/gpu"]
    assert stale_resources(known, {"nvidia.com/gpu": "1"}) == ["nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"]
    labels = advertise(
        tuple(with_layout(c, {"1g.5gb": 7}) for c in simulated_cards("n", A100)), MIXED, SIMULATED
    ).labels
    assert stale_labels(labels, {}) == [*labels], "all that is derived is known to be"
    others = ["nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/device-plugin.config"]
    others += ["nvidia.com/gpu.deploy.device-plugin", "team", "nvidia.com/gpu.rack"]
    assert stale_labels(others, {}) == []


def test_a_configuration_is_kept_as_what_decides_the_offer() -> None:
    sharing = Sharing((SharedResource("nvidia.com/gpu", 4),), fail_requests_greater_than_one=True)
    config = PluginConfig(mig_strategy="single", time_slicing=sharing)
    assert load(document_of(config)) == config
    assert config_in_force(keep(config, "x")) == config
    plain = simulated_cards("n", A100)
    text = keep(config, "x", says_strategy=False)
    assert [config_in_force(text, cards).mig_strategy for cards in (plain, (with_layout(plain[0], {}),))] == [  # type: ignore[union-attr]
        "none",
        "mixed",
    ]
    for broken in ("", "{", "[]", "{}", json.dumps({"document": {"version": "v3"}})):
        assert config_in_force(broken) is None


def test_replicas_are_limited_before_they_are_made() -> None:
    with pytest.raises(ConfigError, match=r"sharing\.timeSlicing\.resources\[0\]\.replicas is 1025, at most 1024"):
        check_size(PluginConfig(time_slicing=Sharing((SharedResource("nvidia.com/gpu", 1025),))))
