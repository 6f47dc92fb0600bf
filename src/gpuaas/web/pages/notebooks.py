"""The notebooks that the visitor may see: state, what they wait for, profile, when they were last used."""

from __future__ import annotations

from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.resources import PODS
from gpuaas.views import notebooks
from gpuaas.views.notebooks import NOTEBOOKS, NotebookRow
from gpuaas.web.page import Context, Page, Visit

_NAMESPACES = 50


async def _load(visit: Visit) -> Context:
    wanted = visit.query.get("namespace", "")
    places = visit.views.namespaces(visit.user, "list", NOTEBOOKS)
    rows: list[NotebookRow] = []
    for place in [each for each in places if wanted in ("", each)][:_NAMESPACES]:
        if visit.may("list", WORKLOADS, place) and visit.may("list", PODS, place):
            rows += await rows_of(visit, place)
    return {
        "rows": rows,
        "places": [("all", None, visit.url("/notebooks"), not wanted)]
        + [(name, None, visit.url(f"/notebooks?namespace={name}"), name == wanted) for name in places],
        "left_out": max(len(places) - _NAMESPACES, 0),
    }


async def rows_of(visit: Visit, namespace: str, name: str = "") -> list[NotebookRow]:
    """Of one notebook, or of all of a namespace."""
    found = [await visit.api.get(NOTEBOOKS, name, namespace)] if name else await visit.api.list(NOTEBOOKS, namespace)
    pods = await visit.api.list(PODS, namespace, labels=f"notebook-name={name}" if name else "notebook-name")
    return notebooks.rows(found, await visit.api.list(WORKLOADS, namespace), pods)


PAGE = Page(
    "notebooks",
    "/notebooks",
    "Notebooks",
    "notebooks.html",
    _load,
    nav="Notebooks",
    fragments=("rows",),
    follows=(NOTEBOOKS, WORKLOADS, PODS),
)
