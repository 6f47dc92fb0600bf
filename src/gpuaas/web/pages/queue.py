"""One ClusterQueue: what it may do, its quota, what waits in it in order, and what it runs."""

from __future__ import annotations

from typing import Final

from gpuaas.client.kueue import CLUSTER_QUEUES
from gpuaas.views.browse import JobQuery
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import address, path_of
from gpuaas.web.pages.quota import charts, flat

_PAGE: Final = 50
_RUNNING: Final = ("Admitted", "Running", "Reserved", "Evicted")


async def _load(visit: Visit) -> Context:
    name = visit.parts["name"]
    pages = visit.views.pages
    local = pages.local_queues(visit.user, name)
    visible = visit.may("list", CLUSTER_QUEUES)
    if not visible and not local:
        visit.views.queues(visit.user)  # raises Forbidden
    rows = [row for row in visit.views.queues(visit.user) if row.clusterqueue == name] if visible else []
    spec = (await visit.api.get(CLUSTER_QUEUES, name)).get("spec") or {} if visible else {}
    backlogs = [each for each in pages.backlogs(visit.user) if each.cluster_queue == name]
    resources = list(dict.fromkeys(row.resource for row in rows))
    waiting = pages.jobs(
        visit.user, JobQuery(queue=name, states=("Pending",), sort="position", descending=False), _PAGE,
        visit.query.get("continue", ""),
    )  # fmt: skip
    running = pages.jobs(visit.user, JobQuery(queue=name, states=_RUNNING, sort="created"), _PAGE)
    here = path_of("queues", name)
    first = waiting.rows[0] if waiting.rows and not visit.query.get("continue") else None
    return {
        "name": name,
        "state": rows[0].state if rows else "",
        "cohort": spec.get("cohortName", ""),
        "strategy": spec.get("queueingStrategy", "BestEffortFIFO"),
        "stop_policy": spec.get("stopPolicy", "None"),
        "preemption": spec.get("preemption") or {},
        "visible": visible,
        "local": [f"{namespace}/{queue}" for namespace, queue in local],
        "charts": [
            (chart, next(node for node in flat(chart.rows) if node.path))
            for chart in charts(rows, backlogs, {}, resources)
        ],
        "waiting": waiting,
        "running": running,
        "why": visit.views.why(visit.user, first.namespace, first.workload, "Workload") if first else None,
        "reason": visit.views.pages.reason,
        "reasons": visit.views.pages.reason_counts(visit.user, name),
        "next": visit.url(address(here, {"continue": waiting.continue_})) if waiting.continue_ else "",
        "first": visit.url(here) if visit.query.get("continue") else "",
        "all_running": visit.url(address("/jobs", queue=name, state=",".join(_RUNNING))),
    }


PAGE = Page(
    "queue", "/queues/{name}", "Queue {name}", "queue.html", _load, fragments=("quota", "waiting", "running")
)  # fmt: skip
