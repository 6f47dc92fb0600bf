"""Where each kind that can name a hardware profile keeps its pods: upstream's three kinds, and the kinds of jobs beside them.

A workload may hold several pod templates (a RayCluster its head and its groups of workers). Each is a `Slot`. Where a
kind has workers, accelerators go to them: a head or a launcher gets CPU and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.profiles.paths import Object

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """`holder`: the one object with resources, where a kind has that in place of containers."""

    pod: Path
    holder: Path | None = None
    accelerators: bool = True
    main: str = (
        ""  # the name a main container must have; empty: the only one, else the workload's namesake, else the first
    )
    creates_main: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    slots: Callable[[Object], Iterator[Slot]]
    mutable: bool = True  # whether its pods may change after it was made

    def at(self, obj: Object) -> list[Slot]:
        return list(self.slots(obj))


_TEMPLATE: Final[Path] = ("spec", "template", "spec")


def _one(slot: Slot) -> Callable[[Object], Iterator[Slot]]:
    def slots(_obj: Object) -> Iterator[Slot]:
        yield slot

    return slots


def _ray_cluster(base: Path) -> Callable[[Object], Iterator[Slot]]:
    def slots(obj: Object) -> Iterator[Slot]:
        spec = found(obj, base) or {}
        groups = spec.get("workerGroupSpecs") or ()
        if spec.get("headGroupSpec"):
            yield Slot((*base, "headGroupSpec", "template", "spec"), accelerators=not groups)
        for index, _ in enumerate(groups):
            yield Slot((*base, "workerGroupSpecs", index, "template", "spec"))

    return slots


def _replicas(field: str, *, launcher: str = "") -> Callable[[Object], Iterator[Slot]]:
    """`launcher`: the role that only starts the others."""

    def slots(obj: Object) -> Iterator[Slot]:
        roles = (obj.get("spec") or {}).get(field) or {}
        for role in sorted(roles):
            yield Slot(("spec", field, role, "template", "spec"), accelerators=role != launcher or len(roles) == 1)

    return slots


def _job_set(obj: Object) -> Iterator[Slot]:
    for index, _ in enumerate((obj.get("spec") or {}).get("replicatedJobs") or ()):
        yield Slot(("spec", "replicatedJobs", index, "template", *_TEMPLATE))


_LLM: Final = Slot(("spec", "template"), main="main", creates_main=True)

WORKLOADS: Final[Mapping[tuple[str, str], Workload]] = {
    ("kubeflow.org", "notebooks"): Workload(_one(Slot(_TEMPLATE))),
    ("serving.kserve.io", "inferenceservices"): Workload(
        _one(Slot(("spec", "predictor"), holder=("spec", "predictor", "model")))
    ),
    ("serving.kserve.io", "llminferenceservices"): Workload(_one(_LLM)),
    ("", "pods"): Workload(_one(Slot(("spec",))), mutable=False),
    ("apps", "deployments"): Workload(_one(Slot(_TEMPLATE))),
    ("apps", "statefulsets"): Workload(_one(Slot(_TEMPLATE))),
    ("batch", "jobs"): Workload(_one(Slot(_TEMPLATE)), mutable=False),
    ("batch", "cronjobs"): Workload(_one(Slot(("spec", "jobTemplate", *_TEMPLATE)))),
    ("jobset.x-k8s.io", "jobsets"): Workload(_job_set, mutable=False),
    ("kubeflow.org", "pytorchjobs"): Workload(_replicas("pytorchReplicaSpecs"), mutable=False),
    ("kubeflow.org", "tfjobs"): Workload(_replicas("tfReplicaSpecs"), mutable=False),
    ("kubeflow.org", "xgboostjobs"): Workload(_replicas("xgbReplicaSpecs"), mutable=False),
    ("kubeflow.org", "paddlejobs"): Workload(_replicas("paddleReplicaSpecs"), mutable=False),
    ("kubeflow.org", "jaxjobs"): Workload(_replicas("jaxReplicaSpecs"), mutable=False),
    ("kubeflow.org", "mpijobs"): Workload(_replicas("mpiReplicaSpecs", launcher="Launcher"), mutable=False),
    ("ray.io", "rayclusters"): Workload(_ray_cluster(("spec",)), mutable=False),
    ("ray.io", "rayjobs"): Workload(_ray_cluster(("spec", "rayClusterSpec")), mutable=False),
}
"""By group and plural."""

UPSTREAM: Final = frozenset(
    (
        ("kubeflow.org", "notebooks"),
        ("serving.kserve.io", "inferenceservices"),
        ("serving.kserve.io", "llminferenceservices"),
    )
)
"""What Open Data Hub's own webhook serves."""


def found(obj: Any, path: Path) -> Any:
    """The value at the path; None where the path ends early or meets another type."""
    for key in path:
        if isinstance(key, int):
            if not isinstance(obj, list) or key >= len(obj):
                return None
            obj = obj[key]
        else:
            obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj


def replaced(obj: Any, path: Path, value: Any) -> Any:
    """The object with another value at the path; only the way there is copied, missing maps are made."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        return [*obj[:key], replaced(obj[key], rest, value), *obj[key + 1 :]]
    holder = obj if isinstance(obj, Mapping) else {}
    return {**holder, key: replaced(holder.get(key), rest, value)}
