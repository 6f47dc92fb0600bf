"""What a preemption cost: a slice or a share is its part of a GPU."""

from typing import Any

import pytest

from gpuaas.engine.plan import Preempted
from gpuaas.engine.preempt import Rule
from gpuaas.kueue.ledger import preemption_entry

ADMITTED = {"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": "2024-01-01T00:00:00Z"}
NOON = 1_704_067_200.0 + 700.0  # seconds after it was admitted: 700


@pytest.mark.parametrize(
    ("frees", "lost"),
    [
        ((("f", "nvidia.com/gpu", 2),), 1400),
        ((("f", "nvidia.com/mig-1g.5gb", 1),), 100),
        ((("f", "nvidia.com/mig-3g.20gb", 2), ("f", "cpu", 4000)), 600),
        ((("shared", "nvidia.com/gpu", 1),), 175),
    ],
)
def test_gpu_seconds_lost_count_parts_of_cards(frees: tuple[tuple[str, str, int], ...], lost: int) -> None:
    victim: Any = {"metadata": {"name": "v", "namespace": "ns"}, "spec": {}, "status": {"conditions": [ADMITTED]}}
    decided = Preempted("ns/v", "u", "q", next(iter(Rule)), "ns/p", "", "", "q", "", "", frees, "")
    shares = {"shared": {"nvidia.com/gpu": 4}}
    entry = preemption_entry(decided, victim, None, NOON, lambda flavor: shares.get(flavor, {}))
    assert (entry["spec"]["ranSeconds"], entry["spec"]["gpuSecondsLost"]) == (700, lost)
