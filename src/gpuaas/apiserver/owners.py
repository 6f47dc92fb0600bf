"""Who owns a workload: decided when it is created, kept by every later write.

A new object of an owned kind gets the annotation `gpuaas.dev/owner` (module gpuaas.api.owner):
1. The name of the authenticated user (after impersonation). What the client wrote there is replaced, with a warning.
2. From a requester with the verb `set-owner` on the resource (cluster administrators and our own controllers have it,
   the roles admin and edit do not): the owner of what an ownerReference names, the controller first. So pods,
   Workloads and child Jobs carry the name of who created the job, and a reference that a tenant forges inherits
   nothing, because a tenant may not set owners. An annotation beside a reference is not read: controllers copy it from
   templates, which tenants write.
3. From such a requester and without references: the annotation, where there is one.

Afterwards it does not change: `keep` puts the stored value back into every write, whatever its form (update, patch,
apply, a status). The write goes on with a warning; to refuse it would make the second `kubectl apply` of a manifest
fail whose first one passed. An object from before owners were kept gets one only from who may set it.

The cost is a lookup by kind for every write, for owned kinds one of an annotation, and for a child one of its parent.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gpuaas.api.kinds import Object
from gpuaas.api.owner import OWNER, owner_named
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.security.identity import Asked, Attributes, User
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CRON_JOBS, DAEMON_SETS, PODS, REPLICATION_CONTROLLERS
from gpuaas.kueue.integrations.registry import KINDS

if TYPE_CHECKING:
    from gpuaas.apiserver.cluster import Cluster

VERB: Final = "set-owner"
_KSERVE: Final = Resource("serving.kserve.io", "v1beta1", "inferenceservices", True, "InferenceService")
OWNED: Final = (*KINDS.resources, PODS, WORKLOADS, CRON_JOBS, DAEMON_SETS, REPLICATION_CONTROLLERS, _KSERVE)
"""Every kind that Kueue can hold, what may create such objects, and what runs for them; in any version."""
_PLURALS: Final = {(each.group, each.kind): each.plural for each in OWNED}
_OWNED: Final = frozenset((each.group, each.plural) for each in OWNED)
View = Mapping[str, Any]


class Owners:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self.allows: Callable[[User, Attributes], bool] = lambda _user, _asked: False
        """Whether RBAC lets a user do what is asked; the cluster's access sets it."""

    def of_new(self, op: Operation, obj: Object) -> str | None:
        """The owner of an object about to be created; "" where it stays unknown, None where its kind has none."""
        if (op.resource.group, op.resource.plural) not in _OWNED:
            return None
        said, references = owner_named(obj), obj["metadata"].get("ownerReferences") or ()
        if not references and said in ("", op.user.name):
            return op.user.name
        if not self._may_set(op):
            if said not in ("", op.user.name):
                op.warnings.append(_not_taken(op, said, op.user.name))
            return op.user.name
        if not references:
            return said or op.user.name
        above = self._inherited(op, references)
        return op.user.name if above is None else above

    def keep(self, op: Operation, obj: Object, old: View) -> None:
        """The stored owner back into an object that is about to replace `old`."""
        if (op.resource.group, op.resource.plural) not in _OWNED:
            return
        said, stored = owner_named(obj), owner_named(old)
        if said == stored or (not stored and self._may_set(op)):
            return
        if said:
            op.warnings.append(_not_taken(op, said, stored))
        put(obj, stored)

    def _inherited(self, op: Operation, references: list[View]) -> str | None:
        """From the controller, or else the first owner; None where that is of no owned kind."""
        chosen = next((each for each in references if each.get("controller")), references[0])
        group, _, version = str(chosen.get("apiVersion", "")).rpartition("/")
        plural = _PLURALS.get((group, str(chosen.get("kind", ""))))
        found = None if plural is None else self._cluster.catalogue.find(group, version, plural)
        if found is None:
            return None
        entry = self._cluster.store.latest(found[0].key(op.namespace, str(chosen.get("name", ""))))
        if entry is None or entry.obj["metadata"].get("uid") != chosen.get("uid"):
            return ""  # it has gone; so will this
        return owner_named(entry.obj)

    def _may_set(self, op: Operation) -> bool:
        group, plural = op.resource.group, op.resource.plural
        return self.allows(op.user, Asked(VERB, group, plural, namespace=op.namespace, name=op.name))


def put(obj: Object, owner: str) -> None:
    """Sets the annotation; takes it away for ""."""
    meta = obj["metadata"]
    if owner_named(obj) == owner:
        return
    annotations = {**(meta.get("annotations") or {}), OWNER: owner}
    if not owner:
        del annotations[OWNER]
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)


def _not_taken(op: Operation, said: str, kept: str) -> str:
    resource = f"{op.resource.plural}.{op.resource.group}" if op.resource.group else op.resource.plural
    return (
        f'metadata.annotations[{OWNER}]: "{said[:100]}" is not taken: the owner is "{kept}"; a new object\'s is the user who'
        f' creates it, another may be set on create with the verb "{VERB}" on {resource}'
    )
