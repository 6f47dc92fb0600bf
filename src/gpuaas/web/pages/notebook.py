"""One notebook: what it does, what it holds, and the link that opens it.

The link works once and leads to an origin of the notebook's own; each time the page is shown there is a fresh one.
"""

from __future__ import annotations

from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.resources import PODS
from gpuaas.views.notebooks import NOTEBOOKS
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.notebooks import rows_of


async def _load(visit: Visit) -> Context:
    namespace, name = visit.parts["namespace"], visit.parts["name"]
    row = (await rows_of(visit, namespace, name))[0]
    link = why_not = ""
    if row.simulated:
        why_not = (
            "It runs on a simulated node: it holds its GPUs there, but no program runs, so there is nothing to open."
        )
    elif row.state == "Ready":
        try:
            link = await visit.api.notebook_link(namespace, name)
        except ApiError as error:
            why_not = error.message
    return {"row": row, "link": link, "why_not": why_not, "job": f"notebook/{name}"}


PAGE = Page(
    "notebook",
    "/notebooks/{namespace}/{name}",
    "{name}",
    "notebook.html",
    _load,
    fragments=("state",),
    follows=(NOTEBOOKS, WORKLOADS, PODS),
)
