"""Search over jobs, queues, nodes and users: what the visitor may see of each, the best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gpuaas.views.browse import JobQuery
from gpuaas.views.rows import JobRow
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import address, allowed, path_of

_MOST: Final = 20
_LONGEST: Final = 100
_MOST_SUFFIXES: Final = (
    5  # parts of a pod's name after its job's, such as -workers-0-3-x7k2p; each is a look at all jobs
)


def _load(visit: Visit) -> Context:
    text = visit.query.get("q", "").strip()[:_LONGEST]
    low = text.lower()
    if not low:
        return {"text": "", "jobs": None, "queues": [], "nodes": [], "users": [], "none": False, "all_jobs": ""}
    jobs = visit.views.pages.jobs(visit.user, JobQuery(text=low), _MOST)
    pods = _jobs_of_pod(visit, low) if not jobs.rows else []
    queues = allowed(lambda: visit.views.queues(visit.user)) or []
    nodes = allowed(lambda: visit.views.nodes(visit.user)) or []
    users = Counter(dict(visit.views.pages.groups(visit.user, JobQuery(), "user")))
    found = {
        "queues": _best((row.clusterqueue for row in queues), low),
        "nodes": _best((row.node for row in nodes), low),
        "users": [(name, users[name]) for name in _best((name for name in users if name), low)],
    }
    return {
        "text": text,
        "jobs": jobs.rows or pods,
        "total": jobs.total,
        "all_jobs": visit.url(address("/jobs", q=text)) if jobs.continue_ else "",
        "none": not (jobs.rows or pods or any(found.values())),
        "queue_at": lambda name: visit.url(path_of("queues", name)),
        "user_at": lambda name: visit.url(address("/jobs", user=name)),
        **found,
    }


def _best(names: Iterable[str], text: str) -> list[str]:
    """Those that contain the text: where it stands first, first."""
    matching = {name for name in names if text in name.lower()}
    return sorted(matching, key=lambda name: (name.lower() != text, name.lower().find(text), name))[:_MOST]


def _jobs_of_pod(visit: Visit, text: str) -> list[JobRow]:
    """A pod's name begins with its job's: `train-0-x7k2p` leads to `train`."""
    parts = text.split("-")
    for length in range(len(parts) - 1, max(0, len(parts) - 1 - _MOST_SUFFIXES), -1):
        found = visit.views.pages.jobs(visit.user, JobQuery(text="-".join(parts[:length])), _MOST)
        named = [row for row in found.rows if text.startswith(row.job.partition("/")[2])]
        if named:
            return list(named)
    return []


PAGE = Page("search", "/search", "Search", "search.html", _load, nav="Search")
