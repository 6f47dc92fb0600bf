"""Rows made from lists: for a real cluster, or any server that does not serve `views.gpuaas.dev`.

Each function lists what its rows are made of and no more, in pages, and feeds a `Snapshot` object by object, so that of
a page of Workloads only rows remain. Places in queues need an engine that knows the queues and what waits in them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import NODES, PODS
from gpuaas.kueue.explain.snapshot import Picture, engine_of
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.views.configured import configuration
from gpuaas.views.jobs import JobFilter, Positions
from gpuaas.views.rows import FreeRow, GpuRow, JobRow, NodeTypes, QueueRow
from gpuaas.views.snapshot import BETWEEN, Snapshot

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

_PAGE = 500  # objects in one answer of the server


async def paged(client: HttpClient, resource: Resource, namespace: str = "") -> AsyncIterator[Object]:
    token = ""
    while True:
        found = await client.list(resource, namespace, limit=_PAGE, continue_=token)
        for obj in found.items:
            yield obj
        token = found.continue_
        if not token:
            return


async def visible(
    client: HttpClient, resource: Resource, namespace: str = "", take: Callable[[Object], None] | None = None
) -> list[Object]:
    """All of them, or those of the namespace where only these can be seen; none where not even these can. With `take`
    they are handed over one by one, and not kept."""
    found: list[Object] = []
    for where in dict.fromkeys(("", namespace)) if resource.namespaced else ("",):
        try:
            async for obj in paged(client, resource, where):
                (take or found.append)(obj)
            break
        except ApiError as error:
            if error.code == 404 and resource is not WORKLOADS:  # without those there are no jobs to speak of
                break
            if error.code != 403:
                raise
    return found


async def jobs(
    client: HttpClient,
    namespace: str,
    *,
    everywhere: bool,
    finished: bool = True,
    nodes: bool = False,
    owner: str = "",
) -> tuple[list[JobRow], int]:
    """Rows of the namespace or of all that can be seen; and how many unfinished jobs other namespaces have."""
    snapshot, picture = Snapshot(), Picture()

    def take(workload: Object) -> None:
        snapshot.take_all(WORKLOADS, [workload])
        if is_waiting(workload):
            picture.workloads.append(_outlined(workload))

    picture.local_queues = await visible(client, LOCAL_QUEUES, namespace)
    picture.cluster_queues = await visible(client, CLUSTER_QUEUES)
    snapshot.take_all(LOCAL_QUEUES, picture.local_queues)
    snapshot.take_all(RESOURCE_FLAVORS, await visible(client, RESOURCE_FLAVORS))
    await visible(client, WORKLOADS, namespace, take)
    if nodes:
        for resource in (PODS, *BETWEEN):
            snapshot.take_all(resource, await _of_namespace(client, resource, "" if everywhere else namespace))
    positions = await _positions(client, picture)
    rows: list[JobRow] = []
    token = ""
    wanted = JobFilter(None if everywhere else (namespace,), finished, owner=owner)
    while True:
        nodes_of = snapshot.places.nodes_of if nodes else None
        page = snapshot.jobs.listed(wanted, positions, token=token, nodes_of=nodes_of)
        rows += page.rows
        token = page.continue_
        if not token:
            return rows, 0 if everywhere else snapshot.jobs.unfinished_elsewhere(namespace)


async def queues(client: HttpClient, namespace: str) -> list[QueueRow]:
    """Of all ClusterQueues, or of those that the namespace has a LocalQueue for."""
    snapshot = Snapshot()
    if namespace:
        snapshot.take_all(LOCAL_QUEUES, [obj async for obj in paged(client, LOCAL_QUEUES, namespace)])
    snapshot.take_all(CLUSTER_QUEUES, [obj async for obj in paged(client, CLUSTER_QUEUES)])
    snapshot.take_all(RESOURCE_FLAVORS, await visible(client, RESOURCE_FLAVORS))
    return snapshot.queues.listed(snapshot.queues.of_namespace(namespace) if namespace else None)


async def gpus(client: HttpClient) -> list[GpuRow]:
    """Without what is in use for a user who may not see all pods."""
    snapshot = Snapshot()
    async for node in paged(client, NODES):
        snapshot.take(NODES, "", node["metadata"]["name"], node)
    usage = True
    try:
        async for pod in paged(client, PODS):
            snapshot.take(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], pod)
    except ApiError as error:
        if error.code != 403:
            raise
        usage = False
    return snapshot.gpus.listed(usage=usage)


async def free(client: HttpClient, namespace: str) -> list[FreeRow]:
    """For one who may see all nodes and pods, by way of the namespace's queues: whether a user may submit elsewhere
    would be a question for each namespace."""
    snapshot, picture = Snapshot(), Picture(partial=frozenset(("workloads",)))
    for resource in (NODES, PODS):
        async for obj in paged(client, resource):
            snapshot.take(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"], obj)
    picture.flavors = await visible(client, RESOURCE_FLAVORS)
    picture.cohorts = await visible(client, COHORTS)
    picture.cluster_queues = await visible(client, CLUSTER_QUEUES)
    picture.checks = await visible(client, ADMISSION_CHECKS)
    picture.topologies = await visible(client, TOPOLOGIES)
    snapshot.take_all(RESOURCE_FLAVORS, picture.flavors)
    snapshot.take_all(LOCAL_QUEUES, await _of_namespace(client, LOCAL_QUEUES, namespace))
    engine = engine_of(picture)  # usage is what the queues' statuses say
    return snapshot.free(lambda _: True, engine.left)


async def node_types(client: HttpClient) -> NodeTypes:
    """From the nodes' labels alone."""
    snapshot, token = Snapshot(), ""
    while True:
        found = await client.list(NODES, limit=_PAGE, continue_=token, outline=True)
        snapshot.take_all(NODES, found.items)
        token = found.continue_
        if not token:
            return snapshot.gpus.types()


async def _of_namespace(client: HttpClient, resource: Resource, namespace: str) -> list[Object]:
    try:
        return [obj async for obj in paged(client, resource, namespace)]
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return []


async def _positions(client: HttpClient, picture: Picture) -> Positions:
    """As an engine orders what waits: by priority, time, and where Kueue is configured so, by what queues used."""
    picture.configuration = await configuration(client)
    return {
        item.key: place
        for queue in engine_of(picture).forest.queues.values()
        for place, item in enumerate(queue.pending.ordered(), 1)
    }


def is_waiting(workload: Object) -> bool:
    conditions = conditions_of(workload)
    return not is_true(conditions.get("Finished")) and not is_true(conditions.get("QuotaReserved"))


def _outlined(workload: Object) -> Object:
    """What its place in a queue depends on, which is not what its pods are."""
    metadata = {key: value for key, value in workload["metadata"].items() if key != "managedFields"}
    return {**workload, "metadata": metadata, "spec": {**(workload.get("spec") or {}), "podSets": []}}
