"""The kinds a hardware profile is applied to, and where each keeps containers, node selector and tolerations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """`pod`: the path of the pod spec. `model`: the path of one object with resources, in place of containers."""

    pod: Path
    model: Path | None = None
    main: str = ""  # the name the main container must have; empty: that of the object, and a sole one may have any
    creates_main: bool = False  # a missing container list becomes one with the main container

    @property
    def containers(self) -> Path:
        return (*self.pod, "containers")

    @property
    def node_selector(self) -> Path:
        return (*self.pod, "nodeSelector")

    @property
    def tolerations(self) -> Path:
        return (*self.pod, "tolerations")


NOTEBOOK: Final = Shape(("spec", "template", "spec"))
_LLM: Final = Shape(("spec", "template"), main="main", creates_main=True)

SHAPES: Final[Mapping[tuple[str, str], Shape]] = {
    ("kubeflow.org/v1", "Notebook"): NOTEBOOK,
    ("serving.kserve.io/v1beta1", "InferenceService"): Shape(
        ("spec", "predictor"), model=("spec", "predictor", "model")
    ),
    ("serving.kserve.io/v1alpha1", "LLMInferenceService"): _LLM,
    ("serving.kserve.io/v1alpha2", "LLMInferenceService"): _LLM,
}
"""What upstream's webhook serves, by apiVersion and kind."""
