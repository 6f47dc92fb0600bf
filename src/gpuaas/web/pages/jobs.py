"""All jobs: any column to sort by, groups with counts, filters in the address, pages by key."""

from __future__ import annotations

from typing import Final

from gpuaas.base.errors import BadRequest
from gpuaas.views.browse import GROUPED_BY, SORTED_BY, JobQuery
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import address

_PAGE: Final = 100
_HERE: Final = "/jobs"
_COLUMNS: Final = (
    ("Job", "name", "job"),
    ("State", "", "state"),
    ("User", "fold", "user"),
    ("Queue", "fold", "queue"),
    ("#", "number fold", "position"),
    ("GPUs", "number", "gpus"),
    ("Priority", "number fold late", "priority"),
    ("Submitted", "fold", "created"),
)
_FILTERS: Final = ("namespace", "user", "queue", "q")
_KEPT: Final = ("state", *_FILTERS, "sort", "group")
STATES: Final = ("Pending", "Reserved", "Admitted", "Running", "Evicted", "Inactive", "Succeeded", "Failed")
_GROUPS: Final = 60


def _load(visit: Visit) -> Context:
    query = {name: visit.query[name] for name in _KEPT if visit.query.get(name)}
    wanted = query_of(query)
    pages = visit.views.pages
    by_state = dict(pages.groups(visit.user, query_of({**query, "state": ""}), "state"))
    group = query.get("group", "")
    found = pages.jobs(visit.user, wanted, _PAGE, visit.query.get("continue", ""))
    mine = visit.user.name
    return {
        "rows": found.rows,
        "total": found.total,
        "everything": sum(by_state.values()),
        "next": visit.url(address(_HERE, query, **{"continue": found.continue_})) if found.continue_ else "",
        "first": visit.url(address(_HERE, query)) if visit.query.get("continue") else "",
        "columns": [(label, kind, *_sorting(visit, query, wanted, name)) for label, kind, name in _COLUMNS],
        "states": [("all", sum(by_state.values()), visit.url(address(_HERE, query, state="")), not wanted.states)]
        + [
            (name, by_state[name], visit.url(address(_HERE, query, state=name)), wanted.states == (name,))
            for name in STATES
            if name in by_state or (name in wanted.states and by_state.setdefault(name, 0) == 0)
        ],
        "mine": visit.url(address(_HERE, query, user="" if wanted.user == mine else mine)),
        "is_mine": wanted.user == mine,
        "filters": [
            (name, query[name], visit.url(address(_HERE, query, **{name: ""}))) for name in _FILTERS if name in query
        ],
        "group": group,
        "groupings": [("none", None, visit.url(address(_HERE, query, group="")), not group)]
        + [(name, None, visit.url(address(_HERE, query, group=name)), name == group) for name in GROUPED_BY],
        "groups": _groups(visit, query, wanted, group) if group else [],
        "query": query,
    }


def query_of(query: dict[str, str]) -> JobQuery:
    """What an address asks for; a sort with a dash before it goes down."""
    sort = query.get("sort", "-created")
    return JobQuery(
        namespace=query.get("namespace", ""),
        states=tuple(filter(None, query.get("state", "").split(","))),
        queue=query.get("queue", ""),
        user=query.get("user", ""),
        text=query.get("q", "").strip().lower()[:100],
        sort=sort.removeprefix("-"),
        descending=sort.startswith("-"),
    )


def _sorting(visit: Visit, query: dict[str, str], wanted: JobQuery, column: str) -> tuple[str, str]:
    """The address that sorts by a column, the other way round where it is sorted by already; and how it is now."""
    if column not in SORTED_BY:
        raise BadRequest(f"sort: {column!r} is none of {', '.join(SORTED_BY)}")
    now = "" if wanted.sort != column else "descending" if wanted.descending else "ascending"
    down = now == "ascending" or (not now and column in ("gpus", "priority", "created"))
    return visit.url(address(_HERE, query, sort=f"-{column}" if down else column)), now


def _groups(visit: Visit, query: dict[str, str], wanted: JobQuery, group: str) -> list[tuple[str, int, str]]:
    counts = visit.views.pages.groups(visit.user, wanted, group)[:_GROUPS]
    if group == "priority":
        return [(name, number, "") for name, number in counts]
    return [
        (name or "unknown", number, visit.url(address(_HERE, query, group="", **{group: name})) if name else "")
        for name, number in counts
    ]


PAGE = Page("jobs", _HERE, "Jobs", "jobs.html", _load, nav="Jobs", fragments=("states", "rows"))
