"""Deployment → ReplicaSets: rollouts that keep enough pods available, with a history to go back to.

`plan` decides (which replica set is the new one, how large each may be, what the status says); `controller` is the
loop. Pods are the replica sets' own business.
"""

from gpuaas.controllers.deployments.controller import DeploymentController

__all__ = ["DeploymentController"]
