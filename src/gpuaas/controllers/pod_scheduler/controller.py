"""The loop of the scheduler: pods without a node, the highest priority first, are placed and bound, or get a condition with the reason.

The book of nodes is kept from the news; a pod is written into it when it is decided, before its binding is
acknowledged, so that no room is given away twice. A binding that fails takes it out again. So is one for whom others
leave: the room they make is its own, unless a pod of higher priority comes. What found no place is tried again when a
node changes or a pod leaves, not before: nothing else can help it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.base.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NAMESPACES, NODES, PODS
from gpuaas.controllers.pod_scheduler import conditions
from gpuaas.controllers.pod_scheduler.conditions import ERROR
from gpuaas.nodefit.book import Ask, Book, read_pod
from gpuaas.nodefit.neighbours import concerns_others
from gpuaas.nodefit.place import Placed, Unplaced, place
from gpuaas.nodefit.preempt import Eviction
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, is_deleting, key_of, labels_of, uid_of
from gpuaas.runtime.pods import is_finished
from gpuaas.runtime.quarantine import described

_log = logging.getLogger(__name__)
SCHEDULER = "default-scheduler"
MANAGER = "kube-scheduler"  # whom the real program calls itself when it writes
_PASS = "pass"  # the only key: one pass looks at everybody
_AT_A_STRETCH = 0.02  # seconds of decisions before others get their turn
_ANY = -1  # no version: tried again with the next change
_AT_ONCE = 128  # bindings in flight; the store commits what comes together together


@dataclass(frozen=True, slots=True)
class _Pending:
    """A pod that waits, read once."""

    pod: Object
    ask: Ask
    shape: bytes


class PodScheduler(Controller):
    name = SCHEDULER
    component = SCHEDULER
    tells_series = True

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._quota = deps.quota
        self.book = Book(spares=self._quota.is_admitted if self._quota is not None else None)
        self._refused: dict[str, dict[Key, int]] = {}  # by namespace: pods without quota, and as of which version
        if self._quota is not None:
            self._quota.subscribe(self._quota_changed)
        self._waiting: dict[Key, _Pending] = {}
        self._untried: set[Key] = set()
        self._sociable: set[Key] = set()  # those of them to whom it matters where other pods are
        self._room_changed = False
        self._binding: dict[str, Object] = {}  # by uid, until the news show the node
        self._nominated: set[str] = set()  # uids of those for whom others leave; they stand in the book already
        for resource, changed in ((NAMESPACES, self._namespace), (NODES, self._node), (PODS, self._pod)):
            self.follow(deps.informers.of(resource), _nobody).subscribe(changed)

    # News

    def _namespace(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.book.namespaces[new["metadata"]["name"]] = labels_of(new)
        elif old is not None:
            self.book.namespaces.pop(old["metadata"]["name"], None)

    def _node(self, old: Object | None, new: Object | None) -> None:
        if new is not None and old is not None and _offer(old) == _offer(new):
            return
        if new is not None:
            self.book.put_node(new)
        elif old is not None:
            self.book.drop_node(old["metadata"]["name"])
        self._make_room()

    def _pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._gone(old)
            return
        if new["spec"].get("nodeName"):
            self._binding.pop(uid_of(new), None)
            self._drop(key_of(new))
            held = self.book.where(uid_of(new)) != "" and is_finished(new)
            self.book.put_pod(new)
            if held or (self._sociable and (old is None or _may_attract(old, new))):
                self._make_room()
        elif _is_ours(new):
            self._want(key_of(new), old, new)
        else:
            self._drop(key_of(new))

    def _gone(self, pod: Object) -> None:
        self._binding.pop(uid_of(pod), None)
        self._drop(key_of(pod))
        if self.book.where(uid_of(pod)):
            self.book.drop_pod(uid_of(pod))
            self._make_room()

    def _want(self, key: Key, old: Object | None, new: Object) -> None:
        known = self._waiting.get(key)
        if known is not None and old is not None and old["spec"] == new["spec"] and labels_of(old) == labels_of(new):
            self._waiting[key] = _Pending(new, known.ask, known.shape)
            return
        try:
            ask = read_pod(new)
        except Exception:
            self._drop(key)  # whatever it was before, nothing can be placed by what it is now
            raise
        self._waiting[key] = _Pending(new, ask, conditions.shape_of(ask))
        if concerns_others(new["spec"]):
            self._sociable.add(key)
        self._untried.add(key)
        self.queue.add(_PASS)

    def _drop(self, key: Key) -> None:
        known = self._waiting.pop(key, None)
        if known is not None:
            self._withdraw(known.ask.uid)
        self._forget_refusal(key)
        self._untried.discard(key)
        self._sociable.discard(key)

    def _withdraw(self, uid: str) -> None:
        """Drops the nomination: the room that is being made is free for all."""
        if uid in self._nominated:
            self._nominated.discard(uid)
            self.book.drop_pod(uid)

    def _make_room(self) -> None:
        if self._waiting:
            self._room_changed = True
            self.queue.add(_PASS)

    def _quota_changed(self, namespace: str) -> None:
        keys = self._refused.pop(namespace, None)
        if keys:
            self._untried.update(keys)
            self.queue.add(_PASS)

    def _forget_refusal(self, key: Key) -> None:
        keys = self._refused.get(key.namespace)
        if keys is not None and keys.pop(key, None) is not None and not keys:
            del self._refused[key.namespace]

    # The pass

    async def reconcile(self, key: Any) -> Requeue | None:
        keys: Iterable[Key] = list(self._waiting) if self._room_changed else list(self._untried)
        self._room_changed = False
        self._untried.clear()
        pending = [self._waiting[one] for one in keys if self._waiting[one].ask.uid not in self._binding]
        pending.sort(key=lambda one: (-one.ask.priority, str(one.pod["metadata"].get("creationTimestamp") or "")))
        work: list[Awaitable[None]] = []
        failed: dict[bytes, Unplaced] = {}
        since = self.clock.monotonic()
        for one in pending:
            todo = self._decided(one, failed)
            if todo is not None:
                work.append(todo)
            if len(work) == _AT_ONCE:
                await self._write_down(work)
            if self.clock.monotonic() - since > _AT_A_STRETCH:
                await asyncio.sleep(0)
                since = self.clock.monotonic()
        await self._write_down(work)
        return None

    async def _write_down(self, work: list[Awaitable[None]]) -> None:
        """What cannot be written for one pod keeps no other from its node."""
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, Exception):
                _log.warning("%s: %s", self.name, described(result), exc_info=not isinstance(result, ApiError))
        work.clear()

    def _decided(self, pending: "_Pending", failed: dict[bytes, Unplaced]) -> Awaitable[None] | None:
        """A pod for which nothing can be decided is set aside: the others behind it get their nodes."""
        try:
            return self._decide(pending, failed)
        except Exception as error:
            self.aside.note(self.name, pending.pod, error)
            return self._tell_fault(pending.pod, error)

    async def _tell_fault(self, pod: Object, error: Exception) -> None:
        await self._write_condition(pod, conditions.unscheduled(pod, described(error), "", self.clock.now(), ERROR))

    def _decide(self, pending: "_Pending", failed: dict[bytes, Unplaced]) -> Awaitable[None] | None:
        """The decision is made here and now; what is returned only writes it down."""
        pod, ask = pending.pod, pending.ask
        self._withdraw(ask.uid)
        why = self._lack_of_quota(pod)
        if why is not None:
            return self._tell(pod, Unplaced(why, {})) if why else None
        verdict = failed.get(pending.shape) or place(ask, self.book)
        if isinstance(verdict, Placed):
            self.book.assume(ask, verdict.node)
            self._binding[ask.uid] = pod
            return self._bind(pod, ask, verdict.node)
        if verdict.eviction is not None:
            for victim in verdict.eviction.victims:
                self._withdraw(victim.uid)
            self.book.assume(ask, verdict.eviction.node)
            self._nominated.add(ask.uid)
            return self._tell(pod, verdict)
        failed[pending.shape] = verdict  # pods of one shape fail alike, and bindings in between only take room away
        return self._tell(pod, verdict) if conditions.unscheduled(pod, verdict.message, "", 0.0) is not None else None

    def _lack_of_quota(self, pod: Object) -> str | None:
        """None where the pod may have a node; else why not, "" if its status says so already. Such a pod neither takes room
        nor makes any, and is looked at again when the quota of its namespace changes."""
        if self._quota is None:
            return None
        key = key_of(pod)
        version = self._quota.version(key.namespace)
        if self._refused.get(key.namespace, {}).get(key) == version:
            return ""
        why = self._quota.refusal(pod)
        if not why:
            self._forget_refusal(key)
            return None
        self._refused.setdefault(key.namespace, {})[key] = version
        return why if conditions.unscheduled(pod, why, "", 0.0) is not None else ""

    async def _bind(self, pod: Object, ask: Ask, node: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": ask.name, "namespace": ask.namespace, "uid": ask.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self.client.create(
                PODS, binding, ask.namespace, name=ask.name, subresource="binding", field_manager=MANAGER
            )
        except (ApiError, OSError) as error:
            if self._binding.pop(ask.uid, None) is not None:
                self.book.drop_pod(ask.uid)
                if isinstance(error, Forbidden):
                    await self._tell(pod, Unplaced(error.message, {}))  # until a node, a pod or its quota changes
                    self._refused.setdefault(ask.namespace, {})[key_of(pod)] = _ANY
                elif not isinstance(error, NotFound) and key_of(pod) in self._waiting:
                    self._untried.add(key_of(pod))
                    self.queue.add_rate_limited(_PASS)
            return
        message = f"Successfully assigned {ask.namespace}/{ask.name} to {node}"
        self.recorder.event(PODS, pod, NORMAL, "Scheduled", message, action="Binding")

    async def _tell(self, pod: Object, verdict: Unplaced) -> None:
        nominated = ""
        if verdict.eviction is not None:
            nominated = verdict.eviction.node
            await self._evict(pod, verdict.eviction)
        status = conditions.unscheduled(pod, verdict.message, nominated, self.clock.now())
        if status is None:
            return
        self.recorder.event(PODS, pod, WARNING, "FailedScheduling", verdict.message, action="Scheduling")
        await self._write_condition(pod, status)

    async def _write_condition(self, pod: Object, status: Object | None) -> None:
        if status is None:
            return
        metadata = pod["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        try:
            await self.client.patch(
                PODS, metadata["name"], patch, metadata["namespace"], subresource="status", field_manager=MANAGER
            )
        except (Conflict, NotFound):
            return  # it has changed: its news bring it here again
        except (Invalid, BadRequest) as error:  # the stored pod is not valid: only an event can report it
            self.aside.note(self.name, pod, error)

    async def _evict(self, pod: Object, eviction: Eviction) -> None:
        """Pods of lower priority make room; those already leaving are waited for."""
        for victim in eviction.victims:
            known = self.informers.of(PODS).get(victim.namespace, victim.name)
            if known is None or victim.leaving or not known["spec"].get("nodeName"):
                continue  # it leaves by itself, or was only about to come
            patch = {"status": conditions.disrupted(known, self.clock.now())}
            try:
                await self.client.patch(PODS, victim.name, patch, victim.namespace, subresource="status")
                await self.client.delete(PODS, victim.name, victim.namespace, uid=victim.uid)
            except (Conflict, NotFound):
                continue
            message = f"Preempted by pod {uid_of(pod)} on node {eviction.node}"
            self.recorder.event(PODS, known, NORMAL, "Preempted", message, action="Preempting")


def _nobody(_: Mapping[str, Any]) -> Sequence[Any]:
    """News are read by the handlers above; they queue nothing by themselves."""
    return ()


def _offer(node: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of a node matters to placing pods; heartbeats do not."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return labels_of(node), spec.get("taints"), spec.get("unschedulable"), status.get("allocatable")


def _is_ours(pod: Mapping[str, Any]) -> bool:
    spec = pod["spec"]
    if is_deleting(pod) or is_finished(pod) or spec.get("schedulingGates"):
        return False
    return (spec.get("schedulerName") or SCHEDULER) == SCHEDULER


def _may_attract(old: Object, new: Object) -> bool:
    """A pod that was just placed, or got other labels, may be the neighbour that another pod's affinity waits for."""
    return not old["spec"].get("nodeName") or labels_of(old) != labels_of(new)
