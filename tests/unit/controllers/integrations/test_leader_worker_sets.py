"""What LeaderWorkerSets promise, and what they promise under Kueue: each replica waits, starts and stops as one."""

from typing import Any

import pytest

from gpuaas.client.kueue import CLUSTER_QUEUES, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS, SERVICES, STATEFUL_SETS
from gpuaas.kueue.integrations.leader_worker_set import LEADER_WORKER_SETS
from gpuaas.testing.server import House, condition, template

QUEUE, GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"
ROLE, PREBUILT = "kueue.x-k8s.io/role-hash", "kueue.x-k8s.io/prebuilt-workload-name"


def whole(team: str, *, replicas: int = 1, size: int = 3, gpus: int = 1, queue: str = "lq", **parts: Any) -> Object:
    workers = {"size": size, "workerTemplate": template(gpus, restartPolicy="Always"), **parts}
    labels = {QUEUE: queue} if queue else {}
    metadata = {"name": "serve", "namespace": team, "labels": labels}
    return {"metadata": metadata, "spec": {"replicas": replicas, "leaderWorkerTemplate": workers}}


def pods(house: House, team: str) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in house.all(PODS, team) if not is_going(pod))


def is_going(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def gated(house: House, team: str) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in house.all(PODS, team) if pod["spec"].get("schedulingGates"))


def workloads(house: House, team: str) -> list[Object]:
    return sorted(house.all(WORKLOADS, team), key=lambda each: str(each["metadata"]["name"]))


def test_leaders_and_workers_know_their_group(house: House) -> None:
    team = house.team()
    house.create(LEADER_WORKER_SETS, whole(team, replicas=2, queue=""))
    expected = ["serve-0", "serve-0-1", "serve-0-2", "serve-1", "serve-1-1", "serve-1-2"]
    house.until(lambda: pods(house, team) == expected)
    assert house.get(SERVICES, team, "serve")["spec"]["clusterIP"] == "None"
    worker = house.get(PODS, team, "serve-1-2")
    labels = worker["metadata"]["labels"]
    assert (labels["leaderworkerset.sigs.k8s.io/group-index"], labels["leaderworkerset.sigs.k8s.io/worker-index"]) == (
        "1",
        "2",
    )
    told = {each["name"]: each["value"] for each in worker["spec"]["containers"][0]["env"]}
    assert told == {"LWS_LEADER_ADDRESS": f"serve-1.serve.{team}", "LWS_GROUP_SIZE": "3", "LWS_WORKER_INDEX": "2"}
    assert gated(house, team) == []


def test_what_its_operator_fills_in_is_there(house: House) -> None:
    team = house.team()
    made = whole(team, queue="", restartPolicy="Default")
    made["spec"]["rolloutStrategy"] = {"type": ""}
    spec = house.create(LEADER_WORKER_SETS, made)["spec"]
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "None"
    assert spec["networkConfig"] == {"subdomainPolicy": "Shared"}
    rolling = {"maxUnavailable": 1, "maxSurge": 0, "partition": 0}
    assert spec["rolloutStrategy"] == {"type": "RollingUpdate", "rollingUpdateConfiguration": rolling}


def test_a_group_of_which_one_starts_again_is_made_anew(house: House) -> None:
    team = house.team()
    house.create(LEADER_WORKER_SETS, whole(team, queue=""))
    house.until(lambda: len(pods(house, team)) == 3)
    before = house.get(PODS, team, "serve-0")["metadata"]["uid"]
    again = {"name": "c", "ready": False, "restartCount": 1, "image": "i", "imageID": ""}
    house.patch(PODS, team, "serve-0-1", {"status": {"containerStatuses": [again]}}, subresource="status")
    house.until(lambda: (pod := house.find(PODS, team, "serve-0")) and pod["metadata"]["uid"] != before)
    house.until(lambda: len(pods(house, team)) == 3)


