"""Rows of quota: one for each flavor and resource of a ClusterQueue, from its spec and its status."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from gpuaas.base.quantity import parse_quantity
from gpuaas.devices.shares import in_text
from gpuaas.kueue.ledger import is_gpu
from gpuaas.views.flavors import Flavors
from gpuaas.views.free import UsableQueue
from gpuaas.views.rows import QueueRow

View = Mapping[str, Any]


class Queues:
    """ClusterQueues' rows, and where LocalQueues lead to."""

    def __init__(self, flavors: Flavors | None = None) -> None:
        self._rows: dict[str, tuple[QueueRow, ...]] = {}
        self._flavors = flavors or Flavors()
        self._local: dict[tuple[str, str], str] = {}
        self._stopped: set[tuple[str, str]] = set()

    def cluster_queue_changed(self, name: str, obj: View | None) -> None:
        if obj is None:
            self._rows.pop(name, None)
        else:
            self._rows[name] = tuple(rows_of(obj))

    def local_queue_changed(self, namespace: str, name: str, obj: View | None) -> None:
        if obj is None:
            self._local.pop((namespace, name), None)
            self._stopped.discard((namespace, name))
            return
        spec = obj.get("spec") or {}
        self._local[namespace, name] = spec.get("clusterQueue", "")
        if spec.get("stopPolicy", "None") == "None":
            self._stopped.discard((namespace, name))
        else:
            self._stopped.add((namespace, name))

    def usable(self, may_use: Callable[[str], bool]) -> list[UsableQueue]:
        """The LocalQueues that are not stopped, of the namespaces where one may submit."""
        allowed = {namespace for namespace in self.namespaces() if may_use(namespace)}
        return [
            UsableQueue(*where, leads_to)
            for where, leads_to in sorted(self._local.items())
            if where[0] in allowed and where not in self._stopped
        ]

    def cluster_queue_of(self, namespace: str, name: str) -> str:
        return self._local.get((namespace, name), "")

    def leading_to(self, cluster_queue: str) -> list[tuple[str, str]]:
        """Namespace and name of the LocalQueues of a ClusterQueue."""
        return sorted(where for where, leads in self._local.items() if leads == cluster_queue)

    def of_namespace(self, namespace: str) -> set[str]:
        """The ClusterQueues that the namespace has a LocalQueue for."""
        return {queue for (where, _), queue in self._local.items() if where == namespace}

    def namespaces(self) -> set[str]:
        """Those that have a LocalQueue."""
        return {namespace for namespace, _ in self._local}

    def listed(self, names: Collection[str] | None = None) -> list[QueueRow]:
        """Rows by the name of the ClusterQueue; of these, or of all."""
        rows = [row for name in sorted(self._rows) if names is None or name in names for row in self._rows[name]]
        return [self._with_cards(row) for row in rows]

    def _with_cards(self, row: QueueRow) -> QueueRow:
        if not is_gpu(row.resource):
            return row
        used = self._flavors.cards([(row.flavor, row.resource, parse_quantity(row.used).value)])
        return msgspec.structs.replace(row, cards=in_text(used))


def rows_of(queue: View) -> Iterator[QueueRow]:
    """One for each flavor and resource."""
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    used = {
        (flavor["name"], each["name"]): each
        for flavor in status.get("flavorsReservation") or ()
        for each in flavor.get("resources") or ()
    }
    active = next((each for each in status.get("conditions") or () if each["type"] == "Active"), None)
    state = "Unknown" if active is None else "Active" if active["status"] == "True" else active["reason"]
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                found = used.get((flavor["name"], quota["name"]), {})
                yield QueueRow(
                    clusterqueue=queue["metadata"]["name"],
                    cohort=spec.get("cohortName", ""),
                    flavor=flavor["name"],
                    resource=quota["name"],
                    nominal=str(quota["nominalQuota"]),
                    used=str(found.get("total", "0")),
                    borrowed=str(found.get("borrowed", "0")),
                    waiting=status.get("pendingWorkloads", 0),
                    state=state,
                    borrowing_limit=_amount(quota.get("borrowingLimit")),
                    lending_limit=_amount(quota.get("lendingLimit")),
                    admitted=status.get("admittedWorkloads", 0),
                )


def _amount(limit: Any) -> str | None:
    return None if limit is None else str(limit)
