"""What a replica set promises: as many pods as it says, and the least useful go first."""

from typing import Any

import pytest

from gpuaas.base.errors import Forbidden
from gpuaas.client.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from gpuaas.controllers.replica_sets import ReplicaSetController, ReplicationManager
from gpuaas.runtime.metadata import controller_of
from gpuaas.runtime.pods import DELETION_COST, deletion_order
from gpuaas.testing.objects import pod, replica_set
from gpuaas.testing.time import scenario, stage

Object = dict[str, Any]
NOW = 1_767_229_200.0  # 2026-01-01T01:00:00Z


def _pod(name: str, *, made: str = "00:00", ready: str = "", restarts: int = 0, cost: str = "", **more: Any) -> Object:
    one = pod(name, annotations={DELETION_COST: cost} if cost else None, **more)
    one["metadata"] |= {"uid": name, "creationTimestamp": f"2026-01-01T{made}:00Z"}
    if ready:
        one["status"]["conditions"] = [
            {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T{ready}:00Z"}
        ]
    if restarts:
        one["status"]["containerStatuses"] = [{"restartCount": restarts}]
    return one


@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        ("without a node before with one", _pod("b"), _pod("a", node="n")),
        ("pending before running", _pod("b", node="n"), _pod("a", node="n", phase="Running")),
        (
            "not ready before ready",
            _pod("b", node="n", phase="Running"),
            _pod("a", node="n", phase="Running", ready="00:10"),
        ),
        ("cheap before dear", _pod("b", cost="-5"), _pod("a", cost="10")),
        ("ready for a short time before long", _pod("b", node="n", ready="00:58"), _pod("a", node="n", ready="00:01")),
        ("restarted often before seldom", _pod("b", restarts=9), _pod("a", restarts=1)),
        ("young before old", _pod("b", made="00:59"), _pod("a", made="00:01")),
        ("of about one age by chance, which is the uid", _pod("a", made="00:01"), _pod("b", made="00:02")),
    ],
)
def test_who_is_deleted_first(what: str, first: Object, second: Object) -> None:
    assert deletion_order([second, first], NOW)[0] is first, what
    assert deletion_order([first, second], NOW)[0] is first, what


def test_who_shares_a_node_with_relatives_goes_before_who_does_not() -> None:
    crowded, alone = _pod("b", node="full"), _pod("a", node="empty")
    assert deletion_order([alone, crowded], NOW, {"full": 3, "empty": 1})[0] is crowded


@scenario
async def test_pods_are_made_replaced_and_removed_to_the_wanted_number() -> None:
    async with stage(ReplicaSetController) as on:
        on.cluster.put(REPLICA_SETS, replica_set("r", 3))
        await on.settle()
        assert len(on.cluster.all(PODS)) == 3
        lost = on.cluster.all(PODS)[0]["metadata"]["name"]
        on.cluster.remove(PODS, lost, "default")
        await on.settle()
        assert len(on.cluster.all(PODS)) == 3
        await on.cluster.patch(REPLICA_SETS, "r", {"spec": {"replicas": 1}}, "default")
        await on.settle()
        assert len(on.cluster.all(PODS)) == 1
        status = on.cluster.read(REPLICA_SETS, "r", "default")["status"]
        assert status == {
            "replicas": 1,
            "fullyLabeledReplicas": 1,
            "terminatingReplicas": 0,
            "observedGeneration": 2,
        }
        reasons = [event.split()[1] for event in on.cluster.events()]
        assert (reasons.count("SuccessfulCreate"), reasons.count("SuccessfulDelete")) == (4, 2)
        made = [write for write in on.cluster.writes if write.verb == "create" and write.resource == "pods"]
        assert len(made) == 4, "no pod was made for a place that was already taken"


