"""KueueViz's back end: its shapes, who sees what, and what a client cannot do."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, cast

import pytest
from tests.unit.apiserver.conftest import Api, NoTransport
from tests.unit.views.objects import cluster_queue, flavor, local_queue, node, workload

from gpuaas.apiserver.http import Request, Response, Stream, StreamWriter
from gpuaas.base.ids import SeededIds
from gpuaas.web import kueueviz_shapes as shapes
from gpuaas.web.door import Place
from gpuaas.web.kueueviz import MOST_OF_USER, KueueViz

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


# Shapes.


def test_quantities_of_lists_are_numbers_and_lists_are_never_null() -> None:
    (row,) = shapes.cluster_queues([cluster_queue("cq", used="1500m")])
    (given,) = row["resourceGroups"][0]["flavors"]
    assert given["resources"] == [{"name": "nvidia.com/gpu", "nominalQuota": 4, "borrowingLimit": 2}]
    assert row["flavorsUsage"] == []
    assert row["flavorsReservation"][0]["resources"][0]["total"] == 1.5
    assert (row["name"], row["cohort"], row["flavors"], row["admittedWorkloads"]) == ("cq", "all", ["l4"], 0)
    (local,) = shapes.local_queues([local_queue("lq", "cq")])
    assert local["status"] == {
        "admittedWorkloads": 0, "pendingWorkloads": 0, "reservingWorkloads": 0,
        "conditions": [], "flavorsUsage": [], "flavorsReservation": [],
    }  # fmt: skip


def test_objects_as_a_whole_keep_their_quantities_and_lose_who_owns_which_field() -> None:
    queue = cluster_queue("cq")
    queue["metadata"]["managedFields"] = [{}]
    shown = shapes.cluster_queue(queue, [local_queue("lq", "cq"), local_queue("other", "else")])
    assert shown["spec"] == queue["spec"]
    assert "managedFields" not in shown["metadata"]
    assert shown["queues"] == [{"namespace": "ns", "name": "lq", "reservation": [], "usage": []}]


def test_a_dashboard_has_its_workloads_with_their_pods_and_their_preemption() -> None:
    made = workload("w", conditions=("Preempted:InClusterQueue",))
    made["metadata"]["labels"] = {"kueue.x-k8s.io/job-uid": "uid-1"}
    pods = [
        {"metadata": {"name": f"p-{uid}", "labels": {"controller-uid": uid}}, "status": {"phase": "Running"}}
        for uid in ("uid-1", "uid-2")
    ]
    shown = shapes.dashboard([made, workload("v")], [local_queue("lq", "cq")], [], [flavor("l4")], pods)
    first, second = shown["workloads"]["items"]
    assert first["preemption"] == {"preempted": True, "reason": "InClusterQueue"}
    assert first["pods"] == [{"name": "p-uid-1", "status": {"phase": "Running"}}]
    assert (second["preemption"], second["pods"]) == ({"preempted": False, "reason": ""}, [])
    assert shown["workloads"]["workloads_by_uid"] == {"uid-ns-w": "ns/w", "uid-ns-v": "ns/v"}
    empty = shapes.dashboard([], [], [], [], [])
    assert empty == {
        "flavors": [], "clusterQueues": [], "queues": [], "workloads": {"items": [], "workloads_by_uid": {}},
    }  # fmt: skip


def test_cohorts_are_those_there_are_and_those_that_queues_name() -> None:
    root = {"metadata": {"name": "child"}, "spec": {"parentName": "root"}}
    assert shapes.cohorts([root], [cluster_queue("cq")]) == [
        {"name": "all", "clusterQueues": [{"name": "cq"}]},
        {"name": "child", "clusterQueues": [], "parentName": "root"},
    ]
    assert [each["name"] for each in shapes.cohort("all", None, [cluster_queue("cq")])["clusterQueues"]] == ["cq"]


def test_a_flavor_has_its_nodes_and_the_quota_queues_have_of_it() -> None:
    l4 = flavor("l4", **{"nvidia.com/gpu.product": "L4"})
    shown = shapes.resource_flavor(l4, [cluster_queue("cq")], [node("n1"), node("n2", "H200")])
    assert [each["name"] for each in shown["nodes"]] == ["n1"]
    assert shown["queues"] == [{"queueName": "cq", "quota": [{"resource": "nvidia.com/gpu", "nominalQuota": "4"}]}]


# Served.


class Socket(StreamWriter):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[Any] = []

    def write(self, data: bytes) -> None:
        self.said += [json.loads(line) for line in data.splitlines()]

    def close(self) -> None:
        self.closed = True


class Front:
    """The server as KueueViz's front end asks it."""

    def __init__(self, api: Api) -> None:
        self.api = api
        place = Place(api.parts.cluster, api.parts.access, lambda: None)
        self.viz = KueueViz({"local": place}, (), api.clock)

    def ask(self, path: str, token: str = "", *, socket: bool = False, **headers: str) -> Any:
        request = Request(cast("asyncio.Transport", NoTransport()))
        request.method, (request.path, _, request.query) = "GET", path.partition("?")
        sent = {"host": "localhost:1", **headers}
        if socket:
            protocols = ["kueueviz.v1"]
            if token:
                protocols.append(f"kueueviz.auth.{urlsafe_b64encode(token.encode()).decode().rstrip('=')}")
            sent |= {
                "upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13",
                "sec-websocket-key": "a", "sec-websocket-protocol": ", ".join(protocols),
            }  # fmt: skip
        elif token:
            sent["authorization"] = f"Bearer {token}"
        request.headers = {name.encode(): value.encode() for name, value in sent.items()}
        return self.viz.answer(request, "local", request.path, plain=True)

    def status(self, path: str, token: str = "", **more: Any) -> int:
        answer = self.ask(path, token, **more)
        assert isinstance(answer, Response)
        return answer.status

    def open(self, path: str, token: str) -> tuple[Socket, Any]:
        answer = self.ask(f"/ws/{path}", token, socket=True)
        assert isinstance(answer, Stream), answer.body
        socket = Socket()

        async def start() -> Any:
            return answer.start(socket)

        return socket, self.api.run(start())

    def pass_time(self, seconds: float = 1.0) -> None:
        async def passing() -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            self.api.clock.advance(seconds)
            for _ in range(20):
                await asyncio.sleep(0)

        self.api.run(passing())


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    api = Api(tmp_path_factory.mktemp("viz"))
    for team in ("a", "b"):
        assert api.send("POST", "/api/v1/namespaces", {"metadata": {"name": team}}).status == 201
        queue = {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}}
        assert api.send("POST", f"{KUEUE}/namespaces/{team}/localqueues", queue).status == 201
        assert api.send("POST", f"{KUEUE}/namespaces/{team}/workloads", stored(f"of-{team}")).status == 201
    yield Front(api)
    api.close()


