"""Kueue's webhooks for jobs, as admission plugins of the API server.

A job that names a queue, or must have one, is created suspended; what would slip past its queue is refused, in
upstream's words and under upstream's webhook names. The rules are gpuaas.admission.integrations'; here they get the
objects they ask for, from the store as it is at this very write.
"""

from collections.abc import Mapping
from typing import Any

from gpuaas.admission.integrations import keys, rules
from gpuaas.admission.integrations.ancestry import OwnerMissing, TooDeep
from gpuaas.admission.integrations.config import JobsConfig
from gpuaas.admission.integrations.integration import Integration
from gpuaas.admission.integrations.jobs import queue_of
from gpuaas.admission.integrations.registry import JOB_KINDS, KINDS
from gpuaas.api.kinds import Object
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.operation import Operation
from gpuaas.base.errors import ApiError, Denied
from gpuaas.client.kueue import LOCAL_QUEUES
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import NAMESPACES

Old = Mapping[str, Any] | None


def install_job_webhooks(cluster: Cluster, config: JobsConfig | None = None) -> None:
    around = Surroundings(cluster, config or JobsConfig())
    for kind in JOB_KINDS:
        hook = JobWebhook(kind, around)
        cluster.admission.register(kind.resource.group, kind.resource.plural, hook.default)
        cluster.admission.register_check(kind.resource.group, kind.resource.plural, hook.validate)


class Refused(ApiError):
    """A webhook that could not decide, and so refuses."""

    code, reason = 403, "Forbidden"

    def __init__(self, webhook: str, words: str) -> None:
        super().__init__(f'admission webhook "{webhook}" denied the request: {words}')


class Surroundings:
    """What the rules ask about the rest of the cluster."""

    def __init__(self, cluster: Cluster, config: JobsConfig) -> None:
        self._store = cluster.store
        self._config = config

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        where = namespace if resource.namespaced else ""
        entry = self._store.latest(f"{resource.group}/{resource.plural}/{where}/{name}")
        return dict(entry.obj) if entry is not None else None

    def labels(self, namespace: str) -> Mapping[str, str]:
        found = self.find(NAMESPACES, "", namespace)
        return (found["metadata"].get("labels") or {}) if found is not None else {}

    def selected(self, namespace: str) -> bool:
        return self._config.selects(self.labels(namespace))

    def held(self, namespace: str) -> bool:
        """Whether jobs there wait although they name no queue."""
        return self._config.holds_without_queue(self.labels(namespace))

    def default_queue(self, namespace: str) -> bool:
        return self.find(LOCAL_QUEUES, namespace, keys.DEFAULT_QUEUE) is not None

    def has_managed_ancestor(self, obj: Object, namespace: str, webhook: str) -> bool:
        try:
            found = KINDS.ancestor(obj, self.find, without_queue=self.held(namespace))
        except (OwnerMissing, TooDeep) as error:
            raise Refused(webhook, str(error)) from error
        return found is not None

    def must_wait(self, obj: Object, namespace: str, webhook: str) -> bool:
        if obj["metadata"].get("deletionTimestamp") or self.has_managed_ancestor(obj, namespace, webhook):
            return False
        return bool(queue_of(obj)) or self.held(namespace)

    def give_default_queue(self, obj: Object, namespace: str) -> None:
        if queue_of(obj) or not self.default_queue(namespace) or KINDS.owner_managed(obj):
            return
        if self.selected(namespace):
            set_label(obj, keys.QUEUE, keys.DEFAULT_QUEUE)


class JobWebhook:
    """For the kinds that can be suspended."""

    def __init__(self, kind: Integration, around: Surroundings) -> None:
        self._kind = kind
        self._around = around

    def default(self, op: Operation, obj: Object, old: Old) -> None:
        if op.subresource or old is not None:
            return
        self._around.give_default_queue(obj, op.namespace)
        if self._around.must_wait(obj, op.namespace, f"m{self._kind.webhook}.kb.io"):
            if not self._kind.is_suspended(obj):
                obj.update(self._kind.suspended(obj))
            self._kind.default(obj)

    def validate(self, op: Operation, obj: Object, old: Old) -> None:
        kind, find = self._kind, self._around.find
        held = bool(queue_of(obj)) or (old is not None and bool(queue_of(old))) or self._around.held(op.namespace)
        if kind.checks_only_held and not held:
            return
        if old is None:
            errors = rules.create_errors(kind, obj) + kind.create_errors(obj, find)
        else:
            default_queue = self._around.default_queue(op.namespace)
            errors = rules.create_errors(kind, obj)
            errors += rules.update_errors(kind, obj, old, default_queue=default_queue)
            errors += kind.update_errors(obj, old, find)
        if errors:
            raise Denied(f"v{kind.webhook}.kb.io", errors)


def set_label(obj: Object, key: str, value: str) -> None:
    metadata = obj["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), key: value}
