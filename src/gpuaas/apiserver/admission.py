"""Admission: what other objects have to say about a write, between defaulting and validation.

The rules themselves are pure functions of the api room; here they get the objects they ask for. `admit` may change the
new object, `charge` runs last and books what the write costs (quota). Both see writes in flight, so that two requests
can never spend the same quota. What people's own policies and webhooks say is asked in modules policies and
webhooks.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes import admission as rules
from gpuaas.api.kubernetes.rules.claims import ADMIN_LABEL, admin_forbidden, admin_requests
from gpuaas.api.kubernetes.rules.pod_budgets import budget_errors
from gpuaas.apiserver.mutations import Mutations
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.owners import Owners, put
from gpuaas.apiserver.policies import Policies
from gpuaas.apiserver.webhooks import Webhooks
from gpuaas.base.errors import ApiError, Forbidden, Invalid, NotFound
from gpuaas.machinery.schema.cel.library_authorization import Answer, Question
from gpuaas.store import Entry

if TYPE_CHECKING:
    from gpuaas.apiserver.cluster import Cluster
    from gpuaas.apiserver.security.identity import User

Decide = Callable[["User", Question], Answer]
Plugin = Callable[[Operation, Object, Mapping[str, Any] | None], None]
_SMALL = 2048  # bytes of a request that cannot hold too many entries of anything
BindingCheck = Callable[[Operation, Object, str], None]
_PROTECTED = frozenset({"default", "kube-system", "kube-public"})


def _no_authorizer(_user: "User", _question: Question) -> Answer:
    return Answer(False, "")


class NamespaceTerminating(Forbidden):
    def __init__(self, op: Operation, name: str) -> None:
        super().__init__(
            op.resource.group,
            op.resource.plural,
            name,
            f"unable to create new content in namespace {op.namespace} because it is being terminated",
        )
        self.details["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {op.namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]


class Admission:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._policies, self._mutations = Policies(cluster), Mutations(cluster)
        self.webhooks = Webhooks(cluster)
        self.owners = Owners(cluster)
        self.plugins: dict[tuple[str, str], list[Plugin]] = {}
        self.checks: dict[tuple[str, str], list[tuple[Plugin, bool]]] = {}
        self.bindings: list[BindingCheck] = []
        """Asked with the pod and its node when a Binding is about to be written; may refuse it, or note on the pod why
        it was allowed."""
        self.decide: Decide = _no_authorizer  # for expressions that use `authorizer`; the cluster's access sets it
        self.register("", "pods", self._pod)
        self.register("", "persistentvolumeclaims", self._claim)
        self.register("", "persistentvolumes", self._volume)
        self.register("", "services", self._service)
        self.register("", "nodes", self._node)
        for plural in ("resourceclaims", "resourceclaimtemplates"):
            self.register("resource.k8s.io", plural, self._administrator)
        readable, policies = self._policies.refuse_unreadable, "admissionregistration.k8s.io"
        for plural in ("validatingadmissionpolicies", "mutatingadmissionpolicies"):
            self.register_check(policies, plural, readable)
        for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            self.register_check(policies, plural, self._policies.refuse_unreadable_conditions)

    def register(self, group: str, plural: str, plugin: Plugin) -> None:
        """Adds a rule for one resource, after those already there."""
        self.plugins.setdefault((group, plural), []).append(plugin)

    def register_check(self, group: str, plural: str, check: Plugin, *, status: bool = False) -> None:
        """Adds a rule that sees the object as it would be stored, valid and complete, and may only refuse it; with
        `status`, also when its status is written."""
        self.checks.setdefault((group, plural), []).append((check, status))

    def admit(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if old is None and op.resource.namespaced:
            self._namespace(op, obj)
        if not op.in_process and not op.subresource and _may_exceed(op, obj, old):
            self._raise(op, obj, budget_errors(obj, old))
        owner = self.owners.of_new(op, obj) if old is None else None
        if owner is not None:
            put(obj, owner)  # also for policies and webhooks to see
        for plugin in self.plugins.get((op.resource.group, op.resource.plural), ()):
            plugin(op, obj, old)
        self._mutations.change(op, obj, old)
        self.webhooks.change(op, obj, old)
        if owner is not None:
            put(obj, owner)
        elif old is not None:
            self.owners.keep(op, obj, old)

    def judge(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        """What people's policies and webhooks say of it, as it would be stored, even if that is nothing new."""
        self._policies.judge(op, obj, old)
        self.webhooks.judge(op, obj, old)

    def charge(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        for check, status in self.checks.get((op.resource.group, op.resource.plural), ()):
            if status or op.subresource != "status":
                check(op, obj, old)
        if not op.resource.namespaced or op.subresource == "status":
            return
        quotas = list(self._objects("/resourcequotas/", op.namespace))
        if not quotas:
            return
        for quota, used in rules.charge_quotas(quotas, op.resource.group, op.resource.plural, obj, old):
            if not op.dry_run:
                self._book(quota, used)

    def may_delete(self, op: Operation) -> None:
        if op.resource.prefix == "/namespaces/" and op.name in _PROTECTED:
            raise Forbidden("", "namespaces", op.name, "this namespace may not be deleted")

    def judge_deletion(self, op: Operation, entry: Entry) -> None:
        self._policies.judge_deletion(op, entry)
        if op.answers is not None:
            self.webhooks.change(op, None, entry.obj)
            self.webhooks.judge(op, None, entry.obj)

    # The rules.

    def _namespace(self, op: Operation, obj: Object) -> None:
        entry = self._cluster.store.latest(f"/namespaces//{op.namespace}")
        if entry is None:
            raise NotFound("", "namespaces", op.namespace)
        if entry.obj["metadata"].get("deletionTimestamp"):
            raise NamespaceTerminating(op, obj["metadata"].get("name", ""))

    def _pod(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if op.subresource:
            return
        if old is None:
            self._account(op, obj)
            classes = {
                entry.obj["metadata"]["name"]: entry.obj
                for entry in self._cluster.store.list("scheduling.k8s.io/priorityclasses/")
            }
            self._raise(op, obj, rules.resolve_priority(obj, classes))
            self._runtime_class(obj)
        rules.add_default_tolerations(obj)
        ranges = list(self._objects("/limitranges/", op.namespace))
        if ranges:
            self._forbid(op, obj, rules.apply_limit_ranges(obj, ranges, create=old is None))

    def _runtime_class(self, obj: Object) -> None:
        """A pod names only classes there are, and carries what its class costs on top."""
        name = obj["spec"].get("runtimeClassName")
        if not name:
            return
        entry = self._cluster.store.latest(f"node.k8s.io/runtimeclasses//{name}")
        if entry is None:
            why = f'pod rejected: RuntimeClass "{name}" not found'
            raise Forbidden("", "pods", _asked_name(obj), why)
        overhead = (entry.obj.get("overhead") or {}).get("podFixed")
        if overhead:
            obj["spec"]["overhead"] = dict(overhead)

    def _account(self, op: Operation, obj: Object) -> None:
        name = (obj.get("spec") or {}).get("serviceAccountName") or "default"
        entry = self._cluster.store.latest(f"/serviceaccounts/{op.namespace}/{name}")
        if entry is None:
            why = f'error looking up service account {op.namespace}/{name}: serviceaccount "{name}" not found'
            raise Forbidden("", "pods", _asked_name(obj), why)
        rules.use_service_account(obj, entry.obj, self._cluster.ids.suffix())

    def _claim(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if old is None:
            _protect(obj, "kubernetes.io/pvc-protection")
        ranges = list(self._objects("/limitranges/", op.namespace))
        if ranges:
            self._forbid(op, obj, rules.claim_limit_errors(obj, ranges))

    def _volume(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if old is None:
            _protect(obj, "kubernetes.io/pv-protection")

    def _service(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        own = op.resource.key(op.namespace, obj["metadata"].get("name", ""))
        others = [entry.obj.get("spec") or {} for entry in self._cluster.store.list("/services/") if entry.key != own]
        addresses = {address for spec in others for address in spec.get("clusterIPs") or ()}
        rules.allocate_cluster_ip(obj, addresses)

    def _node(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if old is None:
            rules.taint_new_node(obj)

    def _administrator(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        """Access to devices that others use is for namespaces that say so."""
        asked = admin_requests(obj) if old is None else []
        if not asked:
            return
        entry = self._cluster.store.latest(f"/namespaces//{op.namespace}")
        labels = (entry.obj["metadata"].get("labels") or {}) if entry is not None else {}
        if labels.get(ADMIN_LABEL) != "true":
            self._raise(op, obj, [admin_forbidden(path) for path in asked])

    def _objects(self, prefix: str, namespace: str) -> Iterator[Mapping[str, Any]]:
        """Objects of a namespace, each in its newest state even if its write is still in flight."""
        store = self._cluster.store
        for entry in store.list(f"{prefix}{namespace}/"):
            newest = store.latest(entry.key)
            if newest is not None:
                yield newest.obj

    def _book(self, quota: Mapping[str, Any], used: Mapping[str, str]) -> None:
        meta = quota["metadata"]
        status = {**(quota.get("status") or {}), "hard": quota["spec"].get("hard", {}), "used": dict(used)}
        self._cluster.put_quietly(f"/resourcequotas/{meta['namespace']}/{meta['name']}", {**quota, "status": status})

    def _raise(self, op: Operation, obj: Object, errors: list[Any]) -> None:
        if errors:
            raise Invalid(op.resource.group, op.kind.kind, obj["metadata"].get("name", ""), errors)

    def _forbid(self, op: Operation, obj: Object, messages: list[str]) -> None:
        if messages:
            text = messages[0] if len(messages) == 1 else "[" + ", ".join(messages) + "]"
            raise Forbidden(op.resource.group, op.resource.plural, obj["metadata"].get("name", ""), text)


def _may_exceed(op: Operation, obj: Object, old: Mapping[str, Any] | None) -> bool:
    """Whether to look for pod specs with too many entries: small new objects have none, and what stays was looked at."""
    if old is None:
        return len(op.body) > _SMALL
    return any(obj.get(part) != old.get(part) for part in ("spec", "template"))


def _asked_name(obj: Object) -> str:
    """What the object was called when it came: a name of the server's making is news to who asked."""
    meta = obj["metadata"]
    return str(meta.get("generateName") or meta.get("name", ""))


def _protect(obj: Object, finalizer: str) -> None:
    """Storage does not go while it is in use; a controller takes the finalizer off."""
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


__all__ = ["Admission", "ApiError", "NamespaceTerminating"]
