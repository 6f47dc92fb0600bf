"""DaemonSet → one pod on every node that fits. `fit` says which nodes do, `controller` is the loop."""

from gpuaas.controllers.daemon_sets.controller import DaemonSetController

__all__ = ["DaemonSetController"]
