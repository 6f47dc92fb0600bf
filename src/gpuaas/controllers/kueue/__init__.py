"""Kueue in process: admission, workloads, and the statuses of queues."""

from gpuaas.controllers.kueue.core import KueueCore
from gpuaas.controllers.kueue.nodes import PlacedNodes
from gpuaas.controllers.kueue.provisioning import Provisioning, ProvisioningChecks
from gpuaas.controllers.kueue.statuses import QueueStatuses

__all__ = ["KueueCore", "PlacedNodes", "Provisioning", "ProvisioningChecks", "QueueStatuses"]
