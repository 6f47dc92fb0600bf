"""Pod security as the server asks for it: pods are refused or warned of, templates of pods warned of, and a namespace
that gets stricter is told of the pods it has. What is against which standard is the api room's."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes import pod_security as rules
from gpuaas.apiserver.operation import Operation
from gpuaas.base.errors import Forbidden, Invalid

if TYPE_CHECKING:
    from gpuaas.apiserver.admission import Admission
    from gpuaas.apiserver.cluster import Cluster

_ASKED = ("", "ephemeralcontainers", "resize")  # the ways to a pod on which its containers can change
_WITH_TEMPLATES = {
    "": ("podtemplates", "replicationcontrollers"),
    "apps": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "batch": ("cronjobs", "jobs"),
}


class PodSecurity:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def register(self, admission: "Admission") -> None:
        admission.register_check("", "pods", self._pod)
        admission.register_check("", "namespaces", self._namespace)
        for group, plurals in _WITH_TEMPLATES.items():
            for plural in plurals:
                admission.register_check(group, plural, self._template)

    def _pod(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        policy = self._policy(op)
        if policy is None or op.subresource not in _ASKED or (old is not None and not rules.is_significant(obj, old)):
            return
        found = rules.violations(policy.enforce, obj["metadata"], obj["spec"])
        if found:
            text = f'violates PodSecurity "{policy.enforce}": {rules.told(found)}'
            raise Forbidden("", "pods", obj["metadata"].get("name", ""), text)
        self._warn(op, policy, obj["metadata"], obj["spec"])

    def _template(self, op: Operation, obj: Object, _old: Mapping[str, Any] | None) -> None:
        policy = self._policy(op)
        if policy is None or op.subresource:
            return
        spec = obj if op.resource.plural == "podtemplates" else obj["spec"]
        spec = spec["jobTemplate"]["spec"] if op.resource.plural == "cronjobs" else spec
        template = spec.get("template") or {}
        self._warn(op, policy, template.get("metadata") or {}, template.get("spec") or {})

    def _warn(self, op: Operation, policy: rules.Policy, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        if found := rules.violations(policy.warn, metadata, spec):
            op.warnings.append(f'would violate PodSecurity "{policy.warn}": {rules.told(found)}')

    def _namespace(self, op: Operation, obj: Object, old: Mapping[str, Any] | None) -> None:
        name = obj["metadata"].get("name", "")
        policy, errors = rules.policy_of(obj["metadata"].get("labels"))
        before, old_errors = rules.policy_of(old["metadata"].get("labels")) if old is not None else (rules.Policy(), [])
        if op.subresource:
            return
        if errors and (old is None or errors != old_errors):
            raise Invalid("", "Namespace", name, errors)
        if old is not None and rules.is_stricter(policy.enforce, before.enforce):
            pods = (entry.obj for entry in self._cluster.store.list(f"/pods/{name}/"))
            op.warnings.extend(rules.warnings_of_pods(name, policy.enforce, pods))

    def _policy(self, op: Operation) -> rules.Policy | None:
        """What the namespace says; nothing where it says nothing, as most do."""
        entry = self._cluster.store.latest(f"/namespaces//{op.namespace}")
        labels = (entry.obj["metadata"].get("labels") or {}) if entry is not None else {}
        if len(labels) < 2 or not any(key.startswith(rules.PREFIX) for key in labels):
            return None
        return rules.policy_of(labels)[0]
