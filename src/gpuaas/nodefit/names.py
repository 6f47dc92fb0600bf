"""The names by which a node that runs plain processes, and the pods meant for it, know each other."""

from typing import Final

PROCESS_CLASS: Final = "gpuaas-process"  # the runtime class of such pods
PROCESS_TAINT: Final = "gpuaas.dev/process-only"  # keeps other pods away from the node
EXECUTOR: Final = "gpuaas.dev/executor"  # label of a node: who runs its pods
