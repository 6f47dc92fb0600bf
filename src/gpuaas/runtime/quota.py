"""What controllers ask about quota: whether a pod may have a node, and which pods run without."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Quota(Protocol):
    def refusal(self, pod: Mapping[str, Any]) -> str:
        """Why the pod may not have a node now; "" if it may, or if Kueue does not answer for it."""
        ...

    def is_admitted(self, uid: str) -> bool:
        """Whether the pod, which has a node, runs on an admitted workload."""
        ...

    def version(self, namespace: str) -> int:
        """As long as it stays the same, a refusal does."""
        ...

    def subscribe(self, notify: Callable[[str], None]) -> None:
        """`notify(namespace)` when there may be more room in it."""
        ...

    def must_cover(self, namespace: str) -> bool:
        """Whether every pod in the namespace needs quota."""
        ...

    def is_overdrawn(self, namespace: str, workload: str) -> bool:
        """Whether pods run on the workload (of an elastic one the name its slices share) that its quota does not cover."""
        ...

    def excess(self, namespace: str, workload: str, pods: Sequence[str]) -> Sequence[str]:
        """The first of these uids without which the rest is covered."""
        ...
