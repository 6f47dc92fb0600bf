"""Topology inputs of the engine: topologies, nodes, and what a pod set asks of them.

Immutable values only; where pods fit is decided in `topology`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuaas.engine.constraints import Taint

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """At most one of `required` and `preferred` names a level; `slices` are (level, size) pairs, outermost first."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool = False
    slices: tuple[tuple[str, int], ...] = ()
    group: str | None = None

    @property
    def explicit(self) -> bool:
        return self.required is not None or self.preferred is not None or self.unconstrained or bool(self.slices)


@dataclass(frozen=True, slots=True)
class Topology:
    name: str
    levels: tuple[str, ...]
    """Node labels, the widest first."""


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: tuple[tuple[str, str], ...]
    allocatable: tuple[tuple[str, int], ...]
    taints: tuple[Taint, ...] = ()
    usable: bool = True
    """Ready and schedulable."""
    other_usage: tuple[tuple[str, int], ...] = ()
    """What pods that are not placed through a topology take of it, their number as `pods`."""
