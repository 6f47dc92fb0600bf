"""Whether nodes are still there: silence becomes a condition, a condition becomes taints, taints make pods leave."""

from gpuaas.controllers.node_lifecycle.controller import NodeLifecycleController
from gpuaas.controllers.node_lifecycle.eviction import TaintEvictionController
from gpuaas.controllers.node_lifecycle.orphans import PodGarbageCollector

__all__ = ["NodeLifecycleController", "PodGarbageCollector", "TaintEvictionController"]
