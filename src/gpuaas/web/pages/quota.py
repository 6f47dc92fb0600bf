"""The quota tree: cohorts and their queues, one bar each, all bars of a flavor on one scale, children adding up.

A borrowed GPU comes from the cohort and not from one queue. So what is lent is known for a cohort, and is divided over
its queues in proportion to the nominal quota that they do not use themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpuaas.kueue.ledger import is_gpu
from gpuaas.views.backlog import Backlog
from gpuaas.views.dashboard import CohortRow
from gpuaas.views.rows import FreeRow, QueueRow
from gpuaas.web import svg
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import address, allowed, amount_of, path_of, short, shown

_DEEPEST: Final = 3  # levels that are indented; deeper ones stand below each other
_ROOM: Final = 1.25  # of the scale for what waits; where more waits, the bar is cut off and the number says how much
_UNITS: Final = {"memory": "GiB", "ephemeral-storage": "GiB", "cpu": "cores"}


@dataclass(slots=True)
class Node:
    """A `cohort`, a `queue` in it, or what the cohort owns itself (`own`), with the amounts of one flavor and resource."""

    name: str
    kind: str
    level: int = 0
    nominal: float = 0
    used: float = 0
    """In all: its own and borrowed."""
    borrowed: float = 0
    lent: float = 0
    pending: float = 0
    limit: float | None = None
    waiting: int = 0
    admitted: int = 0
    state: str = ""
    path: str = ""
    drawing: str = ""
    children: list[Node] = field(default_factory=list)

    @property
    def unused(self) -> float:
        return max(0.0, self.nominal - self.used)


@dataclass(frozen=True, slots=True)
class Chart:
    """One flavor and resource: a small multiple."""

    flavor: str
    resource: str
    unit: str
    rows: list[Node]
    figures: list[list[str]]


def _load(visit: Visit) -> Context:
    visible = allowed(lambda: visit.views.queues(visit.user))
    rows = visible or []
    resources = list(dict.fromkeys(sorted((row.resource for row in rows), key=lambda name: (not is_gpu(name), name))))
    wanted = visit.query.get("resource", "")
    chosen = [wanted] if wanted in resources else [name for name in resources if is_gpu(name)] or resources[:1]
    backlogs = visit.views.pages.backlogs(visit.user)
    cohorts = visit.views.pages.cohorts(visit.user)
    return {
        "charts": charts(rows, backlogs, cohorts, chosen),
        "any": bool(rows),
        "mine": None if visible is not None else allowed(lambda: own_queues(visit.views.free(visit.user))) or [],
        "choices": [(name, None, visit.url(address("/quota", resource=name)), name in chosen) for name in resources],
    }


def own_queues(rows: Sequence[FreeRow]) -> list[tuple[str, str, list[tuple[str, int]]]]:
    """For a visitor who may not see ClusterQueues: namespace and name of the queues they may submit to, and how much of
    each product is free by it."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for row in rows:
        for each in row.queues:
            found.setdefault((each.namespace, each.queue), []).append((short(row.product), each.free))
    return [(*where, free) for where, free in sorted(found.items())]


def charts(
    rows: Sequence[QueueRow], backlogs: Sequence[Backlog], known: Mapping[str, CohortRow], resources: Sequence[str]
) -> list[Chart]:
    """One for each flavor of these resources, all on the scale of the largest cohort."""
    pending = pending_of(rows, backlogs)
    wanted = sorted({(row.resource, row.flavor) for row in rows if row.resource in resources})
    trees = [(flavor, resource, tree(rows, flavor, resource, known, pending)) for resource, flavor in wanted]
    scales: dict[str, float] = {}
    for _, resource, roots in trees:
        scales[resource] = max([scales.get(resource, 0), *(_ROOM * max(n.nominal, n.used) for n in flat(roots))])
    found = []
    for flavor, resource, roots in trees:
        listed = flat(roots)
        if not any(node.nominal or node.used for node in listed):
            continue
        for node in listed:
            node.drawing = draw(node, scales[resource])
        figures = [
            [node.name, *map(shown, (node.nominal, node.used - node.borrowed, node.borrowed, node.lent, node.pending))]
            for node in listed
        ]
        found.append(Chart(flavor, resource, unit(resource), listed, figures))
    return found


