"""The quota tree: ClusterQueues are leaves, cohorts are inner nodes, and usage bubbles up past what a node keeps.

Owns the arithmetic of quota. Per flavor-resource (an int from `FlavorResources`) a node has what its subtree offers,
the part of it that its parent never sees (`local`), and its usage. Invariant: a cohort's usage is the sum over its
children of what each uses beyond its own local part; `validate` checks it. Who may preempt whom over it is decided in
`preempt`, shares in `shares`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuaas.engine.amounts import quota_rest, quota_sum
from gpuaas.engine.values import Quota, ResourceGroup

Usage = dict[int, int]


class FlavorResources:
    """A number for each (flavor, resource) pair, so that the tree is indexed by small ints."""

    __slots__ = ("_numbers", "flavor", "resource")

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self.flavor: list[str] = []
        self.resource: list[str] = []

    def number(self, flavor: str, resource: str) -> int:
        found = self._numbers.get((flavor, resource))
        if found is None:
            found = self._numbers[flavor, resource] = len(self.flavor)
            self.flavor.append(flavor)
            self.resource.append(resource)
        return found

    def pair(self, number: int) -> tuple[str, str]:
        return self.flavor[number], self.resource[number]


class Node:
    """A place in the tree. `path` runs from the root down to and including the node itself."""

    __slots__ = (
        "borrow_cap", "height", "lendable", "local", "name", "parent", "path", "plain", "potential", "quotas",
        "subtree", "usage", "weight",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: CohortNode | None = None
        self.path: tuple[Node, ...] = (self,)
        self.quotas: dict[int, Quota] = {}
        self.subtree: Usage = {}
        self.local: Usage = {}
        self.borrow_cap: Usage = {}
        self.potential: Usage = {}
        self.usage: Usage = {}
        self.weight = 1.0
        self.height = 0
        self.plain = False
        """A cohort of queues alone, all of which lend everything they do not use."""
        self.lendable: dict[str, int] = {}

    def set_quotas(self, groups: Iterable[ResourceGroup], frs: FlavorResources) -> None:
        self.quotas = {
            frs.number(flavor.flavor, resource): quota
            for group in groups
            for flavor in group.flavors
            for resource, quota in flavor.quotas
        }

    def nominal(self, fr: int) -> int:
        quota = self.quotas.get(fr)
        return quota.nominal if quota else 0

    def local_available(self, fr: int) -> int:
        rest = self.local.get(fr, 0) - self.usage.get(fr, 0)
        return max(0, rest)

    def borrows_with(self, fr: int, amount: int) -> bool:
        """Whether `amount` more would take the node above the quota of its own subtree."""
        return self.subtree.get(fr, 0) < self.usage.get(fr, 0) + amount

    def within_nominal(self, frs: Iterable[int]) -> bool:
        subtree, usage = self.subtree, self.usage
        for fr in frs:  # noqa: SIM110 - half the time of `all`, and asked of every candidate
            if usage.get(fr, 0) > subtree.get(fr, 0):
                return False
        return True

    def ancestors(self) -> Iterator[CohortNode]:
        """Parent first, root last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def available(self, fr: int) -> int:
        """What may be used now, from the root's rest down; negative where an ancestor is in debt."""
        path = self.path
        root = path[0]
        rest = root.subtree.get(fr, 0) - root.usage.get(fr, 0)
        for node in path[1:]:
            used = node.usage.get(fr, 0)
            local = node.local.get(fr, 0)
            cap = node.borrow_cap.get(fr)
            if cap is not None:
                if used > local:
                    cap -= used - local
                if cap < rest:
                    rest = cap
            if local > used:
                rest += local - used
        return rest

    def fits_quota(self, requests: Usage) -> tuple[bool, Usage]:
        """Whether requests fit the subtree's quota, and what of them the parent would be asked for."""
        fits = not any(self.borrows_with(fr, amount) for fr, amount in requests.items())
        return fits, {fr: max(0, amount - self.local_available(fr)) for fr, amount in requests.items()}

    def add(self, fr: int, amount: int) -> None:
        node: Node | None = self
        while node is not None:
            used = node.usage.get(fr, 0)
            free = node.local.get(fr, 0) - used
            node.usage[fr] = used + amount
            if free > 0:
                amount -= free
            if amount <= 0:
                return
            node = node.parent

    def remove(self, fr: int, amount: int) -> None:
        node: Node | None = self
        while node is not None:
            used = node.usage.get(fr, 0)
            above = used - node.local.get(fr, 0)
            node.usage[fr] = used - amount
            if above <= 0:
                return
            if above < amount:
                amount = above
            node = node.parent

    def add_all(self, usage: Usage) -> None:
        for fr, amount in usage.items():
            self.add(fr, amount)

    def remove_all(self, usage: Usage) -> None:
        for fr, amount in usage.items():
            self.remove(fr, amount)

    def undo_add(self, usage: Usage) -> None:
        """As before `add_all`. An amount below zero was never passed to the parent."""
        for fr, amount in usage.items():
            if amount < 0:
                self.usage[fr] -= amount
            else:
                self.remove(fr, amount)

    def _settle_local(self) -> None:
        """What the parent never sees, and how much may be taken from the parent beyond it."""
        self.local = {}
        self.borrow_cap = {}
        for fr, quota in self.quotas.items():
            own = self.subtree.get(fr, 0)
            if quota.lending is not None:
                self.local[fr] = max(0, quota_rest(own, quota.lending))
            if quota.borrowing is not None:
                self.borrow_cap[fr] = quota_sum(quota_rest(own, self.local.get(fr, 0)), quota.borrowing)


