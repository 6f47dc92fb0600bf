"""What pages show beyond the commands' rows: the backlog, the last hour, the ledger, jobs by any column."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.unit.views.objects import cluster_queue, local_queue, workload
from tests.unit.web.kit import NOW, preemption

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest
from gpuaas.client.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, PREEMPTIONS, WORKLOADS
from gpuaas.views.browse import JobQuery, browse, counted
from gpuaas.views.dashboard import CohortRow, Dashboard
from gpuaas.views.snapshot import Snapshot

Object = dict[str, Any]


def anywhere(_: str) -> bool:
    return True


def snapshot(**lists: list[Object]) -> Snapshot:
    made = Snapshot(lambda: NOW)
    kinds = {"workloads": WORKLOADS, "local_queues": LOCAL_QUEUES, "cluster_queues": CLUSTER_QUEUES}
    for name, objects in lists.items():
        made.take_all({**kinds, "preemptions": PREEMPTIONS, "cohorts": COHORTS}[name], objects)
    return made


def dashboard(**lists: list[Object]) -> Dashboard:
    found = snapshot(**lists).dashboard
    assert found is not None
    return found


def held(name: str, *, since: float, until: float | None = None, gpus: int = 2, queue: str = "a") -> Object:
    """A Workload that got its quota so many seconds ago, and perhaps finished."""
    conditions = ("QuotaReserved", "Admitted", *(("Finished",) if until is not None else ()))
    made = workload(name, queue, gpus=gpus, admitted=queue, conditions=conditions)
    for each in made["status"]["conditions"]:
        each["lastTransitionTime"] = rfc3339(
            NOW - (until if each["type"] == "Finished" and until is not None else since)
        )
    return made


# The backlog.


def test_a_backlog_counts_jobs_and_gpus_of_each_local_queue_and_knows_the_oldest() -> None:
    waiting = [
        workload("late", "a", gpus=4, at="2026-11-15T12:00:00Z"),
        workload("early", "a", gpus=2, at="2026-11-15T11:00:00Z"),
        workload("runs", "a", admitted="cq", conditions=("QuotaReserved", "Admitted")),
    ]
    seen = dashboard(local_queues=[local_queue("lq", "cq", "a")], workloads=waiting)
    (found,) = seen.backlogs.listed(anywhere)
    assert (found.cluster_queue, found.jobs, found.gpus, found.oldest) == ("cq", 2, 6, "2026-11-15T11:00:00Z")


def test_a_backlog_shrinks_as_jobs_start_change_and_go() -> None:
    seen = snapshot(workloads=[workload("x", "a", gpus=4), workload("y", "a", gpus=1)])
    assert seen.dashboard is not None
    seen.take(WORKLOADS, "a", "x", workload("x", "a", gpus=2))
    assert [each.gpus for each in seen.dashboard.backlogs.listed(anywhere)] == [3]
    seen.take(WORKLOADS, "a", "x", workload("x", "a", admitted="cq", conditions=("QuotaReserved",)))
    seen.take(WORKLOADS, "a", "y", None)
    assert list(seen.dashboard.backlogs.listed(anywhere)) == []


def test_a_backlog_of_namespaces_that_one_may_not_see_is_not_listed() -> None:
    seen = dashboard(workloads=[workload("x", "a"), workload("x", "b")])
    assert [each.namespace for each in seen.backlogs.listed(lambda where: where == "b")] == ["b"]


# The last hour.

TIMES = [NOW - 300, NOW - 200, NOW - 100, NOW]


@pytest.mark.parametrize(
    ("made", "gpus"),
    [
        (held("runs", since=250), [0, 2, 2, 2]),
        (held("ended", since=1000, until=150), [2, 2, 0, 0]),
        (held("short", since=190, until=110), [0, 0, 0, 0]),
        (held("before", since=900, until=400), [0, 0, 0, 0]),
        (workload("waits", "a"), []),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "",
)
def test_history_is_what_a_queue_held_at_each_moment(made: Object, gpus: list[int]) -> None:
    found = dashboard(workloads=[made]).history.sampled(TIMES, anywhere)
    assert found.get("a", [0] * len(gpus)) == gpus


def test_a_run_ends_when_its_workload_is_evicted_or_deleted() -> None:
    seen = snapshot(workloads=[held("x", since=1000), held("y", since=1000, gpus=3)])
    assert seen.dashboard is not None
    evicted = workload("x", "a", conditions=("Evicted",))
    evicted["status"]["conditions"][0]["lastTransitionTime"] = rfc3339(NOW - 150)
    seen.take(WORKLOADS, "a", "x", evicted)
    assert seen.dashboard.history.sampled(TIMES, anywhere) == {"a": [5, 5, 3, 3]}
    seen.take(WORKLOADS, "a", "y", None)
    assert seen.dashboard.history.sampled([*TIMES[:3], NOW + 0], anywhere) == {"a": [5, 5, 3, 0]}


def test_a_preempted_run_is_known_from_the_ledger_and_counts_once() -> None:
    entry = preemption("p", "a/x", "b/y", ago=150, gpus=2, ran=850)
    gone = workload("job-x", "a", conditions=("Evicted",))
    gone["metadata"]["uid"] = "uid-a-job-x"
    for order in itertools.permutations([(WORKLOADS, held("job-x", since=1000)), (PREEMPTIONS, entry)]):
        seen = snapshot()
        assert seen.dashboard is not None
        for resource, obj in order:
            obj["metadata"]["uid"] = "uid-a-job-x"
            seen.take(resource, "a", obj["metadata"]["name"], obj)
        gone["status"]["conditions"][0]["lastTransitionTime"] = rfc3339(NOW - 150)
        seen.take(WORKLOADS, "a", "job-x", gone)
        assert seen.dashboard.history.sampled(TIMES, anywhere) == {"a": [2, 2, 0, 0]}


def test_history_is_of_the_namespaces_one_may_see() -> None:
    seen = dashboard(workloads=[held("x", since=1000), held("y", since=1000, queue="b")])
    assert set(seen.history.sampled(TIMES, lambda where: where == "b")) == {"b"}


# The ledger.


def test_the_ledger_is_read_from_its_end_back_to_a_time() -> None:
    entries = [preemption(f"p{ago}", "a/x", "b/y", ago=ago) for ago in (500, 20, 90)]
    seen = dashboard(preemptions=entries)
    found = [row.name for _, row in seen.preemptions.latest(anywhere, rfc3339(NOW - 100))]
    assert found == ["p20", "p90"]
    first = next(seen.preemptions.latest(anywhere))
    assert [row.name for _, row in seen.preemptions.latest(anywhere, before=first[0])] == ["p90", "p500"]


def test_of_a_long_ledger_the_newest_entries_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuaas.views.preemptions.MOST", 2)
    seen = snapshot(preemptions=[preemption(f"p{ago}", "a/x", "b/y", ago=ago) for ago in (500, 20, 90)])
    assert seen.dashboard is not None
    assert [row.name for _, row in seen.dashboard.preemptions.latest(anywhere)] == ["p20", "p90"]
    seen.take(PREEMPTIONS, "a", "p500", None)
    seen.take(PREEMPTIONS, "a", "p20", None)
    assert [row.name for _, row in seen.dashboard.preemptions.latest(anywhere)] == ["p90"]


def test_an_entry_names_both_jobs_and_counts_gpus_alone() -> None:
    ((_, row),) = dashboard(preemptions=[preemption("p", "a/x", "b/y", gpus=4, ran=60)]).preemptions.latest(anywhere)
    assert (row.victim.job, row.victim.workload, row.preemptor.job) == ("job/x", "job-x", "job/y")
    assert (row.gpus, row.gpu_seconds_lost) == (4, 240)


# Cohorts.


def test_a_cohort_s_parent_and_own_quota_are_known_until_it_goes() -> None:
    group = {"flavors": [{"name": "h200", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 4}]}]}
    spec = {"parentName": "all", "resourceGroups": [group]}
    seen = snapshot(cohorts=[{"metadata": {"name": "ml"}, "spec": spec}])
    assert seen.dashboard is not None
    assert seen.dashboard.cohorts == {"ml": CohortRow("all", {("h200", "nvidia.com/gpu"): "4"})}
    seen.take(COHORTS, "", "ml", None)
    assert seen.dashboard.cohorts == {}


# Jobs by any column.


def rows() -> Any:
    made = [
        workload("j1", "a", gpus=4, owner="train", at="2026-11-15T10:00:00Z"),
        workload("j2", "a", gpus=1, owner="eval", at="2026-11-15T11:00:00Z", admitted="cq", conditions=("Admitted",)),
        workload("j3", "b", gpus=4, owner="train-big", at="2026-11-15T12:00:00Z"),
        workload("j4", "b", gpus=8, owner="done", at="2026-11-15T09:00:00Z", conditions=("Finished",)),
    ]
    queues = {"cluster_queues": [cluster_queue("cq")], "local_queues": [local_queue("lq", "cq", "a")]}
    return list(snapshot(workloads=made, **queues).jobs.each({"a/j1": 2, "b/j3": 1}))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (JobQuery(), ["j3", "j2", "j1", "j4"]),
        (JobQuery(sort="gpus"), ["j4", "j3", "j1", "j2"]),
        (JobQuery(sort="gpus", descending=False), ["j2", "j1", "j3", "j4"]),
        (JobQuery(sort="position", descending=False), ["j3", "j1", "j2", "j4"]),
        (JobQuery(text="train"), ["j3", "j1"]),
        (JobQuery(states=("Pending",), namespace="a"), ["j1"]),
        (JobQuery(queue="cq"), ["j2", "j1"]),
        (JobQuery(finished=False, sort="job", descending=False), ["j2", "j1", "j3"]),
    ],
)
def test_jobs_are_filtered_and_sorted(query: JobQuery, found: list[str]) -> None:
    assert [row.workload for row in browse(rows(), query, 10).rows] == found


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize(
    "column", ["created", "gpus", "state", "position", "namespace", "queue", "user", "priority", "job"]
)
def test_pages_by_key_have_every_row_once_whatever_they_are_sorted_by(column: str, descending: bool) -> None:
    seen: list[str] = []
    token, query = "", JobQuery(sort=column, descending=descending)
    for _ in range(5):
        page = browse(rows(), query, 1, token)
        seen += [row.workload for row in page.rows]
        assert page.total == 4
        token = page.continue_
        if not token:
            break
    assert sorted(seen) == ["j1", "j2", "j3", "j4"]


def test_groups_have_counts_the_largest_first() -> None:
    assert counted(rows(), JobQuery(), "state") == [("Pending", 2), ("Admitted", 1), ("Succeeded", 1)]
    assert counted(rows(), JobQuery(namespace="a"), "queue") == [("cq", 2)]


@pytest.mark.parametrize(
    "ask", [lambda: browse(rows(), JobQuery(sort="x"), 1), lambda: counted(rows(), JobQuery(), "x")]
)
def test_an_unknown_column_is_refused_with_those_there_are(ask: Any) -> None:
    with pytest.raises(BadRequest, match="'x' is none of"):
        ask()
