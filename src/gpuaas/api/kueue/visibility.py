"""visibility.kueue.x-k8s.io: the pending workloads of a queue, in order. An aggregated API: computed, never stored.

`pendingworkloads` is a subresource of `clusterqueues` and `localqueues` there; v1beta1 and v1beta2 have one shape.
"""

from typing import Annotated

from msgspec import field

from gpuaas.api.crds import Int32, Part, Resource, StringMap, says

GROUP = "visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
DEFAULT_LIMIT = 1000  # workloads in one answer, unless the query says otherwise (limit, offset)


class PendingOwner(Part):
    api_version: str
    kind: str
    name: str
    uid: str


class PendingMeta(Part):
    name: str
    namespace: str = ""
    creation_timestamp: str | None = None
    owner_references: tuple[PendingOwner, ...] = ()
    labels: StringMap = field(default_factory=dict)


class PendingWorkload(Part):
    """One workload that waits, and where it stands."""

    metadata: PendingMeta
    priority: Int32
    local_queue_name: str
    position_in_cluster_queue: Annotated[Int32, says("Counted from 0.")]
    position_in_local_queue: Annotated[Int32, says("Counted from 0.")]


class PendingWorkloadsSummary(Resource):
    """The workloads that wait in a queue, the next one first."""

    items: tuple[PendingWorkload, ...]