@scenario
async def test_orphans_that_match_are_adopted_and_strays_are_let_go() -> None:
    async with stage(ReplicaSetController) as on:
        on.cluster.put(PODS, pod("lonely", labels={"app": "r"}))
        on.cluster.put(REPLICA_SETS, replica_set("r", 2))
        await on.settle()
        assert len(on.cluster.all(PODS)) == 2
        adopted = on.cluster.read(PODS, "lonely", "default")
        assert (controller_of(adopted) or {})["name"] == "r"
        await on.cluster.patch(PODS, "lonely", {"metadata": {"labels": {"app": "other"}}}, "default")
        await on.settle()
        assert controller_of(on.cluster.read(PODS, "lonely", "default")) is None
        assert len(on.cluster.all(PODS)) == 3, "its place is filled again"


@scenario
async def test_what_the_server_forbids_is_told_and_tried_again() -> None:
    async with stage(ReplicaSetController) as on:
        for _ in range(4):
            on.cluster.fail_next("create", PODS, Forbidden("", "pods", "r-x", "exceeded quota: q"))
        on.cluster.put(REPLICA_SETS, replica_set("r", 2))
        await on.settle()
        (condition,) = on.cluster.read(REPLICA_SETS, "r", "default")["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        assert "exceeded quota: q" in condition["message"]
        assert any("FailedCreate" in event and "exceeded quota" in event for event in on.cluster.events())
        await on.advance(5)
        assert len(on.cluster.all(PODS)) == 2
        assert "conditions" not in on.cluster.read(REPLICA_SETS, "r", "default")["status"]


@scenario
async def test_a_pod_is_available_only_after_min_ready_seconds() -> None:
    async with stage(ReplicaSetController) as on:
        wanted = replica_set("r", 1)
        wanted["spec"]["minReadySeconds"] = 30
        on.cluster.put(REPLICA_SETS, wanted)
        await on.settle()
        name = on.cluster.all(PODS)[0]["metadata"]["name"]
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        on.cluster.set_status(PODS, name, "default", phase="Running", conditions=[ready])
        await on.advance(20)
        assert "availableReplicas" not in on.cluster.read(REPLICA_SETS, "r", "default")["status"]
        await on.advance(11)
        assert on.cluster.read(REPLICA_SETS, "r", "default")["status"]["availableReplicas"] == 1


@scenario
async def test_a_settled_replica_set_writes_nothing() -> None:
    async with stage(ReplicaSetController) as on:
        on.cluster.put(REPLICA_SETS, replica_set("r", 2))
        await on.settle()
        on.cluster.writes.clear()
        on.cluster.disconnect()
        on.cluster.compact()
        await on.advance(3600)
        assert on.cluster.writes == []


@scenario
async def test_a_replication_controller_keeps_its_pods_as_a_replica_set_does() -> None:
    async with stage(ReplicationManager) as on:
        elder = replica_set("r", 2)
        elder |= {"apiVersion": "v1", "kind": "ReplicationController"}
        elder["spec"]["selector"] = {"app": "r"}
        on.cluster.put(PODS, pod("lonely", labels={"app": "r"}))
        on.cluster.put(REPLICATION_CONTROLLERS, elder)
        await on.settle()
        assert len(on.cluster.all(PODS)) == 2
        for one in on.cluster.all(PODS):
            owner = controller_of(one) or {}
            assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("v1", "ReplicationController", "r")
        status = on.cluster.read(REPLICATION_CONTROLLERS, "r", "default")["status"]
        assert status == {"replicas": 2, "fullyLabeledReplicas": 2, "observedGeneration": 1}
        await on.cluster.patch(REPLICATION_CONTROLLERS, "r", {"spec": {"replicas": 0}}, "default")
        await on.settle()
        assert on.cluster.all(PODS) == []


@scenario
async def test_a_replication_controller_without_a_selector_takes_no_pod() -> None:
    async with stage(ReplicationManager) as on:
        elder = replica_set("r", 0)
        elder |= {"apiVersion": "v1", "kind": "ReplicationController"}
        elder["spec"].pop("selector")
        on.cluster.put(PODS, pod("lonely", labels={"app": "r"}))
        on.cluster.put(REPLICATION_CONTROLLERS, elder)
        await on.settle()
        assert controller_of(on.cluster.read(PODS, "lonely", "default")) is None