def test_each_replica_is_a_workload_of_its_own(house: House) -> None:
    team = house.team()
    leader = template(0, restartPolicy="Always")
    house.create(LEADER_WORKER_SETS, whole(team, replicas=2, leaderTemplate=leader))
    house.until(lambda: len(workloads(house, team)) == 2)
    first = workloads(house, team)[0]
    assert first["metadata"]["name"].startswith("leaderworkerset-serve-0-")
    assert first["metadata"]["annotations"]["kueue.x-k8s.io/component-workload-index"] == "0"
    assert [(each["name"], each["count"]) for each in first["spec"]["podSets"]] == [("leader", 1), ("worker", 2)]
    house.until(lambda: len(pods(house, team)) == 6)
    house.until(lambda: gated(house, team) == [])
    worker, head = (house.get(PODS, team, name)["metadata"]["annotations"] for name in ("serve-0-1", "serve-0"))
    assert (worker[ROLE], head[ROLE]) == ("worker", "leader")
    assert worker[GROUP] == head[PREBUILT] == first["metadata"]["name"]


def test_a_replica_too_many_waits_whole(house: House) -> None:
    team = house.team(gpus=4)
    house.create(LEADER_WORKER_SETS, whole(team, replicas=2))
    house.until(lambda: len(pods(house, team)) == 6)
    house.until(lambda: len(gated(house, team)) == 3)
    assert len({name[:7] for name in gated(house, team)}) == 1, "one group as a whole"


def test_an_evicted_replica_comes_back_gated(house: House) -> None:
    team = house.team()
    house.create(LEADER_WORKER_SETS, whole(team))
    house.until(lambda: len(pods(house, team)) == 3 and gated(house, team) == [])
    (workload,) = workloads(house, team)
    house.patch(WORKLOADS, team, workload["metadata"]["name"], {"spec": {"active": False}})
    house.until(lambda: len(gated(house, team)) == 3)
    (workload,) = workloads(house, team)
    house.until(lambda: condition(workloads(house, team)[0], "QuotaReserved") == "False")
    house.patch(WORKLOADS, team, workload["metadata"]["name"], {"spec": {"active": True}})
    house.until(lambda: len(pods(house, team)) == 3 and gated(house, team) == [])


def test_its_priority_may_change_while_it_runs(house: House) -> None:
    team = house.team()
    made = whole(team)
    made["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "low"
    house.create(LEADER_WORKER_SETS, made)
    house.until(lambda: [each["spec"]["priority"] for each in workloads(house, team)] == [10])
    patch = {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}}
    house.patch(LEADER_WORKER_SETS, team, "serve", patch)
    house.until(lambda: [each["spec"]["priority"] for each in workloads(house, team)] == [1000])


def test_it_scales_by_whole_replicas(house: House) -> None:
    team = house.team()
    house.create(LEADER_WORKER_SETS, whole(team, replicas=2, gpus=0))
    house.until(lambda: len(pods(house, team)) == 6)
    house.patch(LEADER_WORKER_SETS, team, "serve", {"spec": {"replicas": 1}})
    house.until(lambda: len(workloads(house, team)) == 1)
    house.until(lambda: len(pods(house, team)) == 3)
    assert [each["metadata"]["name"] for each in house.all(STATEFUL_SETS, team)] == ["serve", "serve-0"]


CHANGES = {
    "its size": ({"size": 4}, "spec.leaderWorkerTemplate.size: Invalid value: 4: field is immutable"),
    "what its pods ask for": (
        {"workerTemplate": template(2, restartPolicy="Always")},
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].resources",
    ),
}


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES)
def test_what_was_counted_may_not_change(house: House, change: Object, words: str) -> None:
    team = house.team()
    house.create(LEADER_WORKER_SETS, whole(team))
    patch = {"spec": {"leaderWorkerTemplate": change}}
    refused = house.refusal(lambda: house.patch(LEADER_WORKER_SETS, team, "serve", patch))
    assert refused.startswith('admission webhook "vleaderworkerset.kb.io" denied the request: ')
    assert words in refused


def test_it_goes_with_its_workloads(house: House) -> None:
    team = house.team()
    house.create(LEADER_WORKER_SETS, whole(team))
    house.until(lambda: len(pods(house, team)) == 3)
    house.delete(LEADER_WORKER_SETS, team, "serve")
    house.until(lambda: not pods(house, team) and not workloads(house, team))
    house.until(lambda: not house.get(CLUSTER_QUEUES, "", team)["status"]["admittedWorkloads"])
