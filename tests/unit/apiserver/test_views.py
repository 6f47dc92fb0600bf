"""Who sees which rows: RBAC on the objects behind them decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.unit.apiserver.conftest import Api
from tests.unit.apiserver.security.conftest import binding, policy, role, rule, user
from tests.unit.views.objects import cluster_queue, flavor, local_queue, node, pod, workload

from gpuaas.apiserver.http import Request, Response
from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.views import Views, mount_views
from gpuaas.apiserver.views_feed import feed
from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.resources import NODES, PODS
from gpuaas.views.snapshot import Snapshot

KUEUE = "kueue.x-k8s.io"
RBAC = policy(
    role("see", rule("list", "workloads localqueues", KUEUE), rule("list", "pods")),
    role("jobs", rule("list", "workloads", KUEUE)),
    role("submit", rule("create", "jobs", "batch")),
    role("fleet", rule("list", "nodes"), rule("list", "clusterqueues", KUEUE)),
    role("pods", rule("list", "pods")),
    binding("a", "ClusterRole", "see", ["User:ann"], namespace="team-a"),
    binding("b", "ClusterRole", "submit", ["User:sub"], namespace="team-b"),
    binding("c", "ClusterRole", "submit", ["User:nowhere"], namespace="no-queue"),
    binding("d", "ClusterRole", "fleet", ["User:fleet", "User:ops"]),
    binding("e", "ClusterRole", "pods", ["User:ops"]),
    binding("f", "ClusterRole", "jobs", ["User:ops"]),
)


def views() -> Views:
    seen = Snapshot()
    seen.take_all(WORKLOADS, [workload("a", "team-a", owner="x"), workload("b", "team-b"), workload("c", "team-c")])
    seen.take_all(LOCAL_QUEUES, [local_queue("lq", "cq", "team-a"), local_queue("lq", "other", "team-b")])
    seen.take_all(CLUSTER_QUEUES, [cluster_queue("cq"), cluster_queue("other")])
    seen.take_all(NODES, [node("n1")])
    seen.take_all(
        PODS,
        [pod("p", "team-a", on="n1", owner="uid-of-x", user="ann"), pod("q", "team-b", on="n1", gpus=2, user="sub")],
    )
    seen.take_all(RESOURCE_FLAVORS, [flavor("l4")])
    quotas = {"other": {("l4", "nvidia.com/gpu"): 7}}
    return Views(seen, RBAC, dict, lambda namespace, name, _: {"subject": f"{namespace}/{name}"}, left=quotas.get)


def jobs_of(who: User, **more: Any) -> list[str]:
    return [row.workload for row in views().jobs(who, **more)[0].rows]


@pytest.mark.parametrize(("who", "seen"), [("ann", ["a"]), ("ops", ["a", "b", "c"])])
def test_jobs_of_all_namespaces_are_those_of_namespaces_where_one_may_list_workloads(who: str, seen: list[str]) -> None:
    assert jobs_of(user(who)) == seen


def test_only_who_may_list_all_workloads_learns_how_many_there_are_elsewhere() -> None:
    assert views().jobs(user("ops"), "team-a")[1] == 2
    assert views().jobs(user("ann"), "team-a")[1] == 0


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "jobs elsewhere": (lambda: views().jobs(user("ann"), "team-b"), 'cannot list resource "workloads"'),
    "jobs of none": (lambda: views().jobs(user("sub")), 'cannot list resource "workloads"'),
    "why elsewhere": (lambda: views().why(user("ann"), "team-b", "b"), 'cannot list resource "workloads"'),
    "why of none such": (lambda: views().why(user("ann"), "team-a", "b"), "not found"),
    "all queues": (lambda: views().queues(user("ann")), 'cannot list resource "clusterqueues"'),
    "queues of a namespace": (lambda: views().queues(user("fleet"), "team-a"), 'cannot list resource "localqueues"'),
    "gpus without a queue": (lambda: views().gpus(user("nowhere")), 'cannot list resource "nodes"'),
    "free without a queue": (lambda: views().free(user("nowhere")), 'cannot list resource "nodes"'),
    "nodes": (lambda: views().nodes(user("ann")), 'cannot list resource "nodes"'),
    "node types": (lambda: views().node_types(user("ann")), 'cannot list resource "nodes"'),
}


@pytest.mark.parametrize(("ask", "words"), REFUSED.values(), ids=REFUSED)
def test_what_rbac_does_not_allow_is_refused_in_its_words(ask: Callable[[], object], words: str) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        ask()
    assert refused.value.code == (404 if words == "not found" else 403)


@pytest.mark.parametrize(
    ("who", "per_node"), [("ann", []), ("sub", []), ("fleet", [("n1", None)]), ("ops", [("n1", 3)])]
)
def test_sums_of_gpus_are_for_all_who_may_use_a_queue_and_details_for_who_may_list_pods(
    who: str, per_node: list[tuple[str, int | None]]
) -> None:
    (row,) = views().gpus(user(who), details=True)
    assert (row.total, row.used, row.free) == (4, 3, 1)
    assert [(each.node, each.used) for each in row.per_node] == per_node


@pytest.mark.parametrize(("who", "users"), [("ann", {"ann": 1}), ("sub", {"sub": 2}), ("ops", {"sub": 2, "ann": 1})])
def test_others_names_are_for_who_may_list_all_pods(who: str, users: dict[str, int]) -> None:
    (row,) = views().gpus(user(who), details=True)
    assert row.users == users
    assert all(each.users == (users if who == "ops" else {}) for each in row.per_node)


@pytest.mark.parametrize(
    ("who", "namespace", "for_you", "queues"),
    [
        ("sub", "", 1, ["lq"]),
        ("sub", "team-b", 1, ["lq"]),
        ("sub", "team-a", 0, []),
        ("ann", "", 0, []),
        ("fleet", "", 0, []),
    ],
)
def test_what_is_free_for_a_user_is_what_queues_give_where_they_may_submit(
    who: str, namespace: str, for_you: int, queues: list[str]
) -> None:
    (row,) = views().free(user(who), namespace)
    assert (row.total, row.free, row.largest, row.for_you) == (4, 1, 1, for_you)
    assert [each.queue for each in row.queues] == queues


def test_who_holds_gpus_of_a_node_is_for_who_may_list_all_pods() -> None:
    assert [[each.pod for each in row.holders] for row in views().nodes(user("ops"))] == [["p", "q"]]
    assert [row.holders for row in views().nodes(user("fleet"))] == [[]]


def test_nodes_of_jobs_are_for_who_may_list_the_pods_there() -> None:
    (row,) = views().jobs(user("ann"), "team-a", nodes=True)[0].rows
    assert row.nodes == ["n1"]
    jobs_only = policy(
        role("jobs", rule("list", "workloads", KUEUE)),
        binding("x", "ClusterRole", "jobs", ["User:jo"], namespace="team-a"),
    )
    seen = views()
    seen._rbac = jobs_only
    (row,) = seen.jobs(user("jo"), "team-a", nodes=True)[0].rows
    assert row.nodes == []


# On the wire.

PREFIX = "/apis/views.gpuaas.dev/v1alpha1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    api = Api(tmp_path_factory.mktemp("views"))
    assert api.send("GET", f"{PREFIX}/jobs").status == 404, "not before it is mounted"
    made = api.send("POST", f"/apis/{KUEUE}/v1beta2/namespaces/default/workloads", _stored("before"))
    assert made.status == 201, made.body
    snapshot = Snapshot()
    api.run(feed(api.parts.cluster, snapshot))
    mount_views(api.parts.cluster, Views(snapshot, api.parts.access.rbac, dict, lambda *_: {"subject": "x"}))
    yield api
    api.close()


def _stored(name: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_write_is_in_the_rows_when_it_is_answered(served: Api) -> None:
    where = f"/apis/{KUEUE}/v1beta2/namespaces/default/workloads"
    assert _names(served) == ["before"]
    assert served.send("POST", where, _stored("later")).status == 201
    assert sorted(_names(served)) == ["before", "later"]
    assert served.send("DELETE", f"{where}/later").status == 200
    assert _names(served) == ["before"]


def test_what_cannot_be_read_has_no_row_and_stops_no_other(served: Api) -> None:
    store = served.parts.cluster.store
    for key, raw in (
        ("broken", b'{"metadata": 1}'),
        ("strange", b'{"metadata": {"name": "strange", "namespace": "default"}}'),
    ):
        served.run(store.put(f"{KUEUE}/workloads/default/{key}", lambda _, raw=raw: (raw, None)))
    assert _names(served) == ["before"]
    where = f"/apis/{KUEUE}/v1beta2/namespaces/default/workloads"
    assert served.send("POST", where, _stored("after-it")).status == 201
    assert sorted(_names(served)) == ["after-it", "before"]
    again = Snapshot()
    served.run(feed(served.parts.cluster, again))
    assert again.jobs.namespaces() == {"default"}
    for key in ("broken", "strange", "after-it"):
        served.run(store.delete(f"{KUEUE}/workloads/default/{key}", lambda _: (b"{}", None)))
    assert _names(served) == ["before"]


def _names(api: Api) -> list[str]:
    return [row["workload"] for row in api.send("GET", f"{PREFIX}/jobs").body["items"]]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/jobs", 200),
        ("GET", "/namespaces/default/jobs", 200),
        ("GET", "/namespaces/default/jobs/before/why", 200),
        ("GET", "/namespaces/default/jobs/nosuch/why", 404),
        ("GET", "/namespaces/default/jobs/before/why/more", 404),
        ("GET", "/jobs/before/why", 404),
        ("GET", "/namespaces/default/jobs/before", 404),
        ("GET", "/free", 200),
        ("GET", "/namespaces/default/free", 200),
        ("GET", "/queues", 200),
        ("GET", "/namespaces/default/queues", 200),
        ("GET", "/gpus", 200),
        ("GET", "/namespaces/default/gpus", 404),
        ("GET", "/nodes", 200),
        ("GET", "/nodetypes", 200),
        ("GET", "/others", 404),
        ("POST", "/jobs", 405),
        ("DELETE", "/jobs", 405),
        ("GET", "/jobs?watch=true", 405),
        ("GET", "/jobs?limit=x", 400),
        ("GET", "/jobs?continue=x", 400),
    ],
)
def test_what_is_served(served: Api, method: str, path: str, status: int) -> None:
    path, _, query = path.partition("?")
    assert served.ask_as_written(method, PREFIX + path, query).status == status


def test_without_credentials_there_are_no_rows(served: Api) -> None:
    request = cast("Request", served._request("GET", f"{PREFIX}/gpus", None, "", {"authorization": "Bearer x"}, {}))
    answer = served._answer(request)
    assert isinstance(answer, Response)
    assert (answer.status, json.loads(answer.body)["reason"]) == (401, "Unauthorized")
