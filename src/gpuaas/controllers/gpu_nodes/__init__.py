"""What NVIDIA's operator does to nodes with cards: sharing, MIG layouts, and the resources and labels that follow."""

from gpuaas.controllers.gpu_nodes.controller import GpuNodes, NodeCards

__all__ = ["GpuNodes", "NodeCards"]
