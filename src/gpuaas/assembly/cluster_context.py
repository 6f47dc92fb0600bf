"""What the rules of Kueue's webhooks ask about the rest of the cluster: namespaces, queues, owners, the configuration.

Everything is read from the store as it is at this very write, writes in flight included.
"""

from collections.abc import Mapping

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes.rules.jobs import GENERATED_LABELS
from gpuaas.apiserver.cluster import Cluster
from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, PRIORITY_CLASSES
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import NAMESPACES
from gpuaas.kueue.activity import check_names
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.ancestry import OwnerMissing, TooDeep
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.integrations.jobs import priority_class_of, queue_of
from gpuaas.kueue.integrations.registry import kinds_of
from gpuaas.kueue.multikueue.checks import is_ours as is_multikueue
from gpuaas.kueue.quotas import cluster_queue_named
from gpuaas.kueue.resources import ResourceRules

PODS_ON = "pod"  # the integration of pods without an owner; pods of held sets are held without it


class Refused(ApiError):
    """A webhook that could not decide, and so refuses."""

    code, reason = 403, "Forbidden"

    def __init__(self, webhook: str, words: str) -> None:
        super().__init__(f'admission webhook "{webhook}" denied the request: {words}')


class ClusterContext:
    """What the rules ask about the rest of the cluster."""

    def __init__(self, cluster: Cluster, configured: Configured) -> None:
        self._store = cluster.store
        self._configured = configured

    @property
    def config(self) -> JobsConfig:
        """As it is at this very write."""
        return self._configured.now.jobs

    @property
    def resources(self) -> ResourceRules:
        return self._configured.now.resources

    def owner_managed(self, obj: Object) -> bool:
        return kinds_of(self.config.frameworks).owner_managed(obj)

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        where = namespace if resource.namespaced else ""
        entry = self._store.latest(f"{resource.group}/{resource.plural}/{where}/{name}")
        return dict(entry.obj) if entry is not None else None

    def labels(self, namespace: str) -> Mapping[str, str]:
        found = self.find(NAMESPACES, "", namespace)
        return (found["metadata"].get("labels") or {}) if found is not None else {}

    def selected(self, namespace: str) -> bool:
        return self.config.selects(self.labels(namespace))

    def held(self, namespace: str) -> bool:
        """Whether jobs there wait although they name no queue."""
        return self.config.holds_without_queue(self.labels(namespace))

    def default_queue(self, namespace: str) -> bool:
        return self.find(LOCAL_QUEUES, namespace, keys.DEFAULT_QUEUE) is not None

    def ancestor(self, obj: Object, namespace: str, webhook: str) -> tuple[Resource, Object] | None:
        if not obj["metadata"].get("ownerReferences"):
            return None
        try:
            kinds = kinds_of(self.config.frameworks)
            return kinds.ancestor(obj, self.find, without_queue=self.held(namespace))
        except (OwnerMissing, TooDeep) as error:
            raise Refused(webhook, str(error)) from error

    def must_wait(self, obj: Object, namespace: str, webhook: str) -> bool:
        if obj["metadata"].get("deletionTimestamp") or self.ancestor(obj, namespace, webhook) is not None:
            return False
        return bool(queue_of(obj)) or self.held(namespace)

    def is_dispatched(self, obj: Object, namespace: str) -> bool:
        """Whether what waits in its queue runs on other clusters: the ClusterQueue has MultiKueue's check."""
        local = self.find(LOCAL_QUEUES, namespace, queue_of(obj)) if queue_of(obj) else None
        queue = self.find(CLUSTER_QUEUES, "", cluster_queue_named(local)) if local is not None else None
        if queue is None:
            return False
        return any(is_multikueue(self.find(ADMISSION_CHECKS, "", name)) for name in check_names(queue))

    def give_default_queue(self, obj: Object, namespace: str) -> None:
        if queue_of(obj) or not self.default_queue(namespace) or self.owner_managed(obj):
            return
        if self.selected(namespace):
            _drop_taken_over_labels(obj)
            set_label(obj, keys.QUEUE, keys.DEFAULT_QUEUE)

    def give_default_class(self, obj: Object) -> None:
        if not self.config.default_class or priority_class_of(obj) or self.owner_managed(obj):
            return
        if self.find(PRIORITY_CLASSES, "", keys.DEFAULT_CLASS) is not None:
            set_label(obj, keys.PRIORITY_CLASS, keys.DEFAULT_CLASS)


def _drop_taken_over_labels(obj: Object) -> None:
    """A Job without labels shows its pods', and only then: one that gets a queue has a label of its own."""
    template = ((obj.get("spec") or {}).get("template") or {}).get("metadata") or {}
    labels = obj["metadata"].get("labels")
    if labels and labels == template.get("labels"):
        obj["metadata"]["labels"] = {key: value for key, value in labels.items() if key not in GENERATED_LABELS}


def set_label(obj: Object, key: str, value: str) -> None:
    metadata = obj["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), key: value}
