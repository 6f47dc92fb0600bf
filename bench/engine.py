"""The admission engine against the clock, on one core: `python bench/engine.py [part ...]` prints figures as tables.

Parts: a (admissions a second when everything fits), b and c (Kueue's own performance scenarios in virtual time), d
(preemption), e (memory per pending workload), growth (cost from 10 to 10,000 queues, from 1,000 to 1,000,000 pending).
"""

from __future__ import annotations

import gc
import heapq
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpuaas.engine.changes import Change, Finished, Released
from gpuaas.engine.engine import Engine
from gpuaas.engine.values import (
    ClusterQueue,
    Flavor,
    FlavorQuotas,
    LocalQueue,
    Namespace,
    PodSet,
    Preemption,
    PreemptionPolicy,
    Quota,
    ResourceGroup,
    Workload,
)

RESOURCE, FLAVOR = "cpu", "default"
UNIT = 1000


@dataclass(frozen=True)
class Class:
    """Workloads of one kind: how many a queue gets, how big, how long, how important, how often."""

    name: str
    number: int
    units: int
    runs_ms: int
    priority: int
    every_ms: int


BASELINE = (
    Class("small", 350, 1, 200, 50, 100),
    Class("medium", 100, 5, 500, 100, 500),
    Class("large", 50, 20, 1000, 200, 1200),
)
LARGE = (
    Class("small", 35, 1, 150, 50, 60),
    Class("medium", 11, 5, 350, 100, 300),
    Class("large", 4, 20, 700, 200, 700),
)
NOBODY = PreemptionPolicy()
RECLAIM = PreemptionPolicy(within_queue=Preemption.LOWER, reclaim=Preemption.ANY)


def queue_values(name: str, cohort: str | None, quota: Quota, policy: PreemptionPolicy = NOBODY) -> list[Change]:
    group = ResourceGroup((RESOURCE,), (FlavorQuotas(FLAVOR, ((RESOURCE, quota),)),))
    return [ClusterQueue(name, (group,), cohort=cohort, preemption=policy), LocalQueue("ns", name, name)]


def engine_with(queues: Iterator[Change] | list[Change]) -> Engine:
    engine = Engine()
    engine.apply(Namespace("ns"), Flavor(FLAVOR), *queues)
    return engine


def pods(units: int) -> tuple[PodSet, ...]:
    return (PodSet("main", 1, ((RESOURCE, units * UNIT),)),)


def part_a() -> None:
    rows = []
    for queues in (1, 10, 100, 1000):
        total = 100_000
        engine = engine_with([c for q in range(queues) for c in queue_values(f"q{q}", None, Quota(10**12))])
        shape = pods(1)
        work = [Workload("ns", f"w{i}", f"u{i}", f"q{i % queues}", i, shape) for i in range(total)]
        engine.apply(*work)
        gc.collect()
        started = time.process_time()
        admitted = 0
        now = total
        while engine.has_heads():
            admitted += len(engine.cycle(now).admissions)
            now += 1
        seconds = time.process_time() - started
        assert admitted == total
        rows.append((queues, f"{admitted:,}", f"{seconds:.2f}", f"{admitted / seconds:,.0f}"))
    table("(a) everything fits", ("queues", "admitted", "CPU s", "admissions/s"), rows)