@pytest.fixture(scope="module")
def tenant(front: Front) -> str:
    _, token = front.api.trust.users.add("ann", SeededIds(5))
    body = {
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ann"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    rule = {"verbs": ["get", "list"], "apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "localqueues"]}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    assert front.api.send("POST", f"{rbac}/clusterroles", {"metadata": {"name": "ann"}, "rules": [rule]}).status == 201
    assert front.api.send("POST", f"{rbac}/namespaces/a/rolebindings", body).status == 201
    return str(token)


def stored(name: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]}
    return {"metadata": {"name": name}, "spec": spec}


def names(message: Any) -> list[str]:
    return [each["metadata"]["name"] for each in message["workloads"]["items"]]


def test_a_socket_sends_the_state_again_when_it_changes_and_only_then(front: Front) -> None:
    socket, gone = front.open("workloads?namespace=a", front.api.token)
    front.pass_time()
    assert [names(each) for each in socket.said] == [["of-a"]]
    front.pass_time()
    assert len(socket.said) == 1
    assert front.api.send("POST", f"{KUEUE}/namespaces/b/workloads", stored("not-asked-for")).status == 201
    front.pass_time()
    assert len(socket.said) == 1, "nothing that it shows has changed"
    assert front.api.send("POST", f"{KUEUE}/namespaces/a/workloads", stored("later")).status == 201
    front.pass_time()
    assert names(socket.said[-1]) == ["later", "of-a"]
    gone()
    assert front.api.send("DELETE", f"{KUEUE}/namespaces/a/workloads/later").status == 200
    front.pass_time()
    assert names(socket.said[-1]) == ["later", "of-a"], "it is heard no more"


