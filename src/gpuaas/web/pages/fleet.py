"""The clusters: connection, free GPUs by product, jobs, scores, and the last error with its fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuaas.api.durations import human_duration
from gpuaas.base.errors import Forbidden, NotFound
from gpuaas.client.ocm import DECISIONS, MANAGED_CLUSTERS, MULTIKUEUE_CLUSTERS, SCORES
from gpuaas.client.protocol import Object, Resource
from gpuaas.views.fleet import FleetRow, fleet_rows
from gpuaas.web import svg
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import short, words

_MOST: Final = 1_000
_SCORE: Final = "gpuClusterAvailable"


@dataclass(frozen=True, slots=True)
class Shown:
    name: str
    url: str
    state: str
    word: str
    connection: str
    connection_word: str
    gpus: list[tuple[str, str, str]]  # product, "3 of 8 free", drawing
    jobs: str
    score: str
    by_hand: bool
    placements: list[str]
    problem: str
    fix: str


async def _load(visit: Visit) -> Context:
    clusters = await _listed(visit, MANAGED_CLUSTERS)
    if clusters is None:
        return {"rows": None, "free": 0, "total": 0, "ill": 0, "workers": 0}
    others = [await _listed(visit, each) or () for each in (SCORES, MULTIKUEUE_CLUSTERS, DECISIONS)]
    found = fleet_rows(clusters, *others)
    workers = [each for each in found if not each.local]
    return {
        "rows": [shown(each) for each in workers],
        "free": sum(each.free_gpus for each in workers),
        "total": sum(each.total_gpus for each in workers),
        "ill": sum(bool(each.problem) for each in workers),
        "workers": len(workers),
    }


async def _listed(visit: Visit, resource: Resource) -> Sequence[Object] | None:
    try:
        return await visit.api.list(resource, limit=_MOST)
    except (Forbidden, NotFound):
        return None


def shown(row: FleetRow) -> Shown:
    state, word = _state(row)
    connection = {"True": ("Ready", "connected"), "False": ("Failed", "not connected")}
    sign, said = connection.get(row.connected, ("", "not connected yet"))
    gpus = [
        (
            short(each.product),
            f"{each.free} of {each.total} free",
            _bar(each.product, each.total - each.free, each.total),
        )
        for each in row.gpus
    ]
    oldest = f"the oldest for {human_duration(row.oldest_waiting_seconds)}" if row.waiting else ""
    jobs = words((f"{row.running} running", f"{row.waiting} waiting" if row.waiting else "", oldest))
    score = row.scores.get(_SCORE)
    return Shown(
        row.name, row.url, state, word, sign, said, gpus, jobs, "" if score is None else str(score),
        _SCORE in row.scores_by_hand, row.placements, row.problem, row.fix,
    )  # fmt: skip


def _state(row: FleetRow) -> tuple[str, str]:
    if not row.accepted:
        return "Pending", "not accepted"
    found = {"True": ("Ready", "available"), "False": ("Failed", "unavailable"), "Unknown": ("Failed", "silent")}
    state, word = found.get(row.available, ("Pending", "joining"))
    return ("Stopped", f"{word}, drained") if row.drained and state == "Ready" else (state, word)


def _bar(product: str, used: int, total: int) -> str:
    parts = [svg.Part("used", used, f"{used} in use")] if used else []
    return svg.bar(parts, total, label=f"{short(product)}: {used} of {total} in use", thin=True)


PAGE = Page(
    "fleet", "/fleet", "Clusters", "fleet.html", _load, nav="Clusters", fragments=("summary", "clusters"),
    follows=(MANAGED_CLUSTERS, SCORES, MULTIKUEUE_CLUSTERS, DECISIONS),
)  # fmt: skip
