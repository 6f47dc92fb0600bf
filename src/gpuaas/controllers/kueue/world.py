"""The engine kept in step with the cluster's objects: each change of an object becomes a change the engine understands.

A change of an object counts only where it differs from the last one applied; so the echo of our own status
writes starts no cycle. A reservation is the engine's from the moment it decides; until its write is seen, objects that do
not show it yet are not taken for its release.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.controllers.kueue.other_pods import OtherPods
from gpuaas.engine.changes import Admitted, Change, Evicted, Finished, Gone, OtherUsage, PodsReady, Released, Reserved
from gpuaas.engine.engine import Engine
from gpuaas.engine.values import StopPolicy, Workload
from gpuaas.kueue import quotas
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.kueue.workloads import Reader, holds_quota, millis, queueable

Object = dict[str, Any]
View = Mapping[str, Any]


class Mirror:
    """Feeds one engine. `changed` is called after anything that may let a cycle decide something."""

    def __init__(self, engine: Engine, changed: Callable[[], None], reader: Reader | None = None) -> None:
        self.engine = engine
        self._changed = changed
        self.reader = reader or Reader()
        self._applied: dict[tuple[str, str], Any] = {}
        self._workloads: dict[str, Workload] = {}
        self._assumed: set[str] = set()
        self._checks: dict[str, Object] = {}
        self._queues: dict[str, Object] = {}
        self.others: OtherPods | None = None
        """What pods that are not placed take of nodes."""

    # Decisions of the engine that are being written.

    def assume(self, key: str) -> None:
        self._assumed.add(key)

    def wrote(self, key: str) -> None:
        self._assumed.discard(key)

    def failed(self, key: str, workload: View | None) -> None:
        """The reservation could not be written: the workload waits again, or is gone."""
        self._assumed.discard(key)
        if workload is None:
            self._tell(Finished(key))
        else:
            self._tell(Released(key, self.reader.workload(dict(workload))))

    def stays(self, workload: View | None) -> None:
        """Its eviction could not be written: it holds what it holds, and may be chosen again."""
        if workload is not None and holds_quota(workload) and not is_true(conditions_of(workload).get("Evicted")):
            self._tell(self.reader.reserved(dict(workload)))

    # Objects.

    def namespace(self, old: Object | None, new: Object | None) -> None:
        self._value("Namespace", old, new, quotas.namespace)

    def flavor(self, old: Object | None, new: Object | None) -> None:
        self._value("Flavor", old, new, quotas.flavor)

    def cohort(self, old: Object | None, new: Object | None) -> None:
        self._value("Cohort", old, new, quotas.cohort)

    def topology(self, old: Object | None, new: Object | None) -> None:
        self._value("Topology", old, new, quotas.topology)

    def node(self, old: Object | None, new: Object | None) -> None:
        known = self._applied.get(("Node", (new or old or {})["metadata"]["name"]))
        self._value("Node", old, new, quotas.node)
        if self.others is not None and new is not None:
            name = new["metadata"]["name"]
            if self._applied.get(("Node", name)) is not known:
                self._tell(self.others.of(name))

    def local_queue(self, old: Object | None, new: Object | None) -> None:
        self._value("LocalQueue", old, new, quotas.local_queue)

    def cluster_queue(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self._queues.pop(name, None)
        else:
            self._queues[name] = new
        self._value("ClusterQueue", old, new, self._cluster_queue)

    def check(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self._checks.pop(name, None)
        else:
            self._checks[name] = new
        for queue in tuple(self._queues.values()):
            if any(rule["name"] == name for rule in _check_rules(queue)):
                self.cluster_queue(queue, queue)

    def _cluster_queue(self, obj: Object) -> Any:
        value = quotas.cluster_queue(obj, {name: self._checks.get(name, {}) for name in _check_names(obj)})
        if obj["metadata"].get("deletionTimestamp") and value.stop is StopPolicy.NONE:
            return quotas.cluster_queue(
                {**obj, "spec": {**(obj.get("spec") or {}), "stopPolicy": "Hold"}}, self._checks
            )
        return value

    def workload(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        key = f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
        if new is None or not _counts(new):
            self._forget(key)
            return
        value = self.reader.workload(new)
        if self.reader.refusal(new) and not holds_quota(new):
            self._forget(key)
            return
        before, self._workloads[key] = self._workloads.get(key), value
        item = self.engine.items.get(key)
        conditions = conditions_of(new)
        if is_true(conditions.get("QuotaReserved")) and (new.get("status") or {}).get("admission"):
            self._reserved(key, new, before != value or _moved(old, new), conditions)
        elif item is not None and item.reserved:
            if key in self._assumed:
                return  # written, but not seen yet
            self._tell(Released(key, value))
        elif before != value or item is None:
            self._tell(value)

    def _forget(self, key: str) -> None:
        """It neither waits nor holds anything."""
        self._assumed.discard(key)
        if self._workloads.pop(key, None) is not None or key in self.engine.items:
            self._tell(Finished(key))

    def _reserved(self, key: str, obj: Object, news: bool, conditions: Any) -> None:
        self._assumed.discard(key)
        item = self.engine.items.get(key)
        fresh = item is None or not item.reserved
        if fresh or news:
            self._tell(self.reader.reserved(obj))  # with what it holds: pods that are done give theirs back
        if self.engine.ledger is not None and is_true(conditions.get("Admitted")):
            self.engine.apply(Admitted(key, millis(conditions["Admitted"]["lastTransitionTime"])))
        evicted = conditions.get("Evicted")
        if item is not None and not fresh and is_true(evicted) and not item.evicted:
            self._tell(Evicted(key, evicted.get("reason", "")))
        if self.engine.config.block_admission:  # not needed otherwise
            self._tell(PodsReady(key, is_true(conditions.get("PodsReady"))))

    def _value(self, kind: Any, old: Object | None, new: Object | None, read: Callable[[Object], Any]) -> None:
        obj = new or old
        assert obj is not None
        meta = obj["metadata"]
        name = f"{meta['namespace']}/{meta['name']}" if kind == "LocalQueue" else meta["name"]
        if new is None:
            if self._applied.pop((kind, name), None) is not None:
                self._tell(Gone(kind, name))
            return
        value = read(new)
        if self._applied.get((kind, name)) != value:
            self._applied[kind, name] = value
            self._tell(value)

    def other_usage(self, change: OtherUsage) -> None:
        """Less room admits no workload; more room does, on `wake`."""
        self.engine.apply(change)
        if change.wakes:
            self._changed()

    def _tell(self, change: Change) -> None:
        self.engine.apply(change)
        self._changed()


def _counts(workload: Object) -> bool:
    """Whether it waits or holds quota at all."""
    return holds_quota(workload) or queueable(workload)


def _moved(old: Object | None, new: Object) -> bool:
    """Whether what it was given changed while it held it: another chose other places for it."""
    before = ((old or {}).get("status") or {}).get("admission")
    return before is not None and before != new["status"]["admission"]


def _check_rules(queue: View) -> list[Object]:
    return ((queue.get("spec") or {}).get("admissionChecksStrategy") or {}).get("admissionChecks") or []


def _check_names(queue: View) -> list[str]:
    return [rule["name"] for rule in _check_rules(queue)]


__all__ = ["Mirror", "Reserved"]
