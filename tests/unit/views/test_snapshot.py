"""However objects arrive, the rows are those of the objects that are there."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.views.objects import cluster_queue, flavor, local_queue, node, pod, workload

from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import NODES, PODS, REPLICA_SETS
from gpuaas.views.jobs import JobFilter
from gpuaas.views.snapshot import Snapshot

NAMES = st.sampled_from("abc")
SPACES = st.sampled_from(("ns", "other"))
UIDS = st.sampled_from(("", "uid-of-train", "rs-a", "uid-ns-a"))
CONDITIONS = st.lists(st.sampled_from(("QuotaReserved", "Admitted", "PodsReady", "Finished:Failed", "Evicted")))


def replica_set(name: str, namespace: str, owner: str) -> dict[str, Any]:
    references = [{"uid": owner}] if owner else []
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"rs-{name}", "ownerReferences": references}}


OBJECTS = st.one_of(
    st.tuples(
        st.just(WORKLOADS),
        st.builds(
            workload, NAMES, SPACES, gpus=st.integers(0, 3), queue=NAMES, conditions=CONDITIONS,
            owner=st.sampled_from(("", "train")), admitted=st.sampled_from(("", "a")),
            at=st.sampled_from(("2026-11-15T12:00:00Z", "2026-11-15T12:00:01Z")),
        ),
    ),
    st.tuples(st.just(LOCAL_QUEUES), st.builds(local_queue, NAMES, NAMES, SPACES)),
    st.tuples(st.just(CLUSTER_QUEUES), st.builds(cluster_queue, NAMES, waiting=st.integers(0, 2))),
    st.tuples(st.just(RESOURCE_FLAVORS), st.builds(flavor, NAMES)),
    st.tuples(st.just(NODES), st.builds(node, NAMES, st.sampled_from(("L4", "H200")), st.integers(0, 4))),
    st.tuples(
        st.just(PODS),
        st.builds(
            pod, NAMES, SPACES, on=st.sampled_from(("", "a", "b")), gpus=st.integers(0, 2), owner=UIDS,
            user=st.sampled_from(("", "ann", "bob")), phase=st.sampled_from(("Running", "Succeeded")),
        ),
    ),
    st.tuples(st.just(REPLICA_SETS), st.builds(replica_set, NAMES, SPACES, UIDS)),
)  # fmt: skip
CHANGES = st.lists(st.tuples(OBJECTS, st.booleans()), max_size=40)


def everything(snapshot: Snapshot, positions: dict[str, int]) -> tuple[Any, ...]:
    return (
        snapshot.jobs.listed(JobFilter(), positions, nodes_of=snapshot.places.nodes_of).rows,
        snapshot.jobs.unfinished_elsewhere("ns"),
        snapshot.jobs.namespaces(),
        snapshot.queues.listed(),
        snapshot.queues.namespaces(),
        snapshot.gpus.listed(),
        snapshot.gpus.nodes(),
        snapshot.free(lambda _: True, lambda _: {("a", "nvidia.com/gpu"): 3, ("b", "nvidia.com/gpu"): 1}),
    )


@given(CHANGES, st.dictionaries(st.sampled_from(("ns/a", "ns/b", "other/a")), st.integers(1, 3)))
def test_rows_after_changes_are_those_of_a_snapshot_made_from_lists(
    changes: list[tuple[tuple[Resource, dict[str, Any]], bool]], positions: dict[str, int]
) -> None:
    changed, left = Snapshot(), dict[tuple[Resource, str, str], dict[str, Any]]()
    for (resource, obj), deleted in changes:
        meta = obj["metadata"]
        where = (resource, meta.get("namespace", ""), meta["name"])
        left.pop(where, None)
        if not deleted:
            left[where] = obj
        changed.take(*where, None if deleted else obj)
        changed.jobs.listed(JobFilter(), positions)  # what is kept from one look must not outlive a change
    listed = Snapshot()
    for (resource, _, _), obj in sorted(left.items(), key=lambda each: each[0][1:]):
        listed.take_all(resource, [obj])
    assert everything(changed, positions) == everything(listed, positions)
    rows = changed.jobs.listed(JobFilter(), positions).rows
    assert rows == sorted(rows, key=lambda row: (row.created, row.position or 0, row.workload, row.namespace))
    pages, token = [], ""
    while True:
        page = changed.jobs.listed(JobFilter(), positions, limit=2, token=token)
        pages += page.rows
        token = page.continue_
        if not token:
            break
    assert pages == rows