class CohortNode(Node):
    __slots__ = ("children", "leaves")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.children: list[CohortNode] = []
        self.leaves: list[Node] = []


def settle(root: Node, counted: frozenset[Node] | set[Node]) -> None:
    """Recompute everything that follows from quotas and shape, and cohort usage from the leaves' usage.

    `counted` are the active queues: only they make a cohort higher, though all of them give it quota and usage.
    """
    _settle_up(root, counted)
    _settle_down(root, (), set(root.subtree))


def _settle_up(node: Node, counted: frozenset[Node] | set[Node]) -> None:
    node.subtree = {fr: quota.nominal for fr, quota in node.quotas.items()}
    if isinstance(node, CohortNode):
        node.usage = {}
        node.height = 1 if node.children or any(leaf in counted for leaf in node.leaves) else 0
        for child in node.children:
            _settle_up(child, counted)
            node.height = max(node.height, child.height + 1)
            _gather(node, child)
        for leaf in node.leaves:
            _settle_up(leaf, counted)
            _gather(node, leaf)
        node.plain = not node.children and not any(leaf.local for leaf in node.leaves)
    node._settle_local()


def _gather(parent: CohortNode, child: Node) -> None:
    for fr, own in child.subtree.items():
        parent.subtree[fr] = quota_sum(parent.subtree.get(fr, 0), quota_rest(own, child.local.get(fr, 0)))
    for fr, used in child.usage.items():
        parent.usage[fr] = parent.usage.get(fr, 0) + max(0, used - child.local.get(fr, 0))


def _settle_down(node: Node, above: tuple[Node, ...], frs: set[int]) -> None:
    node.path = (*above, node)
    node.lendable = {}
    parent = above[-1] if above else None
    node.potential = {}
    for fr in frs:
        if parent is None:
            node.potential[fr] = node.subtree.get(fr, 0)
            continue
        most = quota_sum(node.local.get(fr, 0), parent.potential[fr])
        quota = node.quotas.get(fr)
        if quota is not None and quota.borrowing is not None:
            most = min(most, quota_sum(node.subtree.get(fr, 0), quota.borrowing))
        node.potential[fr] = most
    if isinstance(node, CohortNode):
        for child in (*node.children, *node.leaves):
            _settle_down(child, node.path, frs)


def lowest_fit(leaf: Node, fr: int, amount: int) -> tuple[int, bool]:
    """How high a subtree one has to climb for `amount` more to fit its quota, and whether quota lies above that."""
    parent = leaf.parent
    if parent is None:
        return 0, False
    used = leaf.usage.get(fr, 0)
    if used + amount <= leaf.subtree.get(fr, 0):
        return 0, True
    rest = amount - leaf.local_available(fr)
    node: CohortNode = parent
    while True:
        if not node.borrows_with(fr, rest):
            return node.height, node.parent is not None
        if node.parent is None:
            return node.height, False
        rest -= node.local_available(fr)
        node = node.parent
