"""The topology trap: cards that one container was given and that are not connected well."""

import pytest

from gpuaas.devices.inventory import Pool, simulated_cards
from gpuaas.devices.wiring import trouble


@pytest.mark.parametrize(
    ("wiring", "numa", "given", "words"),
    [
        ("all", 2, (0, 3), ""),
        ("pairs", 2, (0, 1), ""),
        ("pairs", 1, (1, 2), "GPUs 1 and 2 share no NVLink, though other cards of the node do"),
        ("pairs", 2, (1, 2), "GPUs 1 and 2 share no NVLink, though other cards of the node do and are on different sockets (NUMA 0 and 1)"),
        ("none", 1, (0, 3), ""),
        ("none", 2, (0, 3), "GPUs 0 and 3 share no NVLink and are on different sockets (NUMA 0 and 1)"),
        ("none", 2, (2,), ""),
    ],
)  # fmt: skip
def test_a_slow_way_between_cards_is_named(wiring: str, numa: int, given: tuple[int, ...], words: str) -> None:
    cards = simulated_cards("n", Pool("NVIDIA-L40S", 4, 0, wiring, numa))
    assert trouble([cards[index] for index in given], cards) == words