def run_virtual(
    cohorts: int, queues: int, classes: tuple[Class, ...], tell: Callable[[int, str, str], None] = lambda *_: None
) -> tuple[float, int, int, int, int]:
    """CPU seconds, virtual makespan (ms), admissions, preemptions and cycles of one scenario with no latency at all.

    `tell` hears of everything in its order: when, what ("arrives", "admitted", "frees") and which workload.
    """
    names = [(f"c{c}", f"c{c}-q{q}") for c in range(cohorts) for q in range(queues)]
    engine = engine_with([x for c, q in names for x in queue_values(q, c, Quota(20 * UNIT, 100 * UNIT), RECLAIM)])
    shapes = {k.name: pods(k.units) for k in classes}
    events: list[tuple[int, int, Workload | str]] = []
    number = 0
    runs: dict[str, int] = {}
    for _, q in names:
        for k in classes:
            for i in range(k.number):
                at = i * k.every_ms
                w = Workload("ns", f"{q}-{k.name}-{i}", f"{number:08d}", q, at, shapes[k.name], k.priority)
                runs[w.key] = k.runs_ms
                events.append((at, number, w))
                number += 1
    heapq.heapify(events)
    started_as: dict[str, int] = {}
    admissions = preemptions = cycles = 0
    now = 0
    gc.collect()
    began = time.process_time()
    while events:
        now = events[0][0]
        changes: list[Change] = []
        while events and events[0][0] == now:
            _, stamp, value = heapq.heappop(events)
            if isinstance(value, Workload):
                changes.append(value)
                tell(now, "arrives", value.key)
            elif started_as.get(value) == stamp:
                changes.append(Finished(value))
                tell(now, "frees", value)
        engine.apply(*changes)
        while engine.has_heads():
            plan = engine.cycle(now)
            cycles += 1
            for a in plan.admissions:
                number += 1
                started_as[a.key] = number
                heapq.heappush(events, (now + runs[a.key], number, a.key))
                tell(now, "admitted", a.key)
            for p in plan.preemptions:
                started_as.pop(p.key, None)
                engine.apply(Released(p.key))
                tell(now, "frees", p.key)
            admissions += len(plan.admissions)
            preemptions += len(plan.preemptions)
            if not plan.changed and not engine.unsettled():
                break
    return time.process_time() - began, now, admissions, preemptions, cycles


KUEUE_WALL_S = 278
"""What Kueue 0.19 took for (b) on a machine like ours, with its API server and without its client's rate limit."""


def part_b() -> None:
    seconds, makespan, admissions, preemptions, cycles = run_virtual(5, 6, BASELINE)
    bound = sum(k.number * k.units * k.runs_ms for k in BASELINE) / 20
    table(
        "(b) Kueue's baseline: 5 cohorts × 6 queues, 15,000 workloads, virtual time, no latency",
        ("CPU s", "makespan s", "by quota alone s", "ratio", "admissions", "preemptions", "cycles"),
        [
            (
                f"{seconds:.2f}",
                f"{makespan / 1000:.1f}",
                f"{bound / 1000:.1f}",
                f"{makespan / bound:.2f}",
                f"{admissions:,}",
                f"{preemptions:,}",
                f"{cycles:,}",
            )
        ],
    )
    print(
        f"  Kueue 0.19 with its API server: {KUEUE_WALL_S} s by the wall, {KUEUE_WALL_S / seconds:.0f} times our CPU time"
    )


def part_c() -> None:
    seconds, makespan, admissions, preemptions, cycles = run_virtual(10, 100, LARGE)
    table(
        "(c) large: 10 cohorts × 100 queues, 50,000 workloads, virtual time",
        ("CPU s", "makespan s", "admissions", "preemptions", "cycles"),
        [(f"{seconds:.2f}", f"{makespan / 1000:.1f}", admissions, preemptions, cycles)],
    )


def part_d() -> None:
    """Every pending workload needs victims: 200 of priority 1 over 2,000 running ones of priority 0, all quota in use."""
    rows = []
    for queues in (1, 10, 100):
        policy = PreemptionPolicy(within_queue=Preemption.LOWER, reclaim=Preemption.LOWER)
        each = 2000 // queues
        values = [c for q in range(queues) for c in queue_values(f"q{q}", "co", Quota(each * UNIT), policy)]
        engine = engine_with(values)
        one, four = pods(1), pods(4)
        engine.apply(*(Workload("ns", f"r{i}", f"r{i}", f"q{i % queues}", i, one) for i in range(2000)))
        now = 10_000
        while engine.has_heads():
            engine.cycle(now)
            now += 1
        engine.apply(*(Workload("ns", f"p{i}", f"p{i}", f"q{i % queues}", now + i, four, 1) for i in range(200)))
        gc.collect()
        started = time.process_time()
        admitted = preempted = cycles = 0
        while admitted < 200:
            now += 1
            plan = engine.cycle(now)
            cycles += 1
            admitted += len(plan.admissions)
            preempted += len(plan.preemptions)
            engine.apply(*(Finished(victim.key) for victim in plan.preemptions))
        seconds = time.process_time() - started
        rows.append((queues, admitted, preempted, cycles, f"{seconds:.3f}", f"{1000 * seconds / admitted:.2f}"))
    table(
        "(d) 200 pending that all need preemption over 2,000 running",
        ("queues", "admitted", "victims", "cycles", "CPU s", "ms a workload"),
        rows,
    )


