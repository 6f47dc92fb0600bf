"""Kueue in process: admission, workloads, and the statuses of queues."""

from gpuaas.controllers.kueue.core import KueueCore
from gpuaas.controllers.kueue.failure_recovery import FailureRecovery
from gpuaas.controllers.kueue.nodes import PlacedNodes
from gpuaas.controllers.kueue.provisioning import Provisioning, ProvisioningChecks
from gpuaas.controllers.kueue.statuses import QueueStatuses

__all__ = ["FailureRecovery", "KueueCore", "PlacedNodes", "Provisioning", "ProvisioningChecks", "QueueStatuses"]
