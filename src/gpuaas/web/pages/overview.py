"""The first page: what is free, what waits and why, what is held idle, what was preempted; and the last hour as a strip.

Each panel answers without a click. The answers are single elements that a test compares with the engine:
`free-PRODUCT` (how many of it are free for the visitor), `why-NAMESPACE-WORKLOAD` (why the first of each queue waits)
and `preempted-last-hour`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import Forbidden, NotFound
from gpuaas.client.kueue import PREEMPTIONS, WORKLOADS
from gpuaas.views.backlog import Backlog
from gpuaas.views.preemptions import PreemptionRow
from gpuaas.views.rows import FreeRow, JobRow
from gpuaas.web import svg
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import GPU, allowed, short, shown, words

HOUR: Final = 3_600
SPANS: Final = (120, 600, 1_800, HOUR)  # of the strip, in seconds: the shortest that shows all there was in the hour
COLUMNS: Final = 120  # of the strip
_EXPLAINED: Final = 6  # queues whose first job is explained
_REASONS: Final = 3
_LATELY: Final = 5
_MOST: Final = 1_000  # preemptions of the hour that are counted


@dataclass(frozen=True, slots=True)
class Free:
    """One kind of GPU, as the panel shows it."""

    id: str
    name: str
    for_you: int
    free: int
    used: int
    total: int
    note: str
    drawing: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """One ClusterQueue with a backlog."""

    queue: str
    jobs: int
    gpus: float
    oldest: str
    head: JobRow | None
    token: str = ""
    sentence: str = ""
    reasons: tuple[tuple[str, int], ...] = ()
    """How many wait for what, the most first; empty where only some of them are visible."""


@dataclass(frozen=True, slots=True)
class Strip:
    drawing: str
    title: str
    scale: tuple[str, ...]
    hours: tuple[str, ...]
    teams: list[tuple[str, str, str]]
    heads: list[str]
    figures: list[list[str]]
    empty: bool


def _load(visit: Visit) -> Context:
    gpus = allowed(lambda: visit.views.free(visit.user))
    sees_jobs = visit.views.pages.sees(visit.user, WORKLOADS)
    since = rfc3339(visit.now - HOUR)
    preempted, more = visit.views.pages.preemptions(visit.user, since=since, limit=_MOST)
    backlogs = visit.views.pages.backlogs(visit.user)
    waiting = by_queue(backlogs, visit.views.pages.heads(visit.user))
    explained = [*(_explained(visit, each) for each in waiting[:_EXPLAINED]), *waiting[_EXPLAINED:]]
    capacity = round(sum(float(row.cards or row.total) for row in gpus or ()))
    return {
        "free": None if gpus is None else free_rows(gpus),
        "held": None if gpus is None else sum(row.total - row.free for row in gpus),
        "waiting": explained,
        "waiting_jobs": sum(each.jobs for each in waiting),
        "waiting_gpus": sum(each.gpus for each in waiting),
        "preempted": preempted,
        "preempted_more": more,
        "lately": preempted[:_LATELY],
        "lost_minutes": sum(row.gpu_seconds_lost for row in preempted) / 60,
        "strip": _strip(visit, capacity, preempted),
        "sees_jobs": sees_jobs,
        "where": "" if visit.may("list", WORKLOADS) else " in your namespaces",
        "sees_preemptions": visit.views.pages.sees(visit.user, PREEMPTIONS),
        "jobs_any": sees_jobs and bool(visit.views.jobs(visit.user, limit=1)[0].rows),
    }


def free_rows(rows: Sequence[FreeRow]) -> list[Free]:
    """The largest stock first."""
    found = []
    for row in sorted(rows, key=lambda each: (-each.total, each.product)):
        piece = "" if row.resource == GPU else row.resource.rpartition("/")[2]
        name = words((short(row.product), piece))
        used = row.total - row.free
        parts = [svg.Part("used", used, f"{used} in use")] if used else []
        drawing = svg.bar(parts, row.total, label=f"{name}: {used} of {row.total} in use", thin=True)
        mark = row.product if not piece else f"{row.product}-{piece}"
        found.append(Free(f"free-{mark}", name, row.for_you, row.free, used, row.total, _note(row), drawing))
    return found


def _note(row: FreeRow) -> str:
    """What the number alone would hide: that no queue leads there, or that one pod cannot have as many."""
    if not row.free:
        return ""
    if not row.for_you:
        return f"{row.free} free, none by your queues"
    queue = row.queues[0].queue if row.queues else ""
    most = f"one pod gets at most {row.largest_for_you}" if row.largest_for_you < row.for_you else ""
    others = f"{row.free - row.for_you} more beyond your quota" if row.free > row.for_you else ""
    return words((f"by queue {queue}" if queue else "", most, others))


def by_queue(backlogs: Sequence[Backlog], heads: Sequence[JobRow]) -> list[Waiting]:
    """One row for each ClusterQueue, the longest backlog first."""
    first = {row.cluster_queue: row for row in heads}
    found: dict[str, list[Backlog]] = {}
    for each in backlogs:
        found.setdefault(each.cluster_queue or f"{each.namespace}/{each.queue}", []).append(each)
    rows = [
        Waiting(
            name, sum(p.jobs for p in parts), sum(p.gpus for p in parts), min(p.oldest for p in parts), first.get(name)
        )
        for name, parts in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.gpus, -row.jobs, row.queue))


def _explained(visit: Visit, row: Waiting) -> Waiting:
    if row.head is None:
        return row
    try:
        found = visit.views.why(visit.user, row.head.namespace, row.head.workload, "Workload")
    except (Forbidden, NotFound):
        return row
    reasons = tuple(visit.views.pages.reason_counts(visit.user, row.queue)[:_REASONS])
    return replace(row, token=found["reason"], sentence=found["sentence"], reasons=reasons)


def _strip(visit: Visit, capacity: int, moves: Sequence[PreemptionRow]) -> Strip:
    times = steps(visit.now, HOUR)
    held = visit.views.pages.history(visit.user, times)
    latest = visit.views.pages.history(visit.user, [visit.now - 1, visit.now])
    now = {name: amounts[-1] for name, amounts in latest.items()}
    if not held and not moves and not now:
        return strip(held, capacity, moves, times, now)
    first = next((at for at, amounts in enumerate(zip(*held.values(), strict=True)) if any(amounts)), len(times) - 1)
    began = min([times[max(0, first - 1)], *(parse_rfc3339(row.at) for row in moves)])
    span = next((span for span in SPANS if span >= times[-1] - began), HOUR)
    if span != HOUR:
        times = steps(visit.now, span)
        held = visit.views.pages.history(visit.user, times)
    return strip(held, capacity, moves, times, now)


def steps(now: float, span: int) -> list[float]:
    """The moments of the strip; the last is the newest full step, so that the same minute draws the same picture."""
    step = span / COLUMNS
    last = now // step * step
    return [last - span + step * (number + 1) for number in range(COLUMNS)]


def strip(
    held: Mapping[str, Sequence[float]],
    capacity: int,
    moves: Sequence[PreemptionRow],
    times: Sequence[float],
    now: Mapping[str, float],
) -> Strip:
    """The teams that held most, seven and the others; ticks are preemptions. `now`: what each holds this moment."""
    tones = svg.tones(held)
    ranked = sorted(held, key=lambda name: (-sum(held[name]), name))
    ranked = [name for name in ranked if any(held[name])]
    shown_names, rest = ranked[: svg.LARGEST_SERIES], ranked[svg.LARGEST_SERIES :]
    series = [svg.Series(name, tones[name], held[name]) for name in sorted(shown_names)]
    if rest:
        series.append(
            svg.Series("others", "others", [sum(held[name][at] for name in rest) for at in range(len(times))])
        )
    step = times[1] - times[0]
    start, span = times[0] - step, step * len(times)
    marks = [
        svg.Mark((parse_rfc3339(row.at) - start) / span, f"{row.victim.job} made room for {row.preemptor.job}")
        for row in moves
    ]
    totals = [sum(each.values[at] for each in series) for at in range(len(times))]
    top = max([capacity, *totals, 1])
    words = "hour" if span >= HOUR else f"{span / 60:.0f} minutes"
    label = f"GPUs held in the last {words} by {len(ranked)} queues; now {sum(now.values())} of {capacity}"
    return Strip(
        svg.strip(series, capacity, marks, label=label),
        f"The last {words}",
        (shown(top), shown(top / 2), "0"),
        tuple(rfc3339(start + part * span / 4)[11 : 16 if span > SPANS[0] else 19] for part in range(5)),
        [(each.tone, each.name, shown(now.get(each.name, 0))) for each in series if each.name != "others"]
        + ([("others", "others", shown(sum(now.get(name, 0) for name in rest)))] if rest else []),
        ["Time (UTC)", *(each.name for each in series), "Capacity"],
        [
            [rfc3339(times[at])[11:19], *(shown(each.values[at]) for each in series), shown(capacity)]
            for at in range(9, len(times), 10)
        ],
        not series and not marks,
    )


PAGE = Page(
    "overview", "/", "Overview", "overview.html", _load,
    nav="Overview", fragments=("free", "waiting", "idle", "preempted", "hour"),
)  # fmt: skip
