"""What pods under Kueue promise: gated alone or together, started together, gone when evicted."""

from typing import Any

from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import DEPLOYMENTS, PODS, STATEFUL_SETS
from gpuaas.kueue.integrations.names import workload_name
from gpuaas.testing.server import House, condition, template, with_label

QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
ADMISSION_GATE, MANAGED = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/managed"


def pod(team: str, name: str, *, gpus: int = 1, group: str = "", total: int = 0, **labels: str) -> Object:
    metadata: Object = {"name": name, "namespace": team, "labels": {QUEUE: "lq", **labels}}
    if group:
        metadata["labels"][GROUP] = group
        metadata["annotations"] = {TOTAL: str(total)}
    return {"metadata": metadata, "spec": template(gpus)["spec"]}


def gates(house: House, team: str, name: str) -> list[str]:
    found = house.get(PODS, team, name)["spec"].get("schedulingGates") or ()
    return [gate["name"] for gate in found]


def phase(house: House, team: str, name: str, value: str, **status: Any) -> None:
    house.patch(PODS, team, name, {"status": {"phase": value, **status}}, subresource="status")


def started(house: House, team: str, name: str) -> bool:
    return house.find(PODS, team, name) is not None and not gates(house, team, name)


def replicated(team: str, name: str, replicas: int, gpus: int = 1) -> Object:
    pods = template(gpus, restartPolicy="Always")
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {**pods, "metadata": {"labels": {"app": name}}},
    }
    return {"metadata": {"name": name, "namespace": team, "labels": {QUEUE: "lq"}}, "spec": spec}


