"""When an idle notebook is stopped: the notebook controller's rule from kernels, terminals and two annotations.

All times are seconds. Upstream takes a server that does not answer for idle once its last activity is old enough; callers
that want better do not ask without an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kernel:
    state: str
    last_activity: float | None  # None: a time that cannot be read


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a notebook. None: the annotation is absent or unreadable, or the server gave no answer."""

    last_activity: float | None
    last_check: float | None
    kernels: Sequence[Kernel] | None = None
    terminals: Sequence[float] | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    due: bool  # the check period is over
    idle: bool
    last_activity: float | None


def check(seen: Seen, now: float, *, idle_after: float, period: float) -> Verdict:
    """`last_activity` of the verdict is what it would be set to, whether the check is due or not."""
    due = seen.last_check is not None and now > seen.last_check + period
    activity = _activity(seen, now)
    idle = activity is not None and not seen.stopped and now >= activity + idle_after
    return Verdict(due, idle, activity)


def _activity(seen: Seen, now: float) -> float | None:
    """The newest activity: now while a kernel is busy, else the newest a kernel or terminal reports; never backwards."""
    reported = [seen.last_activity, *(seen.terminals or ())]
    if seen.kernels:
        if any(kernel.state != "idle" for kernel in seen.kernels):
            return now
        times = [kernel.last_activity for kernel in seen.kernels]
        if None not in times:  # one that cannot be read makes the original pass over all of them
            reported += times
    if seen.last_activity is None:
        return None
    return max(time for time in reported if time is not None)
