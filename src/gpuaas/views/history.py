"""How many GPUs each ClusterQueue held in the last hour: intervals from Workloads as they come and go.

A Workload that holds quota opens an interval when its quota was reserved; it ends when the Workload finishes, is evicted
or is deleted. After a start, runs that were preempted are known from the ledger; a run that a Workload's own conditions
tell as well counts once. What was deleted before the start is not known any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from gpuaas.base.clock import parse_rfc3339
from gpuaas.devices.shares import as_number
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.views.jobs import gpus_of
from gpuaas.views.preemptions import row_of as ledger_row

View = Mapping[str, Any]
KEPT: Final = 3_600.0
_MOST: Final = 50_000  # closed intervals; the oldest leave first
_SAME: Final = 2.0  # seconds between a condition's time and the ledger's of one run


class Interval(msgspec.Struct, gc=False):
    namespace: str
    cluster_queue: str
    gpus: Fraction
    start: float
    end: float | None
    uid: str


class History:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[str, Interval] = {}
        self._running: dict[str, Interval] = {}  # the open ones by uid
        self._closed: deque[Interval] = deque()  # in the order they closed
        self._starts: dict[str, list[float]] = {}  # of what closed, by uid

    def workload_changed(self, namespace: str, name: str, workload: View | None) -> None:
        key = f"{namespace}/{name}"
        before = self._open.pop(key, None)
        now = None if workload is None else _interval(namespace, workload)
        if before is not None:
            self._running.pop(before.uid, None)
            if now is None or now.start != before.start or now.end is not None:
                before.end = _ended(workload, self._now())
                self._close(before)
        if now is None:
            return
        if now.end is None:
            self._open[key] = self._running[now.uid] = now
        elif before is None:
            self._close(now)

    def preempted(self, namespace: str, _name: str, entry: View | None) -> None:
        """An entry of the ledger: a run that ended, unless its Workload still shows it and ends it in a moment."""
        if entry is None:
            return
        row = ledger_row(entry)
        end = parse_rfc3339(row.at)
        interval = Interval(
            namespace, row.victim.cluster_queue, Fraction(row.gpus), end - row.ran_seconds, end, row.victim_uid
        )
        running = self._running.get(row.victim_uid)
        if running is None or abs(running.start - interval.start) > _SAME:
            self._close(interval)

    def sampled(self, times: Sequence[float], takes: Callable[[str], bool]) -> dict[str, list[float]]:
        """The GPUs that each ClusterQueue held at each of these times, which rise evenly."""
        if len(times) < 2:
            return {}
        first, step = times[0], times[1] - times[0]
        changes: dict[str, list[Fraction]] = {}
        for interval in (*self._closed, *self._open.values()):
            if (
                not interval.gpus
                or not takes(interval.namespace)
                or (interval.end is not None and interval.end <= first)
            ):
                continue
            row = changes.setdefault(interval.cluster_queue, [Fraction(0)] * (len(times) + 1))
            opens = min(len(times), max(0, -int((first - interval.start) // step)))
            ends = len(times) if interval.end is None else min(len(times), max(0, -int((first - interval.end) // step)))
            row[opens] += interval.gpus
            row[ends] -= interval.gpus
        return {name: _sums(row[:-1]) for name, row in changes.items()}

    def _close(self, interval: Interval) -> None:
        oldest = self._now() - KEPT
        while self._closed and ((self._closed[0].end or 0) < oldest or len(self._closed) >= _MOST):
            self._starts.pop(self._closed.popleft().uid, None)
        if interval.end is None or interval.end < oldest or not interval.gpus:
            return
        starts = self._starts.setdefault(interval.uid, [])
        if not any(abs(start - interval.start) <= _SAME for start in starts):
            starts.append(interval.start)
            self._closed.append(interval)


def _interval(namespace: str, workload: View) -> Interval | None:
    """The run a Workload is in, or that it finished in."""
    admission = (workload.get("status") or {}).get("admission")
    conditions = conditions_of(workload)
    reserved, finished = conditions.get("QuotaReserved"), conditions.get("Finished")
    if not admission or reserved is None or not is_true(reserved):
        return None
    end = parse_rfc3339(finished["lastTransitionTime"]) if finished is not None and is_true(finished) else None
    start = parse_rfc3339(reserved["lastTransitionTime"])
    gpus = gpus_of(workload.get("spec") or {})
    return Interval(namespace, admission.get("clusterQueue", ""), gpus, start, end, workload["metadata"].get("uid", ""))


def _ended(workload: View | None, now: float) -> float:
    if workload is not None:
        conditions = conditions_of(workload)
        for name, held in (("Finished", True), ("Evicted", True), ("QuotaReserved", False)):
            found = conditions.get(name)
            if found is not None and is_true(found) == held:
                return parse_rfc3339(found["lastTransitionTime"])
    return now


def _sums(changes: Sequence[Fraction]) -> list[float]:
    total, sums = Fraction(0), []
    for change in changes:
        total += change
        sums.append(as_number(total))
    return sums
