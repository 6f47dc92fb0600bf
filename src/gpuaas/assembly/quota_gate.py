"""No pod gets a node beyond what its workload was admitted with, whichever way it asks: binding, `spec.nodeName`, growth.

Everything that gives a pod a node passes here, in the same step of the event loop in which it is written, so that two
requests can never spend the same quota. The rule is gpuaas.kueue.coverage's; this module finds out whether Kueue
answers for a pod, on which workloads it may run (of its own, or of the topmost managed owner whose uid is real), and
keeps the book from the store. The server notes on the pod on which workload it runs; from then on no one may change
that. The pod scheduler asks first, so that it neither tries in vain nor preempts for a pod that may not run.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from gpuaas.api.kinds import Object
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.operation import Operation
from gpuaas.assembly.cluster_context import PODS_ON, ClusterContext
from gpuaas.base.errors import Denied, Forbidden
from gpuaas.base.fielderrors import forbidden, keyed
from gpuaas.client.kueue import RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.resources import NODES, PODS
from gpuaas.kueue.coverage import Account, Amounts, Coverage, account_of, is_open, requests_names
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.ancestry import OwnerMissing, TooDeep
from gpuaas.kueue.integrations.jobs import annotations_of, labels_of, queue_of
from gpuaas.kueue.integrations.pods import has_ended
from gpuaas.kueue.integrations.registry import kinds_of
from gpuaas.kueue.integrations.slices import slice_name
from gpuaas.kueue.pods import pod_requests, units
from gpuaas.store import Event

Old = Mapping[str, Any] | None
View = Mapping[str, Any]
WEBHOOK: Final = "vpod.kb.io"
_PODS: Final = f"{PODS.group}/{PODS.plural}/"
_WORKLOADS: Final = f"{WORKLOADS.group}/{WORKLOADS.plural}/"
_NOTED: Final = (keys.WORKLOAD, keys.SLICE_NAME)
_NO_WORKLOAD: Final = "no admitted workload covers this pod"


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _PodStatus(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    """Enough of a stored pod to pass over those that use nothing, without decoding the rest."""

    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


_peek = msgspec.json.Decoder(_Pod).decode


class QuotaGate:
    def __init__(self, cluster: Cluster, around: ClusterContext) -> None:
        self._store = cluster.store
        self._around = around
        self._book: Coverage | None = None
        self._owned: dict[str, set[tuple[str, str]]] = {}  # uid of an owner -> (namespace, name) of its workloads
        self._owners: dict[tuple[str, str], tuple[str, ...]] = {}
        self._uids: dict[str, str] = {}  # of the pods in the book, by their keys in the store
        self._listeners: list[Callable[[str], None]] = []

    def install(self, cluster: Cluster) -> None:
        cluster.admission.bindings.append(self.bind)
        cluster.admission.register_check(PODS.group, PODS.plural, self.check)

    # What the pod scheduler asks

    def refusal(self, pod: View) -> str:
        """Why the pod may not have a node now; "" if it may, or if Kueue does not answer for it."""
        owners = self._owners_of(pod)
        return "" if owners is None else self._choose(pod, owners)[1]

    def is_admitted(self, uid: str) -> bool:
        """Whether the pod, which has a node, runs on an admitted workload."""
        return self.book.is_covered(uid)

    def version(self, namespace: str) -> int:
        """As long as it stays the same, a refusal does."""
        return self.book.balance_version(namespace)

    def subscribe(self, notify: Callable[[str], None]) -> None:
        """`notify(namespace)` when there may be more room in it."""
        self._listeners.append(notify)

    def must_cover(self, namespace: str) -> bool:
        """Whether every pod in the namespace needs quota."""
        return self._around.held(namespace) and self._around.config.enables(PODS_ON)

    def is_overdrawn(self, namespace: str, workload: str) -> bool:
        return self.book.is_overdrawn(Account(namespace, workload))

    def excess(self, namespace: str, workload: str, pods: Sequence[str]) -> Sequence[str]:
        return self.book.excess(Account(namespace, workload), pods)

    # What the API server asks

    def bind(self, op: Operation, pod: Object, node: str) -> None:
        """A Binding gives the pod this node."""
        owners = self._owners_of(pod)
        if owners is None:
            _forget_note(pod)
            return
        account, why = self._choose(pod, owners, node)
        if account is None:
            raise Forbidden("", "pods/binding", op.name, f"target.name: {why}")
        self._note(op, pod, account)

    def check(self, op: Operation, obj: Object, old: Old) -> None:
        if old is not None:
            self._unchanged(op, obj, old)
            return
        node = obj["spec"].get("nodeName")
        if not node:
            return
        owners = self._owners_of(obj)
        if owners is None:
            _forget_note(obj)
            return
        account, why = self._choose(obj, owners, node)
        if account is None:
            raise Denied(WEBHOOK, [forbidden("spec.nodeName", why)])
        self._note(op, obj, account)

    def _unchanged(self, op: Operation, obj: Object, old: View) -> None:
        if op.subresource or not old["spec"].get("nodeName"):
            return
        before, after = annotations_of(old), annotations_of(obj)
        changed = [key for key in _NOTED if before.get(key) != after.get(key)]
        if changed:
            path = keyed("metadata.annotations", changed[0])
            raise Denied(WEBHOOK, [forbidden(path, "says on which workload the pod runs, and may not change")])

    def _note(self, op: Operation, pod: Object, account: "_Chosen") -> None:
        notes = {key: value for key, value in annotations_of(pod).items() if key != keys.SLICE_NAME}
        notes[keys.WORKLOAD] = account.workload
        if account.account.name != account.workload:
            notes[keys.SLICE_NAME] = account.account.name
        if notes != annotations_of(pod):
            pod["metadata"]["annotations"] = notes
        if op.dry_run:
            return
        key, uid = f"{_PODS}{pod['metadata']['namespace']}/{pod['metadata']['name']}", pod["metadata"]["uid"]
        self.book.assume(pod, account.account)
        self._uids[key] = uid
        asyncio.get_running_loop().call_soon(self._confirm, key, uid)

    def _confirm(self, key: str, uid: str) -> None:
        """What was refused for another reason after all was not written, and uses nothing."""
        entry = self._store.latest(key)
        if entry is None or entry.obj["metadata"]["uid"] != uid or not entry.obj["spec"].get("nodeName"):
            self._drop_pod(key, uid)

    # The decision

    def _owners_of(self, pod: View) -> Sequence[str] | None:
        """The uids whose workloads the pod may run on; None where Kueue does not answer for it."""
        around, namespace = self._around, pod["metadata"].get("namespace", "")
        if not around.selected(namespace):
            return None
        uid = pod["metadata"].get("uid", "")
        held, owners, answers = around.held(namespace), [uid], False
        kinds = kinds_of(around.config.frameworks)
        with contextlib.suppress(OwnerMissing, TooDeep):  # as far as they are there
            for resource, owner in kinds.owners(pod, around.find):
                owners.append(owner["metadata"]["uid"])
                answers |= kinds.is_managed(resource) and (held or bool(queue_of(owner)))
        if answers:
            return owners
        if not around.config.enables(PODS_ON):
            return None
        return (uid,) if held or labels_of(pod).get(keys.MANAGED) == "true" else None

    def _choose(self, pod: View, owners: Sequence[str], node: str = "") -> tuple["_Chosen | None", str]:
        """The workload with room for the pod, or why there is none."""
        requests, why = self._requests(pod), _NO_WORKLOAD
        for workload in self._workloads_of(owners):
            if not is_open(workload):
                continue
            account = Account(workload["metadata"]["namespace"], slice_name(workload))
            why = self.book.shortage(account, requests, self._ungoverned(workload))
            if not why and node:
                why = self._wrong_flavor(workload, requests, node)
            if not why:
                return _Chosen(account, workload["metadata"]["name"]), ""
        return None, why

    def _workloads_of(self, owners: Sequence[str]) -> Iterator[Object]:
        """The pod's own before those of its owners; each in its newest state."""
        _ = self.book
        for uid in owners:
            for namespace, name in sorted(self._owned.get(uid, ())):
                found = self._around.find(WORKLOADS, namespace, name)
                if found is not None:
                    yield found

    def _requests(self, pod: View) -> Amounts:
        found = self._around.resources.applied(pod_requests(pod["spec"]))
        return {resource: units(resource, amount) for resource, amount in found.items()}

    def _ungoverned(self, workload: View) -> Callable[[str], bool]:
        """Resources that its pods asked for when it was admitted, and for which it was charged nothing."""

        def asks(resource: str) -> bool:
            templates = (each.get("template") or {} for each in workload["spec"].get("podSets") or ())
            return resource in requests_names((each.get("spec") or {} for each in templates), self._requests)

        return asks

    def _wrong_flavor(self, workload: View, requests: Amounts, node: str) -> str:
        """A workload's quota is of flavors; it says nothing about other nodes."""
        found = self._around.find(NODES, "", node)
        labels = (found["metadata"].get("labels") or {}) if found is not None else {}
        assignments = workload["status"]["admission"].get("podSetAssignments") or ()
        for resource in requests:
            flavors = {name for each in assignments if (name := (each.get("flavors") or {}).get(resource))}
            if flavors and not any(self._is_on(name, labels) for name in flavors):
                name = workload["metadata"]["name"]
                return (
                    f"workload {name} holds {resource} of flavor {', '.join(sorted(flavors))}, which node {node} is not"
                )
        return ""

    def _is_on(self, flavor: str, labels: Mapping[str, str]) -> bool:
        found = self._around.find(RESOURCE_FLAVORS, "", flavor)
        wanted = ((found or {}).get("spec") or {}).get("nodeLabels") or {}
        return all(labels.get(key) == value for key, value in wanted.items())

    # The book

    @property
    def book(self) -> Coverage:
        """Kept from the first question on: what is stored is read once, and every change from then on."""
        if self._book is None:
            self._book = Coverage(self._requests)
            for entry in self._store.list(_WORKLOADS):
                self._workload(entry.obj)
            for entry in self._store.list(_PODS):
                seen = _peek(entry.raw)
                if seen.spec.node_name and seen.status.phase not in ("Succeeded", "Failed"):
                    self._pod(entry.key, entry.obj)
            for prefix in (_WORKLOADS, _PODS):
                self._store.watch(prefix, self._store.revision, self._on_events).resume()
        return self._book

    def _on_events(self, events: Sequence[Event]) -> None:
        book = self.book
        changed: dict[str, int] = {}
        for event in events:
            group, _, namespace, name = event.key.split("/", 3)
            changed.setdefault(namespace, book.balance_version(namespace))
            if group:
                if event.type == "DELETED":
                    self._forget_workload(namespace, name)
                else:
                    self._workload(event.entry.obj)
            elif event.type == "DELETED":
                if event.key in self._uids:
                    self._drop_pod(event.key, self._uids[event.key])
            else:
                self._pod(event.key, event.entry.obj)
        for namespace, version in changed.items():
            if book.balance_version(namespace) != version:
                for notify in self._listeners:
                    notify(namespace)

    def _pod(self, key: str, pod: View) -> None:
        """News without a node may be older than what the book has of the pod."""
        if not pod["spec"].get("nodeName"):
            return
        if account_of(pod) is None or has_ended(pod):
            self._drop_pod(key, pod["metadata"]["uid"])
            return
        assert self._book is not None
        self._book.put_pod(pod)
        self._uids[key] = pod["metadata"]["uid"]

    def _drop_pod(self, key: str, uid: str) -> None:
        assert self._book is not None
        self._book.drop_pod(uid)
        if self._uids.get(key) == uid:
            del self._uids[key]

    def _workload(self, workload: View) -> None:
        assert self._book is not None
        metadata = workload["metadata"]
        place = (metadata.get("namespace", ""), metadata["name"])
        owners = tuple(each["uid"] for each in metadata.get("ownerReferences") or () if each.get("uid"))
        known = self._owners.get(place, ())
        if owners != known:
            self._disown(place, known)
            for uid in owners:
                self._owned.setdefault(uid, set()).add(place)
            self._owners[place] = owners
        try:
            self._book.put_workload(workload)
        except (AttributeError, KeyError, TypeError, ValueError):  # whatever it is, it holds nothing
            self._book.drop_workload(*place)

    def _forget_workload(self, namespace: str, name: str) -> None:
        assert self._book is not None
        self._disown((namespace, name), self._owners.pop((namespace, name), ()))
        self._book.drop_workload(namespace, name)

    def _disown(self, place: tuple[str, str], owners: Sequence[str]) -> None:
        for uid in owners:
            places = self._owned.get(uid)
            if places is not None:
                places.discard(place)
                if not places:
                    del self._owned[uid]


def _forget_note(pod: Object) -> None:
    """A pod that Kueue does not answer for runs on no workload, whatever it says."""
    notes = annotations_of(pod)
    if keys.WORKLOAD in notes or keys.SLICE_NAME in notes:
        pod["metadata"]["annotations"] = {key: value for key, value in notes.items() if key not in _NOTED}


class _Chosen(msgspec.Struct, frozen=True):
    account: Account
    workload: str
