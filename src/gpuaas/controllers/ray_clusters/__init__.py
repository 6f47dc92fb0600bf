"""RayCluster → a head, groups of workers and the head's service, as KubeRay's operator makes them."""

from gpuaas.controllers.ray_clusters.controller import RayClusterController

__all__ = ["RayClusterController"]