def part_e() -> None:
    rows = []
    for number in (10_000, 100_000):
        gc.collect()
        tracemalloc.start()
        shape = pods(1)
        engine = engine_with(queue_values("q", None, Quota(0)))
        before = tracemalloc.get_traced_memory()[0]
        for i in range(number):
            engine.apply(
                Workload("ns", f"workload-{i:08}", f"0b1f6f3a-{i:08}-4c5d-8e9f-0a1b2c3d4e5f", "q", i, shape, i % 7)
            )
        engine.cycle(number)
        size = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        rows.append((f"{number:,}", f"{size / 1e6:.1f}", f"{size / number:.0f}"))
    table("(e) memory of pending workloads, the workload itself included", ("pending", "MB", "bytes each"), rows)


def part_growth() -> None:
    rows = []
    for queues in (10, 100, 1000, 10_000):
        total = max(20_000, queues)
        cohorts = max(1, queues // 10)
        started = time.process_time()
        engine = engine_with(
            [c for q in range(queues) for c in queue_values(f"q{q}", f"c{q % cohorts}", Quota(10**9 * UNIT))]
        )
        shape = pods(1)
        engine.apply(*(Workload("ns", f"w{i}", f"u{i}", f"q{i % queues}", i, shape) for i in range(total)))
        built = time.process_time() - started
        started = time.process_time()
        while engine.has_heads():
            engine.cycle(total)
        each = (time.process_time() - started) / total
        started = time.process_time()
        for i in range(1000):
            engine.apply(Workload("ns", f"x{i}", f"x{i}", f"q{i % queues}", total + i, shape))
            engine.cycle(total + i)
        alone = (time.process_time() - started) / 1000
        rows.append((f"{queues:,}", f"{built:.2f}", f"{1e6 * each:.1f}", f"{1e6 * alone:.1f}"))
    table(
        "growth with queues (10 to a cohort)",
        ("queues", "build and submit s", "us an admission", "us for one newcomer and its cycle"),
        rows,
    )
    by_pending: list[tuple[object, ...]] = []
    for pending in (1_000, 10_000, 100_000, 1_000_000):
        gc.collect()
        engine = engine_with(queue_values("q", None, Quota(1 * UNIT)))
        shapes = [pods(1), pods(1), pods(1)]
        work = [Workload("ns", f"w{i}", f"u{i}", "q", i, shapes[i % 3], i % 3) for i in range(pending)]
        gc.freeze()
        started = time.process_time()
        engine.apply(*work)
        submit = (time.process_time() - started) / pending
        now = pending
        running = engine.cycle(now).admissions[0].key
        started = time.process_time()
        for _ in range(300):
            now += 1
            engine.apply(Finished(running))
            running = engine.cycle(now).admissions[0].key
            engine.cycle(now)
        step = (time.process_time() - started) / 300
        by_pending.append((f"{pending:,}", f"{1e6 * submit:.1f}", f"{1e6 * step:.0f}"))
        gc.unfreeze()
    table(
        "growth with pending workloads (one queue, room for one)",
        ("pending", "us to submit", "us: one finishes, the next is admitted, the rest is parked"),
        by_pending,
    )


def table(title: str, head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    cells = [head, *([str(c) for c in row] for row in rows)]
    widths = [max(len(str(row[i])) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(str(c).rjust(w) for c, w in zip(row, widths, strict=True)))


PARTS: dict[str, Callable[[], None]] = {
    "a": part_a,
    "b": part_b,
    "c": part_c,
    "d": part_d,
    "e": part_e,
    "growth": part_growth,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
