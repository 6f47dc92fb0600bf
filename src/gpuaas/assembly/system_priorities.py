"""The system priority classes are for system namespaces: with them a tenant's pods would go before everybody's.

Pods, and whatever becomes pods (its templates give workloads their priority in the queue, too), may name
`system-cluster-critical` and `system-node-critical` in a system namespace, and where a ResourceQuota is scoped to the
class: Kubernetes limits them so where its ResourceQuota admission is configured as its documentation advises.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes.quota_usage import is_for_priority_class
from gpuaas.api.kubernetes.rules.duties import SYSTEM_CLASSES
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.operation import Operation
from gpuaas.assembly.runtime_classes import POD_MAKERS
from gpuaas.base.errors import Forbidden

SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "kueue-system")
_FIELDS: Final = ("priorityClassName", "priorityClass")
_SAID: Final = tuple(f'"{name}"'.encode() for name in SYSTEM_CLASSES)


def install_system_priorities(cluster: Cluster) -> None:
    rule = _Rule(cluster)
    for group, plural in POD_MAKERS:
        cluster.admission.register_check(group, plural, rule.check)


class _Rule:
    def __init__(self, cluster: Cluster) -> None:
        self._store = cluster.store

    def check(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        if op.subresource or op.namespace in SYSTEM_NAMESPACES:
            return
        # Every write of these kinds is asked, and hardly any names one: its encoded form is looked through faster.
        parts = {key: value for key, value in obj.items() if key in ("spec", "template")}
        raw = encode(parts)
        if not any(said in raw for said in _SAID):
            return
        before = dict(_named("", old)) if old is not None else {}
        for path, name in _named("", parts):
            if before.get(path) != name and not self._has_quota(op.namespace, name):
                raise Forbidden(
                    op.resource.group, op.resource.plural, obj["metadata"].get("name", ""), _words(op, path, name)
                )

    def _has_quota(self, namespace: str, name: str) -> bool:
        quotas = self._store.list(f"/resourcequotas/{namespace}/")
        return any(is_for_priority_class(entry.obj, name) for entry in quotas)


def _words(op: Operation, path: str, name: str) -> str:
    system = ", ".join(SYSTEM_NAMESPACES)
    return (
        f"{path}: pods with {name} priorityClass is not permitted in {op.namespace} namespace; it is allowed in {system}, "
        "and in a namespace with a ResourceQuota whose scope selects the class"
    )


def _named(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Where system classes are named, and which."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key in _FIELDS and isinstance(part, str):
                if part in SYSTEM_CLASSES:
                    yield _at(path, key), part
            else:
                yield from _named(_at(path, key), part)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _named(f"{path}[{index}]", part)


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
