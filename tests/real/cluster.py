"""A whole real cluster on one machine: the control plane, kwok nodes with GPUs, KubeRay's operator, upstream Kueue.

What a team moves to when one machine is no longer enough, as far as that can run without containers. No gpuaas server is
part of it. Nodes come from a fleet file and may be added later; `notebooks` stands in for the notebook controller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.real.kueue import apply, established, start_kueue
from tests.real.nodes import start_kubelets
from tests.real.notebooks import Notebooks, definition
from tests.real.parts import manifests
from tests.real.plane import RealControlPlane, free_port
from tests.real.sides import Side


@dataclass(frozen=True)
class RealCluster:
    plane: RealControlPlane
    side: Side

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig


@contextlib.contextmanager
def real_cluster(settings: dict[str, Any] | None = None, folder: Path | None = None) -> Iterator[RealCluster]:
    """Without nodes; `settings` are laid over Kueue's configuration."""
    with RealControlPlane(folder, scheduler=True) as plane:
        side = Side("real", plane.kubeconfig)
        furnish(plane, side, settings)
        with Notebooks(plane.kubeconfig):
            yield RealCluster(plane, side)
        side.close()


def furnish(plane: RealControlPlane, side: Side, settings: dict[str, Any] | None = None) -> None:
    """Everything that runs beside the control plane."""
    start_kubelets(plane)
    _start_kuberay(plane, side)
    apply(side, definition())
    start_kueue(plane, side, settings)


def _start_kuberay(plane: RealControlPlane, side: Side) -> None:
    found = [yaml.safe_load(file.read_text()) for file in sorted(_definitions().glob("*.yaml"))]
    for each in found:
        apply(side, each)
    for each in found:
        established(plane, each)
    plane.spawn(
        "kuberay-operator",
        "--enable-leader-election=false",
        kubeconfig=plane.kubeconfig,
        metrics_addr="127.0.0.1:0",
        health_probe_bind_address=f"127.0.0.1:{free_port()}",
    )


def _definitions() -> Path:
    return manifests("kuberay-operator") / "config" / "crd" / "bases"
