"""LeaderWorkerSet → StatefulSets: one of the leaders, and one of its workers for each leader."""

from gpuaas.controllers.leader_worker_sets.controller import LeaderWorkerSetController

__all__ = ["LeaderWorkerSetController"]
