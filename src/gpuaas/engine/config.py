"""How the engine is set. Apart from the engine itself, so that who only carries settings around need not load it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuaas.engine.usage_share import UsageConfig


@dataclass(frozen=True, slots=True)
class Config:
    """How the engine is set; the defaults are upstream's."""

    fair_sharing: tuple[str, ...] | None = None
    """Names of the preemption strategies, in order; None: by priority and place only."""
    ignore_undeclared: bool = False
    """Resources a queue has no quota for are not looked at."""
    usage_sharing: UsageConfig | None = None
    """Admission fair sharing, for the queues that ask for it."""
    block_admission: bool = False
    """Admit nothing more while an admitted workload's pods are not all ready."""
    preemptors_first: bool = False
    """A workload that waits for its preemption targets goes before all others of its queue."""
    balanced: bool = False
    """Pods that prefer a level of a topology are spread over it evenly."""
    looks_again: bool = False
    """A head whose target another head of the cycle already took is assigned again, with the targets so far removed."""


BOTH_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
