"""Kueue's webhooks for jobs, as admission plugins of the API server.

A job that names a queue, or must have one, is created suspended; what would slip past its queue is refused, in
upstream's words and under upstream's webhook names. The rules are gpuaas.kueue.integrations'; here they get the
objects they ask for, from the store as it is at this very write.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes.rules.pods import Pod
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.operation import Operation
from gpuaas.assembly.cluster_context import PODS_ON, ClusterContext, Refused, set_label
from gpuaas.assembly.quota_gate import QuotaGate
from gpuaas.base.errors import Denied
from gpuaas.base.fielderrors import FieldError
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS, PODS
from gpuaas.controllers.leader_worker_sets.sets import NAME as SET_NAME
from gpuaas.controllers.leader_worker_sets.sets import add_group_environment, completed
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import keys, leader_worker_set, pod_rules, replicated, rules
from gpuaas.kueue.integrations.integration import CannotCompose, Find, Integration, Suspendable
from gpuaas.kueue.integrations.jobs import annotations_of, is_elastic, queue_of, without_elastic
from gpuaas.kueue.integrations.leader_worker_set import LEADER_WORKER_SET
from gpuaas.kueue.integrations.podsets import spell_amounts
from gpuaas.kueue.integrations.registry import JOB_KINDS
from gpuaas.kueue.integrations.replicated import DEPLOYMENT, STATEFUL_SET, hold_deployment, hold_stateful_set
from gpuaas.kueue.multikueue.adapters import ADAPTERS
from gpuaas.kueue.multikueue.names import CONTROLLER

Old = Mapping[str, Any] | None
_POD = Pod()


def install_job_webhooks(cluster: Cluster, configured: Configured | None = None) -> QuotaGate:
    around = ClusterContext(cluster, configured or Configured())
    for kind in JOB_KINDS:
        hook = JobWebhook(kind, around)
        cluster.admission.register(kind.resource.group, kind.resource.plural, hook.default)
        cluster.admission.register_check(kind.resource.group, kind.resource.plural, hook.validate)
    for held, hold, checks in _SETS:
        sets = SetWebhook(held, hold, checks, around)
        cluster.admission.register(held.resource.group, held.resource.plural, sets.default)
        cluster.admission.register_check(held.resource.group, held.resource.plural, sets.validate)
    cluster.admission.register(PODS.group, PODS.plural, _tell_group)
    cluster.admission.register(LEADER_WORKER_SET.resource.group, LEADER_WORKER_SET.resource.plural, _complete)
    pods = PodWebhook(around)
    cluster.admission.register(PODS.group, PODS.plural, pods.default)
    cluster.admission.register_check(PODS.group, PODS.plural, pods.validate)
    gate = QuotaGate(cluster, around)
    gate.install(cluster)  # after all others: what it books is written
    return gate


def _tell_group(op: Operation, obj: Object, old: Old) -> None:
    if old is None and not op.subresource and SET_NAME in (obj["metadata"].get("labels") or ()):
        obj["metadata"].setdefault("namespace", op.namespace)
        add_group_environment(obj)


def _complete(op: Operation, obj: Object, _: Old) -> None:
    if not op.subresource and obj.get("spec"):
        completed(obj)


class JobWebhook:
    """For the kinds that can be suspended."""

    def __init__(self, kind: Suspendable, around: ClusterContext) -> None:
        self._kind = kind
        self._around = around

    def default(self, op: Operation, obj: Object, old: Old) -> None:
        if op.subresource or old is not None or not obj.get("spec") or not self._is_on:
            return  # without a spec there is nothing to hold, and the schema may say so
        if self._kind.resource is not JOBS:  # whose amounts are read and written by their type
            obj["spec"] = spell_amounts(obj["spec"])  # as upstream's defaulter does, before the schema has its say
        self._around.give_default_queue(obj, op.namespace)
        self._around.give_default_class(obj)
        if self._around.must_wait(obj, op.namespace, f"m{self._kind.webhook}.kb.io"):
            if not self._kind.is_suspended(obj):
                obj.update(self._kind.suspended(obj))
            self._default(obj)
            self._delegate(obj, op.namespace)
        elif self._kind.defaults_all or (is_elastic(obj) and self._is_part(op, obj)):
            self._default(obj)

    def _delegate(self, obj: Object, namespace: str) -> None:
        """One that names no manager, or its kind's own, is MultiKueue's where its queue sends work to other clusters."""
        adapter = ADAPTERS.get(self._kind.framework)
        if adapter is None or not adapter.managed_by or adapter.manager_of(obj) not in ("", adapter.own_manager):
            return
        if self._around.is_dispatched(obj, namespace):
            obj.update(adapter.with_manager(obj, CONTROLLER))

    def _default(self, obj: Object) -> None:
        if self._around.config.elastic or not self._kind.elastic:  # what elastic kinds get they get as elastic jobs
            self._kind.default(obj)

    def _is_part(self, op: Operation, obj: Object) -> bool:
        """Whether it belongs to an elastic job, whose workload stands for it too."""
        ancestor = self._around.ancestor(obj, op.namespace, f"m{self._kind.webhook}.kb.io")
        return ancestor is not None and is_elastic(ancestor[1])

    def validate(self, op: Operation, obj: Object, old: Old) -> None:
        if op.subresource not in ("", "scale") or not obj.get("spec") or (old is not None and not old.get("spec")):
            return
        if not self._is_on:
            return
        kind, find = self._kind, self._around.find
        if not self._around.config.elastic:
            obj, old = without_elastic(obj), None if old is None else without_elastic(old)
        before = old is not None and bool(queue_of(old)) and self._around.config.checks_whoever_was_held
        held = bool(queue_of(obj)) or before or self._around.held(op.namespace)
        if kind.checks_only_held and not held:
            return
        if old is None:
            errors = rules.create_errors(kind, obj) + self._own_errors(obj)
        else:
            default_queue = self._around.default_queue(op.namespace)
            errors = rules.create_errors(kind, obj)
            errors += rules.update_errors(kind, obj, old, default_queue=default_queue)
            errors += kind.update_errors(obj, old, find)
        if errors:
            raise Denied(f"v{kind.webhook}.kb.io", errors)

    def _own_errors(self, obj: Object) -> list[FieldError]:
        try:
            return self._kind.create_errors(obj, self._around.find)
        except CannotCompose as error:
            raise Refused(f"v{self._kind.webhook}.kb.io", str(error)) from error

    @property
    def _is_on(self) -> bool:
        return self._around.config.enables(self._kind.framework)


class SetChecks(NamedTuple):
    """What a kind of set says beyond what all do; `held` to changes of one that is held."""

    new: Callable[[Mapping[str, Any]], list[FieldError]]
    held: Callable[[Mapping[str, Any], Mapping[str, Any], Find], list[FieldError]] = lambda *_: []


_SETS: tuple[tuple[Integration, Callable[[Object], None], SetChecks], ...] = (
    (DEPLOYMENT, hold_deployment, SetChecks(partial(replicated.create_errors, DEPLOYMENT))),
    (
        STATEFUL_SET,
        hold_stateful_set,
        SetChecks(partial(replicated.create_errors, STATEFUL_SET), replicated.held_update_errors),
    ),
    (
        LEADER_WORKER_SET,
        leader_worker_set.hold,
        SetChecks(leader_worker_set.create_errors, leader_worker_set.held_update_errors),
    ),
)


class SetWebhook:
    """For those that cannot be suspended: their pods are held."""

    def __init__(
        self, kind: Integration, hold: Callable[[Object], None], checks: SetChecks, around: ClusterContext
    ) -> None:
        self._kind = kind
        self._hold = hold
        self._checks = checks
        self._around = around

    def default(self, op: Operation, obj: Object, old: Old) -> None:
        if op.subresource or not obj.get("spec") or self._is_others(obj):
            return
        self._around.give_default_queue(obj, op.namespace)
        self._around.give_default_class(obj)
        if self._must_wait(op, obj, "m"):
            self._hold(obj)

    def validate(self, op: Operation, obj: Object, old: Old) -> None:
        if op.subresource not in ("", "scale") or not obj.get("spec") or self._is_others(obj):
            return
        if old is None:
            errors = self._checks.new(obj)
        else:
            errors = replicated.update_errors(self._kind, obj, old)
            if self._must_wait(op, obj, "v"):
                errors += self._checks.held(obj, old, self._around.find)
        if errors:
            raise Denied(f"v{self._kind.webhook}.kb.io", errors)

    def _must_wait(self, op: Operation, obj: Object, part: str) -> bool:
        return self._around.must_wait(obj, op.namespace, f"{part}{self._kind.webhook}.kb.io")

    def _is_others(self, obj: Object) -> bool:
        if not self._around.config.enables(self._kind.framework):
            return True
        return self._kind is STATEFUL_SET and replicated.belongs_to_others(obj)


class PodWebhook:
    def __init__(self, around: ClusterContext) -> None:
        self._around = around

    def default(self, op: Operation, obj: Object, old: Old) -> None:
        if op.subresource or old is not None:
            return
        self._hold(op, obj)
        if obj["spec"].get("schedulingGates"):
            _POD.prepare_create(obj)  # its status says that it is gated

    def _hold(self, op: Operation, obj: Object) -> None:
        if keys.SUSPENDING_PARENT in annotations_of(obj):
            pod_rules.hold(obj, by_parent=True)
            return
        around, namespace = self._around, op.namespace
        if not around.selected(namespace):
            return
        found = around.ancestor(obj, namespace, "mpod.kb.io")
        if found is not None:
            self._hold_for(obj, found)
            return
        if not around.config.enables(PODS_ON):
            return
        if not queue_of(obj) and around.default_queue(namespace):
            set_label(obj, keys.QUEUE, keys.DEFAULT_QUEUE)
        around.give_default_class(obj)
        if queue_of(obj) or around.held(namespace):
            pod_rules.hold(obj, by_parent=False)

    def _hold_for(self, obj: Object, found: tuple[Resource, Object]) -> None:
        """A set whose template does not hold its pods yet (it was made before it had to) must not let them through."""
        resource, parent = found
        if resource not in (DEPLOYMENT.resource, STATEFUL_SET.resource):
            return
        kind = DEPLOYMENT if resource is DEPLOYMENT.resource else STATEFUL_SET
        metadata = obj["metadata"]
        metadata["annotations"] = {**annotations_of(obj), keys.SUSPENDING_PARENT: kind.framework}
        if kind is DEPLOYMENT:
            metadata["labels"] = {**(metadata.get("labels") or {}), **replicated.pod_labels(parent)}
        pod_rules.hold(obj, by_parent=True)

    def validate(self, op: Operation, obj: Object, old: Old) -> None:
        if not (self._around.config.enables(PODS_ON) or keys.SUSPENDING_PARENT in annotations_of(obj)):
            return
        if old is None:
            errors = pod_rules.create_errors(obj)
        elif op.subresource == "resize":
            errors = pod_rules.resize_errors(obj, old) if self._is_admitted(op, obj) else []
        elif op.subresource:
            return
        else:
            default_queue = self._around.default_queue(op.namespace)
            errors = pod_rules.update_errors(obj, old, self._around.find, default_queue=default_queue)
        if errors:
            raise Denied("vpod.kb.io", errors)
        if not op.subresource and (old is None or keys.SUSPENDING_PARENT not in annotations_of(obj)):
            words = pod_rules.warning(obj, owner_managed=self._around.owner_managed(obj))
            if words:
                op.warnings.append(words)

    def _is_admitted(self, op: Operation, obj: Object) -> bool:
        if (obj["metadata"].get("labels") or {}).get(keys.MANAGED) == "true" or keys.WORKLOAD in annotations_of(obj):
            return True
        return self._around.ancestor(obj, op.namespace, "vpod.kb.io") is not None
