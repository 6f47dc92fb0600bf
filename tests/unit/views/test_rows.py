"""Rows from objects: what each command and page shows of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.views.objects import AT, cluster_queue, local_queue, node, pod, workload

from gpuaas.base.errors import BadRequest
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from gpuaas.client.resources import NODES, PODS, REPLICA_SETS
from gpuaas.views.jobs import JobFilter
from gpuaas.views.paging import MOST, key_of, limit_of
from gpuaas.views.snapshot import Snapshot

NOW = 1_794_744_060.0  # a minute after AT


def snapshot(**lists: list[dict[str, Any]]) -> Snapshot:
    made = Snapshot()
    kinds = {
        "workloads": WORKLOADS,
        "local_queues": LOCAL_QUEUES,
        "cluster_queues": CLUSTER_QUEUES,
        "nodes": NODES,
        "pods": PODS,
        "replica_sets": REPLICA_SETS,
    }
    for name, objects in lists.items():
        made.take_all(kinds[name], objects)
    return made


def names(seen: Snapshot, wanted: JobFilter | None = None, positions: dict[str, int] | None = None) -> list[str]:
    return [row.workload for row in seen.jobs.listed(wanted or JobFilter(), positions or {}).rows]


def test_a_job_that_waits_is_shown_with_its_place_and_the_cluster_queue_its_queue_leads_to() -> None:
    seen = snapshot(
        workloads=[workload("w", owner="train", gpus=2, user="ann")], local_queues=[local_queue("lq", "cq")]
    )
    (row,) = seen.jobs.listed(JobFilter(), {"ns/w": 3}).rows
    assert row.shown(NOW) == {
        "namespace": "ns",
        "job": "job/train",
        "owner": "ann",
        "queue": "lq",
        "state": "Pending",
        "position": 3,
        "gpus": "2",
        "age": "60s",
        "workload": "w",
        "clusterQueue": "cq",
        "flavors": [],
        "priority": 0,
    }


def test_a_job_that_was_admitted_is_shown_where_it_was_admitted() -> None:
    made = workload("w", conditions=("QuotaReserved", "Admitted"), admitted="other")
    seen = snapshot(workloads=[made], local_queues=[local_queue("lq", "cq")])
    (row,) = seen.jobs.listed(JobFilter(), {}).rows
    assert (row.job, row.state, row.cluster_queue, row.flavors) == ("workload/w", "Admitted", "other", ["l4"])


def test_nodes_are_found_through_all_that_stands_between_a_job_and_its_pods() -> None:
    made = workload("w", owner="web")
    replica_set = {
        "metadata": {"name": "rs", "namespace": "ns", "uid": "rs", "ownerReferences": [{"uid": "uid-of-web"}]}
    }
    pods = [
        pod("a", on="n2", owner="rs"),
        pod("b", on="n1", owner="uid-of-web"),
        pod("c", owner="rs"),
        pod("d", on="n3"),
    ]
    seen = snapshot(workloads=[made], pods=pods, replica_sets=[replica_set])
    (row,) = seen.jobs.listed(JobFilter(), {}, nodes_of=seen.places.nodes_of).rows
    assert row.nodes == ["n1", "n2"]
    seen.take(REPLICA_SETS, "ns", "rs", None)
    seen.take(PODS, "ns", "b", None)
    (row,) = seen.jobs.listed(JobFilter(), {}, nodes_of=seen.places.nodes_of).rows
    assert row.nodes == []


ORDERED = (
    workload("late", at="2026-11-15T13:00:00Z", user="ann"),
    workload("second"),
    workload("first"),
    workload("runs", conditions=("Admitted", "QuotaReserved"), queue="other"),
    workload("over", conditions=("Finished:Succeeded",)),
    workload("there", "elsewhere"),
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (JobFilter(), ["over", "runs", "there", "first", "second", "late"]),
        (JobFilter(finished=False), ["runs", "there", "first", "second", "late"]),
        (JobFilter(("ns",), finished=False), ["runs", "first", "second", "late"]),
        (JobFilter(states=("Admitted", "Succeeded")), ["over", "runs"]),
        (JobFilter(queue="other"), ["runs"]),
        (JobFilter(owner="ann"), ["late"]),
        (JobFilter(owner="an"), []),
        (JobFilter(()), []),
    ],
)
def test_jobs_are_filtered_and_come_oldest_first_then_by_place(wanted: JobFilter, found: list[str]) -> None:
    assert names(snapshot(workloads=[*ORDERED]), wanted, {"ns/first": 1, "ns/second": 2, "ns/late": 3}) == found


def test_the_order_follows_new_places_though_no_workload_changed() -> None:
    seen = snapshot(workloads=[workload("a"), workload("b")])
    assert names(seen, positions={"ns/a": 1, "ns/b": 2}) == ["a", "b"]
    assert names(seen, positions={"ns/a": 2, "ns/b": 1}) == ["b", "a"]


def test_unfinished_jobs_of_other_namespaces_are_counted() -> None:
    seen = snapshot(workloads=[*ORDERED])
    assert (seen.jobs.unfinished_elsewhere("ns"), seen.jobs.unfinished_elsewhere("elsewhere")) == (1, 4)
    seen.take(WORKLOADS, "elsewhere", "there", None)
    assert seen.jobs.unfinished_elsewhere("ns") == 0


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("train", "", "job-2"),
        ("train", "Job", "job-2"),
        ("train", "Pod", None),
        ("job-1", "", "job-1"),
        ("job-1", "Workload", "job-1"),
        ("job-1", "Job", None),
        ("there", "", None),
    ],
)
def test_a_job_is_found_by_its_name_or_its_workloads_the_newest_first(name: str, kind: str, found: str | None) -> None:
    again = workload("job-2", owner="train", at="2026-11-15T13:00:00Z")
    seen = snapshot(workloads=[workload("job-1", owner="train"), again, workload("there", "elsewhere")])
    assert seen.jobs.find("ns", name, kind) == found


def test_pages_continue_after_the_last_row_whatever_came_and_went_before_it() -> None:
    seen = snapshot(workloads=[workload(f"w{number}") for number in range(1, 6)])
    first = seen.jobs.listed(JobFilter(), {}, limit=2)
    assert [row.workload for row in first.rows] == ["w1", "w2"]
    seen.take(WORKLOADS, "ns", "w2", None)
    seen.take(WORKLOADS, "ns", "w0", workload("w0"))
    second = seen.jobs.listed(JobFilter(), {}, limit=3, token=first.continue_)
    assert [row.workload for row in second.rows] == ["w3", "w4", "w5"]
    assert second.continue_ == ""


@pytest.mark.parametrize(("asked", "given"), [(None, MOST), (0, MOST), (-1, MOST), (7, 7), (10**9, MOST)])
def test_a_page_has_a_limit_whatever_is_asked(asked: int | None, given: int) -> None:
    assert limit_of(asked) == given


@pytest.mark.parametrize("token", ["x", "W10=", "WzEsMl0=", "bnVsbA==", "e30=", "A" * 3000, "é"])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    with pytest.raises(BadRequest, match="continue"):
        key_of(token, (str, int, str, str))


def test_a_queue_has_a_row_for_each_flavor_and_resource() -> None:
    seen = snapshot(
        cluster_queues=[cluster_queue("b", waiting=2), cluster_queue("a")], local_queues=[local_queue("q", "b")]
    )
    assert [row.clusterqueue for row in seen.queues.listed()] == ["a", "b"]
    (row,) = seen.queues.listed(seen.queues.of_namespace("ns"))
    assert row.shown() == {
        "clusterqueue": "b",
        "cohort": "all",
        "flavor": "l4",
        "resource": "nvidia.com/gpu",
        "nominal": "4",
        "used": "1",
        "borrowed": "0",
        "waiting": 2,
        "state": "Active",
        "borrowingLimit": "2",
        "lendingLimit": None,
        "admitted": 0,
        "cards": "1",
    }


def test_gpus_are_summed_by_product_and_only_pods_that_have_not_finished_use_them() -> None:
    nodes = [node("n2"), node("n1"), node("big", "H200", 8)]
    pods = [
        pod("a", on="n1", gpus=2, user="ann"),
        pod("b", on="n1", gpus=1),
        pod("over", on="n1", phase="Succeeded", user="bob"),
        pod("waits", phase="Pending"),
        pod("cpu", on="n1", gpus=0),
    ]
    seen = snapshot(nodes=nodes, pods=pods)
    big, small = seen.gpus.listed()
    assert (big.product, big.nodes, big.total, big.used, big.free) == ("H200", 1, 8, 0, 8)
    assert small.shown() == {
        "product": "L4",
        "resource": "nvidia.com/gpu",
        "nodes": 2,
        "total": 8,
        "used": 3,
        "free": 5,
        "perNode": [
            {"node": "n1", "total": 4, "used": 3, "free": 1, "users": {"ann": 2}},
            {"node": "n2", "total": 4, "used": 0, "free": 4, "users": {}},
        ],
        "cards": "8",
        "cardsUsed": "3",
        "users": {"ann": 2},
    }
    assert [(row.used, row.free) for row in seen.gpus.listed(usage=False)] == [(None, None), (None, None)]
    assert [row.per_node for row in seen.gpus.listed(per_node=False)] == [[], []]


def test_a_node_names_who_holds_its_gpus_only_where_that_is_asked_for() -> None:
    seen = snapshot(nodes=[node("n1")], pods=[pod("a", on="n1", gpus=3, user="ann")])
    (row,) = seen.gpus.nodes()
    assert (row.used, [(each.namespace, each.pod, each.amount, each.owner) for each in row.holders]) == (
        {"nvidia.com/gpu": 3},
        [("ns", "a", 3, "ann")],
    )
    (row,) = seen.gpus.nodes(holders=False)
    assert (row.used, row.holders, row.gpus) == ({}, [], {"nvidia.com/gpu": 4})


def test_node_types_do_not_grow_with_the_nodes() -> None:
    seen = snapshot(nodes=[node(f"n{number}") for number in range(50)])
    assert (seen.gpus.types().executors, seen.gpus.types().products) == (["simulated"], ["L4"])


def test_ages_are_of_the_moment_of_showing() -> None:
    (row,) = snapshot(workloads=[workload("w", at=AT)]).jobs.listed(JobFilter(), {}).rows
    assert [row.shown(NOW + more)["age"] for more in (0, 3600)] == ["60s", "61m"]