def tree(
    rows: Sequence[QueueRow],
    flavor: str,
    resource: str,
    known: Mapping[str, CohortRow],
    pending: Mapping[tuple[str, str], float],
) -> list[Node]:
    """The roots: cohorts, and queues without one. A parent's amounts are the sums of its children's."""
    cohorts: dict[str, Node] = {}
    roots: list[Node] = []

    def cohort(name: str) -> Node:
        node = cohorts.get(name)
        if node is None:
            node = cohorts[name] = Node(name, "cohort")
            row = known.get(name)
            if row is not None and (own := row.quotas.get((flavor, resource))):
                node.children.append(Node(f"{name}'s own", "own", nominal=amount_of(resource, own)))
            above = row.parent if row else ""
            if above and not _leads_back(name, known):
                cohort(above).children.append(node)
            else:
                roots.append(node)
        return node

    for row in rows:
        if (row.flavor, row.resource) == (flavor, resource):
            node = _queue(row, pending.get((row.clusterqueue, flavor), 0) if is_gpu(resource) else 0)
            (cohort(row.cohort).children if row.cohort else roots).append(node)
    for root in roots:
        _add_up(root, 0)
        _lend(root)
    return sorted(roots, key=lambda node: (node.kind != "cohort", node.name))


def flat(nodes: Sequence[Node]) -> list[Node]:
    return [each for node in nodes for each in (node, *flat(sorted(node.children, key=lambda n: (n.kind, n.name))))]


def draw(node: Node, scale: float) -> str:
    own = node.used - node.borrowed
    parts = [
        svg.Part("used", own, f"{shown(own)} used of its own"),
        svg.Part("borrowed", node.borrowed, f"{shown(node.borrowed)} borrowed"),
        svg.Part("lent", node.lent, f"{shown(node.lent)} lent to others"),
        svg.Part("pending", node.pending, f"{shown(node.pending)} asked for by jobs that wait"),
    ]
    if node.kind == "cohort":  # what one child borrowed is what another lent
        parts = [svg.Part("used", node.used, f"{shown(node.used)} used"), parts[3]]
    words = f"{node.name}: {shown(node.used)} of {shown(node.nominal)} used"
    words += f", {shown(node.borrowed)} of it borrowed" if node.borrowed and node.kind != "cohort" else ""
    return svg.bar([part for part in parts if part.amount > 0], scale, tick=node.nominal, limit=node.limit, label=words)


def pending_of(rows: Sequence[QueueRow], backlogs: Sequence[Backlog]) -> dict[tuple[str, str], float]:
    """What waits, by queue and flavor: in the first flavor with GPUs of each queue, which is the one tried first."""
    first: dict[str, str] = {}
    for row in rows:
        if is_gpu(row.resource):
            first.setdefault(row.clusterqueue, row.flavor)
    found: dict[tuple[str, str], float] = {}
    for each in backlogs:
        flavor = first.get(each.cluster_queue)
        if flavor is not None:
            found[each.cluster_queue, flavor] = found.get((each.cluster_queue, flavor), 0) + each.gpus
    return found


def unit(resource: str) -> str:
    return _UNITS.get(resource, "GPUs" if is_gpu(resource) else "")


def _queue(row: QueueRow, pending: float) -> Node:
    resource, nominal = row.resource, amount_of(row.resource, row.nominal)
    limit = None if row.borrowing_limit is None else nominal + amount_of(resource, row.borrowing_limit)
    return Node(
        row.clusterqueue, "queue", nominal=nominal, used=amount_of(resource, row.used),
        borrowed=amount_of(resource, row.borrowed), pending=pending, limit=limit, waiting=row.waiting,
        admitted=row.admitted, state=row.state, path=path_of("queues", row.clusterqueue),
    )  # fmt: skip


def _add_up(node: Node, level: int) -> None:
    node.level = min(level, _DEEPEST)
    for child in node.children:
        _add_up(child, level + 1)
        for name in ("nominal", "used", "borrowed", "pending", "waiting", "admitted"):
            setattr(node, name, getattr(node, name) + getattr(child, name))


def _lend(root: Node) -> None:
    """Divides what the queues below a root borrowed over those that do not use their own, whole units first."""
    queues = [node for node in flat([root]) if node.kind != "cohort"]
    unused = sum(node.unused for node in queues)
    lent = min(sum(node.borrowed for node in queues), unused)
    left = lent
    for node in sorted(queues, key=lambda each: (-each.unused, each.name)):
        share = min(node.unused, left, -(-lent * node.unused // unused) if unused else 0.0)
        node.lent, left = share, left - share
    if root.kind == "cohort":
        _sum_lent(root)


def _sum_lent(node: Node) -> float:
    if node.kind == "cohort":
        node.lent = sum(_sum_lent(child) for child in node.children)
    return node.lent


def _leads_back(name: str, known: Mapping[str, CohortRow]) -> bool:
    """Whether its parents go in a circle, as a wrong manifest can make them."""
    seen, at = {name}, known[name].parent
    while at:
        if at in seen:
            return True
        seen.add(at)
        at = known[at].parent if at in known else ""
    return False


PAGE = Page("quota", "/quota", "Quota", "quota.html", _load, nav="Quota", fragments=("charts",))
