"""The users: what each runs, holds and waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuaas.views.jobs import FINISHED
from gpuaas.views.rows import JobRow
from gpuaas.web import svg
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import address

_MOST = 200
_WAITING = ("Pending", "Inactive")


@dataclass(slots=True)
class Usage:
    """The unfinished jobs of one user."""

    name: str
    running: int = 0
    held: float = 0
    waiting: int = 0
    asked: float = 0


def _load(visit: Visit) -> Context:
    users = usage_by_user(visit.views.pages.every_job(visit.user))
    scale = max((each.held for each in users), default=0)
    return {
        "users": users[:_MOST],
        "more": len(users) - _MOST,
        "bar": lambda each: svg.share(each.held, scale, f"{each.name or 'unknown'} holds {svg.number(each.held)} GPUs"),
        "jobs_of": lambda name: visit.url(address("/jobs", user=name)),
    }


def usage_by_user(rows: Iterable[JobRow]) -> list[Usage]:
    """The user who holds most GPUs first."""
    found: dict[str, Usage] = {}
    for row in rows:
        if row.state in FINISHED:
            continue
        usage = found.setdefault(row.owner, Usage(row.owner))
        if row.state in _WAITING:
            usage.waiting += 1
            usage.asked += float(row.gpus)
        else:
            usage.running += 1
            usage.held += float(row.gpus)
    return sorted(found.values(), key=lambda each: (-each.held, -each.asked, each.name))


PAGE = Page("users", "/users", "Users", "users.html", _load, nav="Users", fragments=("users",))
