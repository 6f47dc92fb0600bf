"""The notebook controller of a real cluster, played by a thread: each Notebook gets a StatefulSet of the same name.

Kueue knows no Notebooks; on a real cluster it admits their StatefulSets, because the controller passes the labels on
(Open Data Hub's does). That is all this one does: defaults and status are left out, and what a deleted Notebook owned is
the garbage collector's business.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.real.sides import Side

from gpuaas.api.custom.table import KINDS
from gpuaas.controllers.notebooks import wanted_set

EVERY_SECONDS = 0.1
JSON = {"Content-Type": "application/json"}


def definition() -> dict[str, Any]:
    """The only definition of a platform's kind that the examples need and that neither Kueue nor KubeRay bring."""
    made: dict[str, Any] = next(kind for kind in KINDS if kind.kind == "Notebook").definition()
    return {name: value for name, value in made.items() if name != "status"}


class Notebooks(threading.Thread):
    """Runs while it is entered."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(name="notebook-controller", daemon=True)
        self._side = Side("notebook-controller", kubeconfig)
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self.join()
        self._side.close()

    def run(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            for notebook in self._side.send("GET", "/apis/kubeflow.org/v1/notebooks").json().get("items", ()):
                if "deletionTimestamp" not in notebook["metadata"]:
                    self._make_set(notebook)

    def _make_set(self, notebook: dict[str, Any]) -> None:
        made = wanted_set({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", **notebook})
        labels = notebook["metadata"].get("labels") or {}
        made["metadata"]["labels"] = labels
        made["spec"]["template"]["metadata"]["labels"].update(labels)
        namespace = notebook["metadata"]["namespace"]
        # Refused with 409 when it is there already.
        self._side.send("POST", f"/apis/apps/v1/namespaces/{namespace}/statefulsets", json.dumps(made), JSON)
