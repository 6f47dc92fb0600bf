"""Runtime classes at admission: where their pods may run, and who may use the one that starts real processes.

A user who may write a pod, or anything that becomes pods, could otherwise run programs as the person who started gpuaas.
So every object that names the class `gpuaas-process` anywhere in its spec needs the verb `use` on it, given by the
cluster role gpuaas-process-user. Controllers act for objects that were checked when people wrote them.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from gpuaas.api.kinds import Object
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.security.identity import Asked
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.base.errors import AlreadyExists, Forbidden, NotFound
from gpuaas.client.protocol import Client, Resource
from gpuaas.nodefit.names import EXECUTOR, PROCESS_CLASS, PROCESS_TAINT

Old = Mapping[str, Any] | None

_SAID: Final = f'"runtimeClassName":"{PROCESS_CLASS}"'.encode()
ROLE: Final = "gpuaas-process-user"
_GROUP: Final = "node.k8s.io"
_PROFILE: Final = "opendatahub.io/hardware-profile-name"
_WARNED: Final = 4  # limits; a header has no room for thousands
_CLASSES: Final = Resource(_GROUP, "v1", "runtimeclasses", False, "RuntimeClass")
_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole")
POD_MAKERS: Final = (
    ("", "pods"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("jobset.x-k8s.io", "jobsets"),
    ("kubeflow.org", "mpijobs"),
    ("kubeflow.org", "notebooks"),
    ("kubeflow.org", "paddlejobs"),
    ("kubeflow.org", "pytorchjobs"),
    ("kubeflow.org", "tfjobs"),
    ("kubeflow.org", "xgboostjobs"),
    ("kubeflow.org", "jaxjobs"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("ray.io", "rayclusters"),
    ("ray.io", "rayjobs"),
    ("ray.io", "rayservices"),
    ("trainer.kubeflow.org", "clustertrainingruntimes"),
    ("trainer.kubeflow.org", "trainingruntimes"),
    ("trainer.kubeflow.org", "trainjobs"),
    ("workload.codeflare.dev", "appwrappers"),
    ("serving.kserve.io", "inferenceservices"),
)
"""The kinds (group, plural) that become pods here."""


def install_runtime_classes(cluster: Cluster, rbac: Rbac) -> None:
    """Before the first request: no request may bypass it while the rest is still starting."""
    rules = _Rules(cluster, rbac)
    for group, plural in POD_MAKERS:
        cluster.admission.register(group, plural, rules.may_use)
        cluster.admission.register_check(group, plural, _warn)
    cluster.admission.register("", "pods", rules.place)


async def furnish_process_class(client: Client) -> None:
    """The class itself, and the role that allows it."""
    process_class = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": PROCESS_CLASS},
        "handler": PROCESS_CLASS,
        "scheduling": {
            "nodeSelector": {EXECUTOR: "process"},
            "tolerations": [{"key": PROCESS_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
    rule = {"apiGroups": [_GROUP], "resources": ["runtimeclasses"], "resourceNames": [PROCESS_CLASS], "verbs": ["use"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [rule],
    }
    for resource, obj in ((_CLASSES, process_class), (_ROLES, role)):
        try:
            await client.create(resource, obj)
        except AlreadyExists:
            continue


def has_process_class(cluster: Cluster) -> bool:
    return cluster.store.get(f"{_GROUP}/runtimeclasses//{PROCESS_CLASS}") is not None


async def withdraw_process_class(client: Client) -> bool:
    """Removes the class where no node runs processes; returns whether it existed."""
    try:
        await client.delete(_CLASSES, PROCESS_CLASS)
    except NotFound:
        return False
    return True


class _Rules:
    def __init__(self, cluster: Cluster, rbac: Rbac) -> None:
        self._store = cluster.store
        self._rbac = rbac

    def may_use(self, op: Operation, obj: Object, old: Old) -> None:
        if op.in_process or op.subresource or not _names_class(obj.get("spec")):
            return
        if old is not None and _names_class(old.get("spec")) and obj.get("spec") == old.get("spec"):
            return  # only its metadata changes: what it runs was checked when it was written
        asked = Asked("use", _GROUP, "runtimeclasses", namespace=op.namespace, name=PROCESS_CLASS)
        if self._rbac.authorize(op.user, asked).allowed:
            return
        name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "")
        why = (
            f'user "{op.user.name}" may not use runtime class "{PROCESS_CLASS}", whose pods are processes on this '
            f"machine; an administrator can allow it with cluster role {ROLE}"
        )
        raise Forbidden(op.resource.group, op.resource.plural, name, why)

    def place(self, op: Operation, obj: Object, old: Old) -> None:
        """The node selector and the tolerations of a pod's runtime class become its own."""
        name = obj["spec"].get("runtimeClassName")
        if op.subresource or old is not None or not name:
            return
        entry = self._store.latest(f"{_GROUP}/runtimeclasses//{name}")
        scheduling = (entry.obj.get("scheduling") or {}) if entry is not None else {}
        if not scheduling:
            return
        spec = obj["spec"]
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.setdefault(key, value) != value:
                why = (
                    f"pod rejected: conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}"
                )
                raise Forbidden("", "pods", obj["metadata"].get("name", ""), why)
        if selector:
            spec["nodeSelector"] = selector
        known = list(spec.get("tolerations") or ())
        spec["tolerations"] = [*known, *(dict(one) for one in scheduling.get("tolerations") or () if one not in known)]


def _names_class(value: Any) -> bool:
    """Whether a `runtimeClassName` anywhere within says ours: wherever a kind keeps its templates."""
    # Every write of these kinds is asked, and hardly any says so: its encoded form is looked through much faster.
    return _SAID in encode(value) and _says(value)


def _says(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get("runtimeClassName") == PROCESS_CLASS or any(map(_says, value.values()))
    return isinstance(value, list) and any(map(_says, value))


def _warn(op: Operation, obj: Object, old: Old) -> None:
    """Of limits that nothing on a process node enforces; for a person, when it is submitted."""
    spec = obj.get("spec")
    if op.in_process or op.subresource or not _names_class(spec) or (old is not None and old.get("spec") == spec):
        return
    if _PROFILE in (obj["metadata"].get("annotations") or {}):
        return  # its limits are the profile's: its author chose an amount of hardware, not limits
    found = (warning for pod in _process_pods(spec) for warning in _not_enforced(pod))
    op.warnings.extend(islice(found, _WARNED))


def _not_enforced(pod: Mapping[str, Any]) -> Iterator[str]:
    containers = pod.get("containers")
    for container in containers if isinstance(containers, list) else ():
        limits = (container.get("resources") or {}).get("limits") or {} if isinstance(container, Mapping) else {}
        for name in ("cpu", "memory"):
            if name in limits:
                yield (
                    f"container {container.get('name')}: resources.limits.{name} is not enforced: pods of runtime class "
                    f"{PROCESS_CLASS} are plain processes, limited only by this machine"
                )


def _process_pods(value: Any) -> Iterator[Mapping[str, Any]]:
    """The specs of pods within that name our class."""
    if isinstance(value, Mapping):
        if value.get("runtimeClassName") == PROCESS_CLASS:
            yield value
        else:
            for each in value.values():
                yield from _process_pods(each)
    elif isinstance(value, list):
        for each in value:
            yield from _process_pods(each)
