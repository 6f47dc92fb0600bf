"""Sets of pods that replace what fails: the longer one after another fails, the longer the next is waited with.

A pod the kubelet refuses fails at once, and so does its replacement; without a pause that is fifty pods a second, for
ever. The first failure is made good at once; after that the pause doubles from a second to five minutes with each round
of failures, and is forgotten when none has come for twice that long. Pods that were evicted or preempted have not failed by themselves and do not count.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.runtime.backoff import Backoff
from gpuaas.runtime.metadata import uid_of
from gpuaas.runtime.pods import condition_of, phase_of

FIRST: Final = 1.0
LONGEST: Final = 300.0
_REMEMBERED: Final = 10_000  # owners; one may be gone before its deletion is seen


@dataclass(slots=True)
class _Pause:
    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST, LONGEST))
    counted: frozenset[str] = frozenset()  # uids of failed pods
    last: float = -math.inf
    until: float = 0.0


class FailedPods:
    """By the uid of their owner; lost with the process, after which a pause begins short again."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def wait(self, owner: str, pods: Iterable[Mapping[str, Any]], now: float) -> float:
        """Seconds until the owner's failed pods may be replaced; 0.0: now."""
        failed = frozenset(uid_of(pod) for pod in pods if _failed_by_itself(pod))
        pause = self._pauses.get(owner)
        if pause is None:
            if not failed:
                return 0.0
            pause = self._pauses[owner] = _Pause()
            if len(self._pauses) > _REMEMBERED:
                del self._pauses[next(iter(self._pauses))]
        if failed - pause.counted:
            if now - pause.last > 2 * LONGEST:
                pause.backoff.reset()
                pause.until = now
            else:
                pause.until = now + pause.backoff.next()
            pause.last = now
        elif now - pause.last > 2 * LONGEST and not failed:
            del self._pauses[owner]
            return 0.0
        pause.counted = failed
        return max(0.0, pause.until - now)

    def forget(self, owner: str) -> None:
        self._pauses.pop(owner, None)


def _failed_by_itself(pod: Mapping[str, Any]) -> bool:
    return phase_of(pod) == "Failed" and condition_of(pod, "DisruptionTarget") is None
