"""Notebook → a StatefulSet of one pod and a Service, and on this machine the command that starts Jupyter."""

from gpuaas.controllers.notebooks.controller import NOTEBOOKS, NotebookController, wanted_set

__all__ = ["NOTEBOOKS", "NotebookController", "wanted_set"]
