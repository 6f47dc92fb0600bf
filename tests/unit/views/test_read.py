"""Where rows come from: the server that computes them, else its lists, of which only what is shown is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.unit.views.objects import cluster_queue, local_queue, node, pod, workload

from gpuaas.base.errors import ApiError, Forbidden, Internal, NotFound, PageNotFound
from gpuaas.client.http import HttpClient
from gpuaas.client.kueue import CLUSTER_QUEUES, GROUP, LOCAL_QUEUES, WORKLOADS
from gpuaas.client.protocol import Listing, Resource
from gpuaas.client.resources import NODES, PODS
from gpuaas.views import read

OBJECTS: dict[Resource, list[dict[str, Any]]] = {
    WORKLOADS: [workload("a"), workload("b", "other"), workload("over", conditions=("Finished:Succeeded",))],
    LOCAL_QUEUES: [local_queue("lq", "cq"), local_queue("lq", "cq", "other")],
    CLUSTER_QUEUES: [cluster_queue("cq"), cluster_queue("unused")],
    NODES: [node("n1"), node("n2")],
    PODS: [pod("p", on="n1")],
}
NOT_SERVED = PageNotFound()
RBAC_FIRST = Forbidden("views.gpuaas.dev", "jobs", "", "no")


class Cluster:
    """Lists in pages of two; `answer` is what it has to say about views."""

    def __init__(self, answer: ApiError | dict[str, Any], *refused: Resource) -> None:
        self.access = SimpleNamespace(server="https://test")
        self.answer, self.refused = answer, refused
        self.asked: Counter[str] = Counter()

    async def raw(self, _method: str, path: str) -> bytes:
        self.asked["views"] += 1
        if isinstance(self.answer, ApiError):
            raise self.answer
        return msgspec.json.encode(self.answer)

    async def list(
        self, resource: Resource, namespace: str = "", *, limit: int = 0, continue_: str = "", outline: bool = False
    ) -> Listing:
        self.asked[resource.plural + " outlines" * outline] += 1
        if resource in self.refused and not namespace:
            raise Forbidden(resource.group, resource.plural, "", "no")
        found = [each for each in OBJECTS.get(resource, ()) if namespace in ("", each["metadata"].get("namespace"))]
        start = int(continue_ or 0)
        more = str(start + 2) if start + 2 < len(found) else ""
        return Listing(found[start : start + 2], "1", more)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        raise NotFound(resource.group, resource.plural, name)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    read._without.clear()
    yield
    read._without.clear()


def jobs(cluster: Cluster, **more: Any) -> Any:
    rows, elsewhere = asyncio.run(read.jobs(cast("HttpClient", cluster), "ns", **more))
    return [row.workload for row in rows], elsewhere


@pytest.mark.parametrize("refusal", [NOT_SERVED, RBAC_FIRST], ids=["no such path", "RBAC before the path"])
def test_a_server_without_views_is_asked_once_and_its_lists_are_read(refusal: ApiError) -> None:
    cluster = Cluster(refusal)
    assert jobs(cluster) == (["over", "a"], 1)
    assert jobs(cluster, finished=False, everywhere=True) == (["a", "b"], 0)
    assert cluster.asked["views"] == 1


def test_a_server_with_views_is_asked_for_nothing_else() -> None:
    cluster = Cluster({"items": [], "elsewhere": 4, "metadata": {"continue": ""}})
    assert jobs(cluster) == ([], 4)
    assert cluster.asked == {"views": 1}


def test_without_rights_there_are_no_rows() -> None:
    assert jobs(Cluster(Forbidden(GROUP, "workloads", "", "no"))) == ([], 0)


def test_what_else_goes_wrong_is_not_hidden() -> None:
    with pytest.raises(Internal):
        jobs(Cluster(Internal("broken")))


def test_a_user_of_one_namespace_reads_the_lists_of_that_one() -> None:
    assert jobs(Cluster(NOT_SERVED, WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES), everywhere=True) == (["a", "over"], 0)


READS: dict[str, tuple[Any, set[str]]] = {
    "ps": (lambda client: read.jobs(client, "ns"), {"workloads", "localqueues", "clusterqueues", "resourceflavors"}),
    "queues": (read.queues, {"clusterqueues", "resourceflavors"}),
    "queues -n": (lambda client: read.queues(client, "ns"), {"clusterqueues", "localqueues", "resourceflavors"}),
    "gpus": (read.gpus, {"nodes", "pods"}),
    "run": (read.node_types, {"nodes outlines"}),
}


@pytest.mark.parametrize(("ask", "lists"), READS.values(), ids=READS)
def test_only_what_is_shown_is_read(ask: Any, lists: set[str]) -> None:
    cluster = Cluster(NOT_SERVED)
    assert asyncio.run(ask(cluster))
    assert set(cluster.asked) - {"views"} == lists


def test_places_in_queues_are_the_engines() -> None:
    rows, _ = asyncio.run(read.jobs(cast("HttpClient", Cluster(NOT_SERVED)), "ns", everywhere=True))
    assert {row.workload: row.position for row in rows} == {"a": 1, "b": 2, "over": None}


def test_without_a_right_to_pods_nothing_is_said_of_what_is_used() -> None:
    (row,) = asyncio.run(read.gpus(cast("HttpClient", Cluster(NOT_SERVED, PODS))))
    assert (row.total, row.used, row.free) == (8, None, None)


@pytest.mark.parametrize(
    "answer", [NOT_SERVED, NotFound("views.gpuaas.dev", "jobs", "x"), Forbidden(GROUP, "workloads", "", "no")]
)
def test_a_reason_that_the_server_has_not_is_looked_for_elsewhere(answer: ApiError) -> None:
    assert asyncio.run(read.why(cast("HttpClient", Cluster(answer)), "ns", "x", "")) is None