def test_a_slow_reader_gets_the_newest_state_and_nothing_waits_for_it(front: Front) -> None:
    socket, gone = front.open("workloads?namespace=b", front.api.token)
    front.pass_time()
    assert socket.on_pause is not None
    assert socket.on_resume is not None
    socket.on_pause()
    front.pass_time()
    before = len(socket.said)
    for number in range(3):
        front.api.send("POST", f"{KUEUE}/namespaces/b/workloads", stored(f"w{number}"))
        front.pass_time()
    assert len(socket.said) - before <= 1
    socket.on_resume()
    front.pass_time()
    assert len(socket.said) - before <= 2
    assert {"w0", "w1", "w2"} <= set(names(socket.said[-1]))
    gone()


def test_a_tenant_sees_what_rbac_lets_them_see(front: Front, tenant: str) -> None:
    sent = {}
    for path in (
        "workloads",
        "namespaces",
        "cluster-queues",
        "workloads/dashboard",
        "workload/b/of-b",
        "workload/a/of-a",
    ):
        socket, gone = front.open(path, tenant)
        front.pass_time()
        gone()
        (sent[path],) = socket.said
    assert "of-b" not in json.dumps([*sent.values()])
    assert names(sent["workloads"]) == ["of-a"]
    assert sent["namespaces"] == {"namespaces": ["a"]}
    assert sent["cluster-queues"] == []
    assert sent["workload/b/of-b"] == {"error": "Resource not found"}
    assert sent["workload/a/of-a"]["metadata"]["name"] == "of-a"
    assert front.status("/api/workload/of-a?namespace=a&output=yaml", tenant) == 200
    assert front.status("/api/workload/of-b?namespace=b&output=yaml", tenant) == 403


def test_a_token_that_is_no_longer_good_ends_its_socket(front: Front) -> None:
    _, token = front.api.trust.users.add("brief", SeededIds(6), groups=["system:masters"])
    socket, gone = front.open("namespaces", token)
    front.pass_time(40)
    assert not socket.closed
    front.api.trust.users.remove("brief")
    front.pass_time(40)
    assert socket.closed
    gone()


@pytest.mark.parametrize(
    ("path", "known", "status"),
    [
        ("/auth/status", False, 200),
        ("/api/workload/of-a?namespace=a&output=yaml", False, 401),
        ("/api/workload/of-a?namespace=a", True, 400),
        ("/api/workload/nope?namespace=a&output=yaml", True, 404),
        ("/ws/workloads", True, 400),
    ],
)
def test_what_is_answered(front: Front, path: str, known: bool, status: int) -> None:
    assert front.status(path, front.api.token if known else "") == status


def test_a_socket_that_is_none_of_kueueviz_is_refused(front: Front) -> None:
    assert front.status("/ws/secrets", front.api.token, socket=True) == 404


def test_names_that_lead_here_from_elsewhere_are_refused(front: Front) -> None:
    assert front.status("/api/workload/of-a?namespace=a&output=yaml", front.api.token, host="evil.example") == 403


def test_cookies_do_not_count(front: Front) -> None:
    assert front.status("/api/workload/of-a?namespace=a&output=yaml", cookie="__Host-gpuaas-x=secret") == 401


def test_a_socket_without_a_good_token_is_closed_at_once(front: Front) -> None:
    answer = front.ask("/ws/workloads", "nobody", socket=True)
    assert isinstance(answer, Stream)
    socket = Socket()
    answer.start(socket)()
    assert socket.closed
    assert socket.said == []


def test_the_sockets_of_a_user_are_limited(front: Front, tenant: str) -> None:
    opened = [front.open("namespaces", tenant)[1] for _ in range(MOST_OF_USER)]
    assert front.status("/ws/namespaces", tenant, socket=True) == 429
    opened.pop()()
    opened.append(front.open("namespaces", tenant)[1])
    for gone in opened:
        gone()
    assert front.viz._open == {}
    front.pass_time()
