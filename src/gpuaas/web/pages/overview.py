"""The first page: which GPUs are free, and what runs and waits."""

from gpuaas.base.errors import Forbidden
from gpuaas.web.page import Context, Page, Visit

_MOST = 100  # jobs shown


def _load(visit: Visit) -> Context:
    jobs, _ = visit.views.jobs(visit.user, finished=False, limit=_MOST)
    try:
        gpus = visit.views.gpus(visit.user)
    except Forbidden:
        gpus = []
    return {"jobs": jobs.rows, "more": bool(jobs.continue_), "gpus": gpus}


PAGE = Page("overview", "/", "Overview", "overview.html", _load, nav="Overview", fragments=("free", "jobs"))
