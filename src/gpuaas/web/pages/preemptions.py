"""The preemption ledger as a timeline: a lane for each queue, from the victim to the job it made room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gpuaas.api.durations import human_duration
from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.client.kueue import PREEMPTIONS
from gpuaas.views.dashboard import FOLLOWED_BY_PAGES
from gpuaas.views.preemptions import PreemptionRow
from gpuaas.web import svg
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import address

SPANS: Final = {"10m": 600, "1h": 3_600, "6h": 6 * 3_600, "24h": 24 * 3_600, "7d": 7 * 24 * 3_600}
_MOST: Final = 300
_LANES: Final = 12
_RULES: Final = {
    "InClusterQueue": "higher priority in the same queue",
    "InCohortReclamation": "the queue took its own quota back",
    "InCohortReclaimWhileBorrowing": "higher priority, while borrowing",
    "InCohortFairSharing": "fair sharing in the cohort",
}


def _load(visit: Visit) -> Context:
    queue, span = visit.query.get("queue", ""), visit.query.get("span", "")
    asked = span if span in SPANS else "1h"
    rows, more = visit.views.pages.preemptions(visit.user, since=rfc3339(visit.now - SPANS[asked]), limit=_MOST)
    span = asked if span in SPANS else _shortest(rows, visit.now)
    queues = Counter(name for row in rows for name in {row.victim.cluster_queue, row.preemptor.cluster_queue})
    if queue:
        rows = [row for row in rows if queue in (row.victim.cluster_queue, row.preemptor.cluster_queue)]
    lanes = _lanes(rows)
    drawn = moves(rows, visit.now // 30 * 30 + 30, SPANS[span])
    here = "/preemptions"
    return {
        "visible": visit.views.pages.sees(visit.user, PREEMPTIONS),
        "rows": rows,
        "more": more,
        "most": _MOST,
        "span": span,
        "lost_minutes": sum(row.gpu_seconds_lost for row in rows) / 60,
        "drawing": svg.timeline(lanes, drawn, label=f"{len(rows)} preemptions in {span}, by queue") if rows else "",
        "hours": hours(visit.now, SPANS[span]),
        "rule": lambda row: _RULES.get(row.rule, row.rule),
        "ran": lambda row: human_duration(row.ran_seconds),
        "lost": lambda row: f"{row.gpu_seconds_lost / 60:,.1f}",
        "spans": [(name, None, visit.url(address(here, visit.query, span=name)), name == span) for name in SPANS],
        "queues": [("all queues", None, visit.url(address(here, visit.query, queue="")), not queue)]
        + [
            (name, number, visit.url(address(here, visit.query, queue=name)), name == queue)
            for name, number in sorted(queues.items())[:_LANES]
        ],
    }


def _shortest(rows: Sequence[PreemptionRow], now: float) -> str:
    """Of ten minutes and an hour, the one that shows all of the hour's: a demo's fill the picture."""
    return "10m" if rows and now - parse_rfc3339(rows[-1].at) < SPANS["10m"] else "1h"


def moves(rows: Sequence[PreemptionRow], end: float, span: float) -> list[svg.Move]:
    """Places on an axis that ends at `end` and is `span` seconds long."""
    return [
        svg.Move(
            at=min(1.0, max(0.0, 1 - (end - parse_rfc3339(row.at)) / span)),
            lost=row.ran_seconds / span,
            victim=row.victim.cluster_queue,
            preemptor=row.preemptor.cluster_queue,
            gpus=row.gpus,
            title=f"{row.at}: {row.victim.job} made room for {row.preemptor.job}; {row.gpus} GPUs, "
            f"{row.gpu_seconds_lost / 60:.1f} GPU-minutes lost",
        )
        for row in rows
    ]


def hours(now: float, span: float) -> list[str]:
    """Five moments along the axis; with the day where it spans more than one."""
    found = [rfc3339(now - span + part * span / 4) for part in range(5)]
    return [f"{at[5:10]} {at[11:16]}" if span > 24 * 3_600 else at[11:16] for at in found]


def _lanes(rows: Sequence[PreemptionRow]) -> list[str]:
    """The queues that take part most, by name."""
    found = Counter(name for row in rows for name in (row.victim.cluster_queue, row.preemptor.cluster_queue) if name)
    return sorted(name for name, _ in found.most_common(_LANES))


PAGE = Page(
    "preemptions", "/preemptions", "Preemptions", "preemptions.html", _load,
    nav="Preemptions", fragments=("summary", "timeline", "ledger"), follows=FOLLOWED_BY_PAGES,
)  # fmt: skip
