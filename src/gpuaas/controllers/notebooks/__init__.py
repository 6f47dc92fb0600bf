"""Notebook → a StatefulSet of one pod and a Service, and on this machine the command that starts Jupyter."""

from gpuaas.controllers.notebooks.activity import NotebookActivity
from gpuaas.controllers.notebooks.controller import NOTEBOOKS, NotebookController, wanted_set

__all__ = ["NOTEBOOKS", "NotebookActivity", "NotebookController", "wanted_set"]
