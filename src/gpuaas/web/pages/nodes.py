"""The nodes: one row each, one cell a GPU with the letter and colour of the namespace that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpuaas.client.resources import NODES, PODS
from gpuaas.views.rows import NodeRow
from gpuaas.web import svg
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import GPU, address, allowed, short

_PAGE: Final = 100
_MOST_CELLS: Final = 64  # of one node; more are said as a number


@dataclass(frozen=True, slots=True)
class Cell:
    state: str
    """`held`, `free` or `out` (the node takes no pods)."""
    tone: str
    letter: str
    title: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    node: str
    product: str
    state: str
    word: str
    used: int
    total: int
    cells: list[Cell]
    more: int


def _load(visit: Visit) -> Context:
    rows = allowed(lambda: visit.views.nodes(visit.user))
    wanted = visit.query.get("product", "")
    products = sorted({row.product for row in rows or () if row.gpus})
    matching = [row for row in rows or () if not wanted or row.product == wanted]
    with_gpus = [row for row in matching if row.gpus]
    after = visit.query.get("after", "")
    page = [row for row in with_gpus if row.node > after][: _PAGE + 1]
    tones = svg.tones(holder.namespace for row in page[:_PAGE] for holder in row.holders)
    sees_pods = visit.may("list", PODS)
    return {
        "rows": None if rows is None else [shown(row, tones, visit, sees_pods=sees_pods) for row in page[:_PAGE]],
        "others": len(matching) - len(with_gpus),
        "sees_pods": sees_pods,
        "total": sum(sum(row.gpus.values()) for row in with_gpus),
        "used": sum(sum(row.used.values()) for row in with_gpus),
        "ill": sum(not row.ready for row in matching),
        "legend": [(tone, name, None) for name, tone in tones.items()],
        "next": visit.url(address("/nodes", visit.query, after=page[_PAGE - 1].node)) if len(page) > _PAGE else "",
        "first": visit.url(address("/nodes", visit.query, after="")) if after else "",
        "products": [("all", None, visit.url("/nodes"), not wanted)]
        + [(short(name), None, visit.url(address("/nodes", product=name)), name == wanted) for name in products],
    }


def shown(row: NodeRow, tones: Mapping[str, str], visit: Visit | None, *, sees_pods: bool) -> Shown:
    total, used = sum(row.gpus.values()), sum(row.used.values())
    made = cells(row, tones, sees_pods=sees_pods, base=visit.base if visit else "")
    state = "Failed" if not row.ready else "Stopped" if not row.schedulable else "Ready"
    word = "not ready" if not row.ready else "cordoned" if not row.schedulable else "ready"
    return Shown(row.node, short(row.product), state, word, used, total, made[:_MOST_CELLS], len(made) - _MOST_CELLS)


def cells(row: NodeRow, tones: Mapping[str, str], *, sees_pods: bool, base: str = "") -> list[Cell]:
    """Held ones first, by pod: which of a node's cards a pod has is not known here, how many it has is."""
    found: list[Cell] = []
    for resource, total in row.gpus.items():
        kind = "" if resource == GPU else f" {resource.rpartition('/')[2]}"
        held = [holder for holder in row.holders if holder.resource == resource]
        for holder in held:
            title = (
                f"{holder.namespace}/{holder.pod} holds {holder.amount}{kind} GPU{'s' if holder.amount != 1 else ''}"
            )
            link = f"{base}/search?q={holder.pod}"
            letter = holder.namespace[:1].upper()
            found += [Cell("held", tones.get(holder.namespace, "others"), letter, title, link)] * holder.amount
        state = "free" if row.ready and row.schedulable else "out"
        words = ("free" if state == "free" else "takes no pods") if sees_pods else "its holder is not visible to you"
        free = total - sum(holder.amount for holder in held)
        found += [Cell(state, "", "" if sees_pods else "?", f"{words}{kind}")] * max(0, free)
    return found


PAGE = Page(
    "nodes", "/nodes", "Nodes", "nodes.html", _load, nav="Nodes", fragments=("summary", "nodes"), follows=(NODES, PODS)
)
