"""StatefulSet → pods with names and claims that stay: made in order, removed in reverse, updated from the last.

`plan` decides what comes next, `identity` makes pods and claims, `controller` is the loop.
"""

from gpuaas.controllers.stateful_sets.controller import StatefulSetController

__all__ = ["StatefulSetController"]