def test_a_pod_is_gated_until_its_workload_is_admitted(house: House) -> None:
    team = house.team()
    made = house.create(PODS, pod(team, "alone"))
    assert [gate["name"] for gate in made["spec"]["schedulingGates"]] == [ADMISSION_GATE, "kueue.x-k8s.io/topology"]
    assert (made["metadata"]["labels"][MANAGED], made["metadata"]["finalizers"]) == ("true", [MANAGED])
    (said,) = made["status"]["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    workload = house.admitted(team, "alone")
    assert workload["metadata"]["name"].startswith("pod-alone-")
    house.until(lambda: started(house, team, "alone"))
    assert house.get(PODS, team, "alone")["spec"]["nodeSelector"] == {"card": "a100"}
    phase(house, team, "alone", "Succeeded")
    house.until(lambda: condition(house.workload(team, "alone") or {}, "Finished") == "True")
    house.until(lambda: "finalizers" not in house.get(PODS, team, "alone")["metadata"])


def test_an_evicted_pod_is_deleted_with_a_word_why(house: House) -> None:
    team = house.team(gpus=1)
    house.create(PODS, pod(team, "lesser", **{CLASS: "low"}))
    house.until(lambda: started(house, team, "lesser"))
    house.create(PODS, pod(team, "urgent", **{CLASS: "high"}))
    house.until(lambda: started(house, team, "urgent"))
    house.until(lambda: house.find(PODS, team, "lesser") is None)
    house.until(lambda: any(each.startswith("Stopped: Preempted to accommodate") for each in house.events(team, "Pod")))


def test_a_group_starts_when_it_is_whole_and_not_before(house: House) -> None:
    team = house.team()
    house.create(PODS, pod(team, "one", group="pair", total=2))
    house.settled()
    assert house.find(WORKLOADS, team, "pair") is None
    house.until(
        lambda: "ErrWorkloadCompose: 'pair' group has fewer runnable pods than expected" in house.events(team, "Pod")
    )
    house.create(PODS, pod(team, "two", group="pair", total=2, gpus=2))
    workload = house.admitted(team, "one")
    assert workload["metadata"]["name"] == "pair"
    assert sorted(each["count"] for each in workload["spec"]["podSets"]) == [1, 1], "two roles: they differ in size"
    assert [each["name"] for each in workload["metadata"]["ownerReferences"]] == ["one", "two"]
    assert not any(each.get("controller") for each in workload["metadata"]["ownerReferences"])
    house.until(lambda: started(house, team, "one") and started(house, team, "two"))


def test_a_group_may_use_a_workload_made_beforehand_and_start_before_it_is_whole(house: House) -> None:
    team = house.team()
    one = pod(team, "one", group="ready-made", total=2)
    one["metadata"]["labels"] |= {"kueue.x-k8s.io/prebuilt-workload-name": "ready-made"}
    one["metadata"]["annotations"] |= {"kueue.x-k8s.io/role-hash": "main"}
    house.create(PODS, one)
    house.settled()
    assert house.find(WORKLOADS, team, "ready-made") is None
    pod_sets = [{"name": "main", "count": 2, "template": {"spec": template(1)["spec"]}}]
    metadata = {
        "name": "ready-made",
        "namespace": team,
        "annotations": {"kueue.x-k8s.io/is-group-workload": "true"},
    }
    house.create(WORKLOADS, {"metadata": metadata, "spec": {"queueName": "lq", "podSets": pod_sets}})
    house.until(lambda: started(house, team, "one"))


def test_a_group_too_large_loses_what_came_last(house: House) -> None:
    team = house.team()
    for name in ("a", "b"):
        house.create(PODS, pod(team, name, group="pair", total=2))
    house.admitted(team, "a")
    house.create(PODS, pod(team, "c", group="pair", total=2))
    house.until(lambda: house.find(PODS, team, "c") is None)
    house.until(lambda: "ExcessPodDeleted: Excess pod deleted" in house.events(team, "Pod"))
    assert started(house, team, "a")
    assert started(house, team, "b")


def test_a_group_is_finished_when_all_its_pods_succeeded(house: House) -> None:
    team = house.team()
    for name in ("a", "b"):
        house.create(PODS, pod(team, name, group="pair", total=2))
    house.until(lambda: started(house, team, "a") and started(house, team, "b"))
    phase(house, team, "a", "Succeeded")
    house.until(lambda: house.get(WORKLOADS, team, "pair")["status"].get("reclaimablePods"))
    assert condition(house.get(WORKLOADS, team, "pair"), "Finished") == ""
    phase(house, team, "b", "Succeeded")
    house.until(lambda: condition(house.get(WORKLOADS, team, "pair"), "Finished") == "True")
    conditions = house.get(WORKLOADS, team, "pair")["status"]["conditions"]
    assert next(each["message"] for each in conditions if each["type"] == "Finished") == "Pods succeeded: 2/2."


def test_a_failed_pod_of_a_group_may_be_replaced(house: House) -> None:
    team = house.team()
    for name in ("a", "b"):
        house.create(PODS, pod(team, name, group="pair", total=2))
    house.until(lambda: started(house, team, "a") and started(house, team, "b"))
    phase(house, team, "a", "Failed")
    house.until(lambda: condition(house.get(WORKLOADS, team, "pair"), "WaitingForReplacementPods") == "True")
    house.create(PODS, pod(team, "c", group="pair", total=2))
    house.until(lambda: started(house, team, "c"))
    house.until(lambda: condition(house.get(WORKLOADS, team, "pair"), "WaitingForReplacementPods") == "False")
    house.until(lambda: "finalizers" not in house.get(PODS, team, "a")["metadata"])


def test_a_group_that_has_gone_lets_its_workload_go(house: House) -> None:
    team = house.team(gpus=2)
    for name in ("a", "b"):
        house.create(PODS, pod(team, name, group="pair", total=2))
    house.admitted(team, "a")
    for name in ("a", "b"):
        house.delete(PODS, team, name)
    house.until(lambda: house.find(WORKLOADS, team, "pair") is None)
    house.until(lambda: house.all(PODS, team) == [])


def test_each_pod_of_a_deployment_waits_for_itself(house: House) -> None:
    team = house.team(gpus=2)
    house.create(DEPLOYMENTS, replicated(team, "web", 3))
    house.until(lambda: len(house.all(PODS, team)) == 3)

    def running() -> int:
        return sum(not (each["spec"].get("schedulingGates") or ()) for each in house.all(PODS, team))

    house.until(lambda: running() == 2)
    house.settled()
    assert running() == 2, "there is quota for two"
    assert len(house.all(WORKLOADS, team)) == 3


def test_a_stateful_set_is_one_workload_and_may_rest_at_zero(house: House) -> None:
    team = house.team(gpus=2)
    made = {**replicated(team, "db", 2)}
    made["spec"] = {**made["spec"], "serviceName": "db", "podManagementPolicy": "Parallel"}
    house.create(STATEFUL_SETS, made)
    workload = house.admitted(team, "db")
    assert [each["count"] for each in workload["spec"]["podSets"]] == [2]
    name = workload["metadata"]["name"]
    assert name.startswith("statefulset-db-")
    house.until(lambda: started(house, team, "db-0") and started(house, team, "db-1"))
    house.patch(STATEFUL_SETS, team, "db", {"spec": {"replicas": 0}})

    def on_hold() -> bool:
        found = {each["type"]: each for each in house.get(WORKLOADS, team, name)["status"]["conditions"]}
        return bool(found["QuotaReserved"]["reason"] == "OnHold")

    house.until(on_hold)
    house.create(PODS, pod(team, "guest", gpus=2))
    house.until(lambda: started(house, team, "guest"))
    house.delete(PODS, team, "guest")
    house.until(lambda: house.all(PODS, team) == [])
    finalizers = house.get(WORKLOADS, team, name)["metadata"].get("finalizers")
    assert finalizers == ["kueue.x-k8s.io/resource-in-use"], "the set is still there, even if its pods are not"
    house.patch(STATEFUL_SETS, team, "db", {"spec": {"replicas": 2}})
    house.until(lambda: started(house, team, "db-0") and started(house, team, "db-1"))


def test_a_stateful_set_starts_when_its_last_admission_gate_goes(house: House) -> None:
    team = house.team()
    made = replicated(team, "gated", 2)
    gate = "kueue.x-k8s.io/admission-gated-by"
    made["metadata"]["annotations"] = {gate: "example.com/review"}
    house.create(STATEFUL_SETS, made)
    workload = house.until(lambda: next(iter(house.all(WORKLOADS, team)), None))
    assert workload["metadata"]["annotations"][gate] == "example.com/review"
    house.settled()
    assert not started(house, team, "gated-0")
    house.patch(STATEFUL_SETS, team, "gated", {"metadata": {"annotations": {gate: None}}})
    house.until(lambda: started(house, team, "gated-0"))
    assert gate not in house.all(WORKLOADS, team)[0]["metadata"]["annotations"]


def test_the_pods_of_a_preempted_stateful_set_come_back_gated(house: House) -> None:
    team = house.team(gpus=1)
    made = with_label(replicated(team, "db", 1), CLASS, "low")
    made["spec"] = {**made["spec"], "serviceName": "db"}
    house.create(STATEFUL_SETS, made)
    house.until(lambda: started(house, team, "db-0"))
    house.create(PODS, pod(team, "urgent", **{CLASS: "high"}))
    house.until(lambda: started(house, team, "urgent"))
    house.until(lambda: house.find(PODS, team, "db-0") is not None and gates(house, team, "db-0"))


def test_a_stateful_set_keeps_the_workload_an_older_kueue_made_for_it(house: House) -> None:
    team = house.team(gpus=1)
    name = workload_name("StatefulSet", "apps", "db", "")
    made = replicated(team, "db", 1)
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": made["spec"]["template"]}]}
    notes = {"kueue.x-k8s.io/is-group-workload": "true"}
    house.create(WORKLOADS, {"metadata": {"name": name, "namespace": team, "annotations": notes}, "spec": spec})
    made["spec"] = {**made["spec"], "serviceName": "db"}
    uid = house.create(STATEFUL_SETS, made)["metadata"]["uid"]
    house.until(lambda: started(house, team, "db-0"))
    (workload,) = house.all(WORKLOADS, team)
    assert workload["metadata"]["name"] == name
    assert uid in {each["uid"] for each in workload["metadata"]["ownerReferences"]}
