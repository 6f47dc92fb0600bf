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
    """Whoever waits for its victims to leave goes before all others, whatever they ask for."""
    balanced: bool = False
    """Pods that prefer a level of a topology are spread over it evenly."""
    looks_again: bool = False
    """Whoever needs a victim that somebody else just took looks again, as if the victims so far were gone."""


BOTH_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
