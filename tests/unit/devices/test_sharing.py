"""What a node offers under NVIDIA's configuration, and what a container gets."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.devices.allocate import RefusedError, allocate
from gpuaas.devices.cards import Card, MigDevice
from gpuaas.devices.health import xid_filter
from gpuaas.devices.labels import Machine, labels
from gpuaas.devices.mps import daemons
from gpuaas.devices.offer import Offer, offer
from gpuaas.devices.plugin_config import ConfigError, PluginConfig, check_flags, load
from gpuaas.devices.preferred import NotEnoughError, prefer
from gpuaas.devices.products import PRODUCTS

H200, A10, V100 = PRODUCTS["H200-SXM5-141GB"], PRODUCTS["A10-24GB"], PRODUCTS["V100-SXM2-32GB"]
MACHINE = Machine("580.159.04", 13000, "DGX H200")


def cards(number: int, product: Any = A10, **more: Any) -> tuple[Card, ...]:
    return tuple(Card(index, f"GPU-{index}", product, **more) for index in range(number))


def sliced(*profiles: str, index: int = 0) -> Card:
    devices = tuple(MigDevice(f"MIG-{index}-{at}", at, profile) for at, profile in enumerate(profiles))
    return Card(index, f"GPU-{index}", H200, mig=True, devices=devices)


def shared(replicas: int = 4, *, kind: str = "timeSlicing", name: str = "nvidia.com/gpu", **more: Any) -> PluginConfig:
    section = {"resources": [{"name": name, "replicas": replicas}], **more}
    return load({"version": "v1", "flags": {"mpsRoot": "/run/mps"}, "sharing": {kind: section}})


def counts(offered: Offer) -> dict[str, int]:
    return {resource: len(devices) for resource, devices in offered.items()}


@pytest.mark.parametrize(
    ("node", "config", "expected"),
    [
        (cards(2), PluginConfig(), {"nvidia.com/gpu": 2}),
        (cards(2), shared(), {"nvidia.com/gpu": 8}),
        (cards(2), shared(renameByDefault=True), {"nvidia.com/gpu.shared": 8}),
        (cards(2), shared(name="nvidia.com/mig-1g.18gb"), {"nvidia.com/gpu": 2}),
        ((sliced("1g.18gb", "1g.18gb"),), PluginConfig(), {"nvidia.com/gpu": 1}),
        ((sliced("1g.18gb", "1g.18gb"),), PluginConfig(mig_strategy="single"), {"nvidia.com/gpu": 2}),
        (
            (sliced("1g.18gb", "3g.71gb"), Card(1, "GPU-1", H200)),
            PluginConfig(mig_strategy="mixed"),
            {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.18gb": 1, "nvidia.com/mig-3g.71gb": 1},
        ),
        ((), shared(), {}),
    ],
)
def test_what_a_node_offers(node: tuple[Card, ...], config: PluginConfig, expected: dict[str, int]) -> None:
    assert counts(offer(node, config)) == expected


def test_a_slice_with_media_engines_counts_as_the_plain_one_until_plugin_0_20() -> None:
    node, config = (sliced("1g.18gb+me"),), PluginConfig(mig_strategy="mixed")
    assert counts(offer(node, config)) == {"nvidia.com/mig-1g.18gb": 1}
    assert counts(offer(node, config, anchored=True)) == {"nvidia.com/mig-1g.18gb.me": 1}


@pytest.mark.parametrize(
    ("node", "complaint"),
    [
        ((sliced(),), "device 0 has no MIG devices configured"),
        ((sliced("1g.18gb", "3g.71gb"),), "more than one MIG device type present on node"),
        ((sliced("1g.18gb"), Card(1, "GPU-1", H200)), "must be configured with the same migEnabled value"),
    ],
)
def test_the_single_strategy_wants_one_kind_of_slice(node: tuple[Card, ...], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        offer(node, PluginConfig(mig_strategy="single"))


@pytest.mark.parametrize(
    ("sharing", "complaint"),
    [
        ({"timeSlicing": {}}, "no resources specified"),
        ({"timeSlicing": {"resources": [{"replicas": 2}]}}, "no resource name specified"),
        ({"timeSlicing": {"resources": [{"name": "gpu"}]}}, "no replicas specified"),
        ({"timeSlicing": {"resources": [{"name": "gpu", "Replicas": 4}]}}, "no replicas specified"),
        ({"timeSlicing": {"resources": [{"name": "gpu", "replicas": 1}]}}, "number of replicas must be >= 2"),
        (
            {"timeSlicing": {"resources": [{"name": "amd.com/gpu", "replicas": 2}]}},
            "incorrect format for resource name",
        ),
        ({"mps": {"resources": [{"name": "gpu", "replicas": 2, "devices": "some"}]}}, "devices set as 'some'"),
        ({"mps": {"resources": [{"name": "gpu", "replicas": 2, "devices": ["x"]}]}}, "unsupported type for device"),
    ],
)
def test_a_wrong_sharing_section_is_named_as_the_plugin_names_it(sharing: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load({"sharing": sharing})


def test_fields_without_effect_are_named() -> None:
    entry = {"name": "gpu", "replicas": 2, "rename": "gpu.fast", "devices": [0]}
    config = load({"sharing": {"timeSlicing": {"resources": [entry]}}})
    assert config.ignored == ("sharing.timeSlicing.resources[].rename", "sharing.timeSlicing.resources[].devices")
    assert config.sharing.resources[0].rename == ""


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (PluginConfig(mig_strategy="some"), "unknown MIG strategy: some"),
        (PluginConfig(device_id_strategy="name"), "invalid --device-id-strategy option: name"),
        (PluginConfig(imex_channels=(1,)), "found \\[1\\]"),
        (load({"sharing": {"mps": {"resources": [{"name": "gpu", "replicas": 2}]}}}), "requires --mps-root"),
    ],
)
def test_flags_are_checked(config: PluginConfig, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_flags(config)


def test_the_environment_wins_over_the_file_also_when_it_is_empty() -> None:
    document = {"flags": {"migStrategy": "mixed"}}
    assert load(document, {"MIG_STRATEGY": "single"}).mig_strategy == "single"
    assert load(document, {"MIG_STRATEGY": ""}).mig_strategy == ""


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown version: v2"):
        load({"version": "v2"})


def test_a_container_sees_each_card_once() -> None:
    config = shared()
    offered = offer(cards(1), config)
    granted = allocate(offered, config, "nvidia.com/gpu", ["GPU-0::0", "GPU-0::3"])
    assert granted.environment == {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}


def test_more_than_one_replica_can_be_refused() -> None:
    config = shared(failRequestsGreaterThanOne=True)
    with pytest.raises(RefusedError, match="maximum request size for shared resources is 1; found 2"):
        allocate(offer(cards(1), config), config, "nvidia.com/gpu", ["GPU-0::0", "GPU-0::3"])


def test_a_device_that_is_not_offered_is_refused() -> None:
    with pytest.raises(RefusedError, match="unknown device: GPU-9"):
        allocate(offer(cards(1), PluginConfig()), PluginConfig(), "nvidia.com/gpu", ["GPU-9"])


def test_an_mps_client_gets_the_pipe_of_its_daemon() -> None:
    config = shared(kind="mps")
    granted = allocate(offer(cards(1), config), config, "nvidia.com/gpu", ["GPU-0::0"])
    assert granted.environment["CUDA_MPS_PIPE_DIRECTORY"] == "/mps/nvidia.com/gpu/pipe"
    assert granted.mounts[0].host == "/run/mps/nvidia.com/gpu/pipe"


def test_a_daemon_limits_each_client_to_its_part() -> None:
    config = shared(3, kind="mps")
    (daemon,) = daemons(offer(cards(2, V100), config), config)
    assert daemon.pinned_memory == {"0": "10922M", "1": "10922M"}
    assert daemon.active_thread_percentage == 33


@pytest.mark.parametrize(("product", "most"), [(V100, 16), (A10, 48)])
def test_a_server_takes_so_many_clients(product: Any, most: int) -> None:
    assert daemons(offer(cards(1, product), shared(most, kind="mps")), shared(most, kind="mps"))
    config = shared(most + 1, kind="mps")
    with pytest.raises(ConfigError, match=f"{most + 1} > {most}"):
        daemons(offer(cards(1, product), config), config)


def test_linked_cards_are_kept_together() -> None:
    pairs = {0: 1, 1: 0, 2: 3, 3: 2}
    node = tuple(
        Card(i, f"GPU-{i}", H200, nvlinks=tuple(18 if pairs[i] == j else 0 for j in range(4))) for i in range(4)
    )
    known = offer(node, PluginConfig())["nvidia.com/gpu"]
    assert prefer(known, ["GPU-0", "GPU-2", "GPU-3"], [], 2) == ["GPU-2", "GPU-3"]
    assert prefer(known, ["GPU-0", "GPU-1", "GPU-2", "GPU-3"], ["GPU-1"], 2) == ["GPU-0", "GPU-1"]
    # One card of a broken pair is taken for a small request before a whole pair is torn.
    assert prefer(known, ["GPU-0", "GPU-2", "GPU-3"], [], 4) == []


def test_replicas_come_from_the_emptiest_card() -> None:
    known = offer(cards(2), shared())["nvidia.com/gpu"]
    free = ["GPU-0::3", *(f"GPU-1::{n}" for n in range(4))]
    assert prefer(known, free, [], 1)[0].startswith("GPU-1")
    with pytest.raises(NotEnoughError):
        prefer(known, free, [], 6)


def test_sharing_shows_in_labels_and_the_count_stays_physical() -> None:
    found = labels(cards(2), shared(), MACHINE)
    assert found["nvidia.com/gpu.product"] == "NVIDIA-A10-SHARED"
    assert found["nvidia.com/gpu.count"] == "2"
    assert found["nvidia.com/gpu.replicas"] == "4"
    assert found["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert found["nvidia.com/gpu.machine"] == "DGX-H200"
    assert found["nvidia.com/cuda.runtime-version.full"] == "13.0"


def test_a_node_without_cards_has_one_label() -> None:
    assert labels((), PluginConfig(), MACHINE) == {"nvidia.com/vgpu.present": "false"}


@pytest.mark.parametrize(
    ("env", "unhealthy"),
    [
        ({}, [48, 79]),
        ({"DP_DISABLE_HEALTHCHECKS": "48"}, [79]),
        ({"DP_DISABLE_HEALTHCHECKS": "all"}, []),
        ({"DP_DISABLE_HEALTHCHECKS": "XIDS,48"}, []),
        ({"DP_ENABLE_HEALTHCHECKS": "31"}, [31, 48, 79]),
        ({"DP_ENABLE_HEALTHCHECKS": "all"}, [13, 31, 48, 79]),
        ({"DP_DISABLE_HEALTHCHECKS": "many"}, [48, 79]),
    ],
)
def test_which_xids_make_a_card_unhealthy(env: dict[str, str], unhealthy: list[int]) -> None:
    checks = xid_filter(env)
    assert [xid for xid in (13, 31, 48, 79) if checks.is_unhealthy(xid)] == unhealthy
