"""Gives pending pods their nodes. Which node, and why none, is decided in the room devices; here is the loop."""

from gpuaas.controllers.pod_scheduler.controller import PodScheduler

__all__ = ["PodScheduler"]
