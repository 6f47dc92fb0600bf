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

from tests.real.kueue import define, document, start_kueue
from tests.real.nodes import start_kubelets
from tests.real.notebooks import Notebooks, definition
from tests.real.parts import manifests, module_folder
from tests.real.plane import RealControlPlane, free_port
from tests.real.sides import Side

# Kinds that Kueue holds although nobody acts on them here: the modules it is made with, and where they keep definitions.
DEFINED = (
    ("sigs.k8s.io/jobset", "v0.12.0", "config/components/crd/bases/*.yaml"),
    ("github.com/kubeflow/trainer/v2", "v2.2.1", "manifests/base/crds/trainer.*.yaml"),
    ("github.com/kubeflow/training-operator", "v1.9.3", "manifests/base/crds/kubeflow.org_[!m]*.yaml"),
    ("github.com/kubeflow/mpi-operator", "v0.8.2", "manifests/base/kubeflow.org_mpijobs.yaml"),
    ("k8s.io/autoscaler/cluster-autoscaler/apis", "v0.0.0-20240830133931-adfbe7e45277", "config/crd/*.yaml"),
)


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
    define(plane, side, [*_others(), definition()])
    start_kueue(plane, side, settings)


def _start_kuberay(plane: RealControlPlane, side: Side) -> None:
    folder = manifests("kuberay-operator") / "config" / "crd" / "bases"
    define(plane, side, [document(file) for file in sorted(folder.glob("*.yaml"))])
    plane.spawn(
        "kuberay-operator",
        "--enable-leader-election=false",
        kubeconfig=plane.kubeconfig,
        metrics_addr="127.0.0.1:0",
        health_probe_bind_address=f"127.0.0.1:{free_port()}",
    )


def _others() -> Iterator[dict[str, Any]]:
    for module, version, *files in DEFINED:
        folder = module_folder(module, version)
        for pattern in files:
            yield from (document(file) for file in sorted(folder.glob(pattern)))
