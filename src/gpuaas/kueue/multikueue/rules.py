"""The `multiKueue` part of Kueue's configuration, as values."""

from __future__ import annotations

from dataclasses import dataclass

from gpuaas.api.kueue.configuration import ALL_AT_ONCE as ALL_AT_ONCE
from gpuaas.api.kueue.configuration import INCREMENTAL as INCREMENTAL

BY_FIT = "gpuaas.dev/dispatcher-by-fit"
"""Our dispatcher: the default for queues whose clusters a Placement chooses."""
ROUND_SECONDS = 300.0
"""How long the incremental dispatcher waits before it nominates more clusters."""


@dataclass(frozen=True, slots=True)
class MultiKueueRules:
    origin: str = "multikueue"
    gc_interval: float = 60.0
    """Seconds; 0: copies whose workload is gone are not looked for."""
    worker_lost_timeout: float = 900.0
    dispatcher: str = ""
    """Empty: all clusters at once, or by fit where a Placement chooses the clusters."""
    step_size: int = 3
