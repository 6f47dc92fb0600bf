"""The cards: node, card, slice. Each card is a strip of cells at their MIG slots or by shares, each with its holder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpuaas.client.resources import NODES, PODS
from gpuaas.views.cards import CardCell, CardRow
from gpuaas.web import svg
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import address, allowed, short

_PAGE: Final = 25  # nodes
_MIG: Final = "MIG"


@dataclass(frozen=True, slots=True)
class Cell:
    state: str
    """`held`, `free` or `ill` (the card takes no work)."""
    tone: str
    label: str
    title: str
    place: str
    """Classes of the grid: where it starts and how wide it is, of eight slots."""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    index: int
    uuid: str
    product: str
    memory: str
    sharing: str
    state: str
    cells: list[Cell]
    more: int
    foreign: list[str]
    is_cut: bool
    mig_capable: bool


def _load(visit: Visit) -> Context:
    names = allowed(lambda: visit.views.card_nodes(visit.user))
    after = visit.query.get("after", "")
    page = [name for name in names or () if name > after][: _PAGE + 1]
    rows = visit.views.cards(visit.user, page[:_PAGE]) if names else []
    namespaces = (holder.namespace for row in rows for cell in row.cells for holder in cell.holders)
    tones = svg.tones(namespaces)
    sees_pods = visit.may("list", PODS)
    nodes: dict[str, list[Shown]] = {}
    for row in rows:
        nodes.setdefault(row.node, []).append(shown(row, tones, base=visit.base, sees_pods=sees_pods))
    held = sum(bool(cell.holders) for row in rows for cell in row.cells)
    return {
        "nodes": None if names is None else nodes,
        "sees_pods": sees_pods,
        "held": held,
        "cells": sum(len(row.cells) + row.more for row in rows),
        "cards": len(rows),
        "ill": sum(bool(row.state) for row in rows),
        "legend": [(tone, name, None) for name, tone in tones.items()],
        "next": visit.url(address("/cards", visit.query, after=page[_PAGE - 1])) if len(page) > _PAGE else "",
        "first": visit.url(address("/cards", visit.query, after="")) if after else "",
    }


def shown(row: CardRow, tones: Mapping[str, str], *, base: str = "", sees_pods: bool = True) -> Shown:
    return Shown(
        row.index,
        row.uuid,
        short(row.product.replace(" ", "-")),
        f"{row.memory / 1024:.0f} GiB" if row.memory else "",
        row.sharing,
        row.state,
        [_cell(row, cell, tones, base, sees_pods=sees_pods) for cell in row.cells],
        row.more,
        row.foreign,
        row.sharing == _MIG,
        row.mig_capable,
    )


def _cell(row: CardRow, cell: CardCell, tones: Mapping[str, str], base: str, *, sees_pods: bool) -> Cell:
    place = f"at-{cell.start} wide-{cell.size}" if row.sharing == _MIG else ""
    what = cell.name if row.sharing == _MIG else cell.name.partition(" of ")[0]
    size = f", {cell.memory} MiB" if cell.memory else ""
    if row.state and not cell.holders:
        return Cell("ill", "", what, f"{cell.name}{size}: takes no work: {row.state}", place)
    if not cell.holders:
        words = "free" if sees_pods else "its holder is not visible to you"
        label = what if row.sharing == _MIG or not sees_pods else "free"
        return Cell("free", "", label, f"{cell.name}{size}: {words}", place)
    first = cell.holders[0]
    budget = f"; budget {first.budget} MiB" if first.budget else ""
    used = f"; uses {first.used} MiB" if first.used is not None else ""
    used += f"; {first.busy} % busy" if first.busy else ""
    ill = f"; takes no work: {row.state}" if row.state else ""
    title = f"{cell.name}{size}: {first.namespace}/{first.pod}{budget}{used}{ill}"
    link = f"{base}/search?q={first.pod}"
    return Cell("held", tones.get(first.namespace, "others"), f"{what} {first.pod}", title, place, link)


PAGE = Page(
    "cards", "/cards", "Cards", "cards.html", _load, nav="Cards", fragments=("summary", "nodes"), follows=(NODES, PODS)
)
