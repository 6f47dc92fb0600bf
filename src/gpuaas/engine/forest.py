"""All quota trees: which queue and cohort hangs under which, and what has to be recomputed or looked at again.

Owns the shape. Trees are rebuilt lazily, once, after any number of changes to queues and cohorts; quotas are resettled
per tree. Why a queue is inactive is worked out here too, since its flavors, checks and topologies decide it.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuaas.engine.check_conflicts import faults
from gpuaas.engine.queues import Queue, Tree
from gpuaas.engine.topology import Places
from gpuaas.engine.tree import CohortNode, FlavorResources, Node, settle
from gpuaas.engine.values import ClusterQueue, Cohort, Flavor, StopPolicy

CYCLE = ("HasCycle", "is in a Cohort that is its own ancestor")
_IN_CYCLE = (CYCLE[0], f"Can't admit new workloads: {CYCLE[1]}.")


class Forest:
    def __init__(self, flavors: Mapping[str, Flavor], places: Places) -> None:
        self.frs = FlavorResources()
        self.queues: dict[str, Queue] = {}
        self.cohorts: dict[str, Cohort] = {}
        self._flavors = flavors
        self._places = places
        self._trees: list[Tree] = []
        self._changed: dict[Tree, None] = {}
        """The trees in which something changed since they were last looked at without effect."""
        self._shape_changed = False

    def set_queue(self, spec: ClusterQueue) -> Queue:
        queue = self.queues.get(spec.name)
        if queue is None:
            queue = self.queues[spec.name] = Queue(spec, self.frs)
        else:
            queue.describe(spec, self.frs)
        queue.inactive = self._why_inactive(spec)
        self._shape_changed = True
        return queue

    def remove_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self._shape_changed = True

    def set_cohort(self, cohort: Cohort) -> None:
        self.cohorts[cohort.name] = cohort
        self._shape_changed = True

    def remove_cohort(self, name: str) -> None:
        self.cohorts.pop(name, None)
        self._shape_changed = True

    def memento(self) -> tuple[object, ...]:
        return dict(self.queues), dict(self.cohorts), self._trees, self._shape_changed, dict(self._changed)

    def restore(self, memento: tuple[object, ...]) -> None:
        self.queues, self.cohorts, self._trees, self._shape_changed, changed = memento  # type: ignore[assignment]
        self._changed.clear()
        self._changed.update(changed)  # type: ignore[call-overload]

    def flavors_changed(self) -> frozenset[str]:
        """Flavors, topologies or nodes changed: what was worked out from them is void. Gives the queues that opened."""
        opened: list[str] = []
        for queue in self.queues.values():
            queue.plans = {}
            inactive = self._why_inactive(queue.spec)
            if inactive != queue.inactive:
                if inactive is None:
                    opened.append(queue.name)
                queue.inactive = inactive
                self._shape_changed = True
        return frozenset(opened)

    def cohort_node(self, name: str) -> CohortNode | None:
        """As of the last look at the shape."""
        return next((node for tree in self._trees for node in tree.cohorts if node.name == name), None)

    def lenders(self, node: Node | None) -> list[str]:
        """Who gets back what a queue or cohort has borrowed, should it leave its tree now; and whom it held in a circle."""
        tree = next((each for each in self._trees if node in each.queues or node in each.cohorts), None)
        if node is None or tree is None:
            return []
        borrows = any(used > node.subtree.get(fr, 0) for fr, used in node.usage.items())
        return [queue.name for queue in tree.queues] if borrows or tree.cyclic else []

    def trees(self) -> list[Tree]:
        if self._shape_changed:
            self._rebuild()
        return self._trees

    def dirty(self) -> list[Tree]:
        self.trees()
        found = [tree for tree in self._changed if not tree.cyclic]
        for tree in found:
            self._settle(tree)
        return found

    def unsettled(self) -> bool:
        """Whether a changed tree may have heads."""
        self.trees()
        return any(tree.ready for tree in self._changed if not tree.cyclic)

    def wake(self, queue: Queue) -> Tree:
        """Something changed in the queue's tree."""
        tree = self.settle(queue)
        tree.dirty = True
        return tree

    def wake_heads(self) -> None:
        """Places became free, which no tree has for itself: heads that still stand in line are worth another look."""
        for tree in self.with_heads():
            tree.dirty = True

    def with_heads(self) -> list[Tree]:
        return [tree for tree in self.trees() if tree.ready]

    def settle(self, queue: Queue) -> Tree:
        """The queue's tree, with its quotas up to date."""
        if self._shape_changed:
            self._rebuild()
        tree = queue.tree
        assert tree is not None
        self._settle(tree)
        return tree

    def settle_all(self) -> None:
        for tree in self.trees():
            self._settle(tree)

    def _settle(self, tree: Tree) -> None:
        if tree.stale and not tree.cyclic:
            settle(tree.root, {q for q in tree.queues if q.inactive is None})
            for queue in tree.queues:
                queue.generation += 1
            tree.stale = False

    def _rebuild(self) -> None:
        self._shape_changed = False
        self._changed.clear()
        nodes = self._cohort_nodes()
        for queue in self.queues.values():
            parent = nodes.get(queue.spec.cohort) if queue.spec.cohort else None
            queue.parent = parent
            if parent is not None:
                parent.leaves.append(queue)
        self._trees = [self._tree(queue) for queue in self.queues.values() if queue.parent is None]
        reached: set[CohortNode] = set()
        for node in nodes.values():
            if node.parent is None:
                tree = self._tree(node)
                reached.update(tree.cohorts)
                self._trees.append(tree)
        stranded = [node for node in nodes.values() if node not in reached]
        if stranded:
            queues = [leaf for node in stranded for leaf in node.leaves if isinstance(leaf, Queue)]
            self._trees.append(Tree(stranded[0], stranded, queues, True, self._changed))
        for tree in self._trees:
            for queue in tree.queues:
                queue.tree = tree
                if tree.cyclic or queue.inactive == _IN_CYCLE:
                    queue.inactive = _IN_CYCLE if tree.cyclic else self._why_inactive(queue.spec)

    def _tree(self, root: Node) -> Tree:
        cohorts: list[CohortNode] = []
        queues: list[Queue] = []
        todo = [root]
        while todo:
            node = todo.pop()
            if isinstance(node, CohortNode):
                cohorts.append(node)
                todo += reversed((*node.children, *node.leaves))
            elif isinstance(node, Queue):
                queues.append(node)
        return Tree(root, cohorts, queues, False, self._changed)

    def _cohort_nodes(self) -> dict[str, CohortNode]:
        nodes: dict[str, CohortNode] = {}

        def node_of(name: str) -> CohortNode:
            if name not in nodes:
                nodes[name] = CohortNode(name)
            return nodes[name]

        for name in sorted({q.spec.cohort for q in self.queues.values() if q.spec.cohort}):
            node_of(name)
        for cohort in self.cohorts.values():
            node = node_of(cohort.name)
            node.weight = cohort.weight
            node.set_quotas(cohort.groups, self.frs)
            if cohort.parent:
                node.parent = node_of(cohort.parent)
                node.parent.children.append(node)
        return nodes

    def _why_inactive(self, spec: ClusterQueue) -> tuple[str, str] | None:
        """Upstream's reason and words for a queue that admits nothing; None for one that does."""
        why: list[tuple[str, str]] = []
        if spec.stop is not StopPolicy.NONE:
            why.append(("Stopped", "is stopped"))
        names = [f.flavor for group in spec.groups for f in group.flavors]
        missing = [name for name in names if name not in self._flavors]
        if missing:
            why.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
        inactive = [check.name for check in spec.checks if not check.active]
        if inactive:
            why.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(inactive)}"))
        why += faults(spec.checks, names)
        for name in names:
            flavor = self._flavors.get(name)
            if flavor is not None and self._places.missing_topology(flavor):
                why.append(("TopologyNotFound", f'there is no Topology "{flavor.topology}" for TAS flavor "{name}"'))
        if not why:
            return None
        return why[0][0], f"Can't admit new workloads: {', '.join(words for _, words in why)}."
