"""An elastic job grows and shrinks while it runs: its pods go as far as its quota does, and it never waits to shrink."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuaas.api.owner import OWNER
from gpuaas.client.kueue import CLUSTER_QUEUES, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import JOBS, PODS
from gpuaas.kueue.integrations.ray import CLUSTERS, RAY_JOBS
from gpuaas.testing.server import House, condition, end_pods, is_suspended, job, template, with_label, with_note

ELASTIC = "kueue.x-k8s.io/elastic-job"
SLICE = "kueue.x-k8s.io/workload-slice-name"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
CLASS = "kueue.x-k8s.io/priority-class"


def elastic(team: str, name: str, pods: int, **spec: Any) -> Object:
    return with_note(job(team, name, parallelism=pods, completions=20, **spec), ELASTIC, "true")


def scale(house: House, team: str, name: str, pods: int) -> None:
    house.patch(JOBS, team, name, {"spec": {"parallelism": pods}})


def slices(house: House, team: str) -> list[Object]:
    """Those not finished, the oldest first."""
    live = [each for each in house.all(WORKLOADS, team) if condition(each, "Finished") != "True"]
    return sorted(live, key=lambda each: int(each["metadata"]["resourceVersion"]))


def holds(house: House, team: str, pods: int) -> Callable[[], Object | None]:
    """One slice is left, of this size, and admitted."""

    def found() -> Object | None:
        live = slices(house, team)
        if len(live) != 1 or condition(live[0], "Admitted") != "True":
            return None
        return live[0] if live[0]["spec"]["podSets"][0]["count"] == pods else None

    return found


def noted(workload: Object) -> dict[str, str]:
    """Its annotations but for its owner's."""
    return {key: value for key, value in workload["metadata"]["annotations"].items() if key != OWNER}


def free_pods(house: House, team: str) -> int:
    return sum(not pod["spec"].get("schedulingGates") for pod in house.all(PODS, team))


def used(house: House, team: str) -> str:
    resources = house.get(CLUSTER_QUEUES, "", team)["status"]["flavorsUsage"][0]["resources"]
    return str(next(each["total"] for each in resources if each["name"] == "nvidia.com/gpu"))


def finish_of(house: House, team: str, name: str) -> tuple[str, str]:
    conditions = house.get(WORKLOADS, team, name)["status"].get("conditions") or ()
    return next(((each["reason"], each["message"]) for each in conditions if each["type"] == "Finished"), ("", ""))


def test_an_elastic_job_is_gated_and_its_pods_are_let_go_once_it_is_admitted(house: House) -> None:
    team = house.team(gpus=3)
    made = house.create(JOBS, elastic(team, "train", 2))
    assert made["spec"]["template"]["spec"]["schedulingGates"] == [{"name": ELASTIC}]
    workload = house.until(holds(house, team, 2))
    assert noted(workload) == {ELASTIC: "true", SLICE: workload["metadata"]["name"]}
    house.until(lambda: free_pods(house, team) == 2)
    notes = house.all(PODS, team)[0]["metadata"]["annotations"]
    assert notes[SLICE] == notes["kueue.x-k8s.io/workload"] == workload["metadata"]["name"]


def test_growing_makes_a_slice_that_replaces_the_one_before_and_needs_only_the_rest(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, elastic(team, "train", 2))
    first = house.until(holds(house, team, 2))["metadata"]["name"]
    house.until(lambda: free_pods(house, team) == 2)
    scale(house, team, "train", 3)
    second = house.until(holds(house, team, 3))
    assert noted(second) == {ELASTIC: "true", SLICE: first, REPLACES: f"{team}/{first}"}
    house.until(lambda: free_pods(house, team) == 3)
    uid, job_uid = second["metadata"]["uid"], house.get(JOBS, team, "train")["metadata"]["uid"]
    words = f"Replaced to accommodate a workload (UID: {uid}, JobUID: {job_uid}) due to workload slice aggregation"
    assert finish_of(house, team, first) == ("WorkloadSliceReplaced", words)
    house.until(lambda: f"WorkloadSliceReplaced: {words}" in house.events(team, "Workload"))
    assert not is_suspended(house, team, "train"), "it never stopped"
    house.until(lambda: used(house, team) == "3")


def test_shrinking_happens_at_once_and_makes_room(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, elastic(team, "train", 3))
    name = house.until(holds(house, team, 3))["metadata"]["name"]
    house.create(JOBS, job(team, "waits", gpus=2))
    house.settled()
    assert is_suspended(house, team, "waits")
    scale(house, team, "train", 1)
    house.until(lambda: not is_suspended(house, team, "waits"))
    kept = house.get(WORKLOADS, team, name)
    assert kept["spec"]["podSets"][0]["count"] == 1
    assert condition(kept, "Admitted") == "True"
    house.until(lambda: used(house, team) == "3")


def test_a_job_that_cannot_grow_runs_on_with_what_it_has(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, elastic(team, "train", 2))
    first = house.until(holds(house, team, 2))["metadata"]["name"]
    scale(house, team, "train", 5)
    house.until(lambda: len(slices(house, team)) == 2)
    house.until(lambda: len(house.all(PODS, team)) == 5)
    house.settled()
    assert not is_suspended(house, team, "train")
    assert free_pods(house, team) == 2
    assert condition(house.get(WORKLOADS, team, first), "Admitted") == "True"
    scale(house, team, "train", 3)
    assert house.until(holds(house, team, 3))["metadata"]["name"] != first, "the one that waited was made smaller"
    house.until(lambda: free_pods(house, team) == 3)


def test_a_job_that_shrinks_back_while_it_waits_to_grow_leaves_no_slice_behind(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, elastic(team, "train", 2))
    house.until(holds(house, team, 2))
    scale(house, team, "train", 5)
    house.until(lambda: len(slices(house, team)) == 2)
    scale(house, team, "train", 2)
    house.until(holds(house, team, 2))
    house.until(lambda: free_pods(house, team) == 2)


def test_whoever_loses_its_quota_while_it_waits_to_grow_stops(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, with_label(elastic(team, "train", 2), CLASS, "low"))
    first = house.until(holds(house, team, 2))["metadata"]["name"]
    scale(house, team, "train", 4)
    house.until(lambda: len(slices(house, team)) == 2)
    house.create(JOBS, with_label(job(team, "urgent", gpus=3), CLASS, "high"))
    house.until(lambda: not is_suspended(house, team, "urgent"))
    house.until(lambda: is_suspended(house, team, "train"))
    house.until(lambda: finish_of(house, team, first)[0] == "WorkloadSliceReplaced")


def test_an_evicted_job_comes_back_with_the_slice_it_had(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, elastic(team, "train", 1))
    first = house.until(holds(house, team, 1))["metadata"]["name"]
    scale(house, team, "train", 2)
    second = house.until(holds(house, team, 2))["metadata"]["name"]
    house.patch(CLUSTER_QUEUES, "", team, {"spec": {"stopPolicy": "HoldAndDrain"}})
    house.until(lambda: is_suspended(house, team, "train"))
    house.patch(CLUSTER_QUEUES, "", team, {"spec": {"stopPolicy": "None"}})
    house.until(lambda: not is_suspended(house, team, "train"))
    assert house.until(holds(house, team, 2))["metadata"]["name"] == second
    notes = house.get(JOBS, team, "train")["spec"]["template"]["metadata"]["annotations"]
    assert notes == {SLICE: first, "kueue.x-k8s.io/workload": second}


def test_a_chain_begins_anew_when_its_slice_is_deleted(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, elastic(team, "train", 1))
    first = house.until(holds(house, team, 1))["metadata"]["name"]
    house.until(lambda: free_pods(house, team) == 1)
    house.delete(WORKLOADS, team, first)
    house.until(lambda: house.find(WORKLOADS, team, first) is None)
    second = house.until(holds(house, team, 1))
    assert noted(second) == {ELASTIC: "true", SLICE: second["metadata"]["name"]}
    house.until(lambda: free_pods(house, team) == 1)


def test_pods_of_a_slice_that_is_gone_are_let_go_against_the_one_that_holds_quota(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, elastic(team, "train", 1))
    first = house.until(holds(house, team, 1))["metadata"]["name"]
    scale(house, team, "train", 2)
    house.until(holds(house, team, 2))
    house.delete(WORKLOADS, team, first)
    house.until(lambda: house.find(WORKLOADS, team, first) is None, "nobody needs it")
    house.delete(PODS, team, house.all(PODS, team)[0]["metadata"]["name"])
    house.until(lambda: len(house.all(PODS, team)) == 2 and free_pods(house, team) == 2)


def test_a_new_priority_class_is_that_of_both_slices(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, with_label(elastic(team, "train", 2), CLASS, "low"))
    house.until(holds(house, team, 2))
    scale(house, team, "train", 5)
    house.until(lambda: len(slices(house, team)) == 2)
    house.patch(JOBS, team, "train", {"metadata": {"labels": {CLASS: "high"}}})
    house.until(lambda: [each["spec"]["priority"] for each in slices(house, team)] == [1000, 1000])


def test_growing_and_shrinking_all_the_time_leaves_one_slice_and_no_quota_behind(house: House) -> None:
    team = house.team(gpus=4)
    house.create(JOBS, elastic(team, "train", 1))
    house.until(holds(house, team, 1))
    for pods in (2, 3, 4, 1, 2, 5, 3, 4, 1, 2):
        scale(house, team, "train", pods)
    house.until(holds(house, team, 2))
    house.until(lambda: used(house, team) == "2")
    house.until(lambda: len(house.all(PODS, team)) == 2 and free_pods(house, team) == 2)


def test_a_ray_cluster_grows_and_shrinks(house: House) -> None:
    team = house.team(gpus=4)
    group = {"groupName": "w", "replicas": 1, "minReplicas": 0, "maxReplicas": 9, "rayStartParams": {}}
    spec = {
        "headGroupSpec": {"template": template(1), "rayStartParams": {}},
        "workerGroupSpecs": [{**group, "template": template(1)}],
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"resources": {"requests": {"cpu": "1"}}},
    }
    metadata = {"name": "ray", "namespace": team, "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    made = house.create(CLUSTERS, with_note({"metadata": metadata, "spec": spec}, ELASTIC, "true"))
    assert made["spec"]["headGroupSpec"]["template"]["spec"]["schedulingGates"] == [{"name": ELASTIC}]

    def grown(workers: int) -> Callable[[], Object | None]:
        def found() -> Object | None:
            live = slices(house, team)
            counts = [[each["count"] for each in one["spec"]["podSets"]] for one in live]
            return live[0] if counts == [[1, workers]] and condition(live[0], "Admitted") == "True" else None

        return found

    def resize(workers: int) -> None:
        (group,) = house.get(CLUSTERS, team, "ray")["spec"]["workerGroupSpecs"]
        house.patch(CLUSTERS, team, "ray", {"spec": {"workerGroupSpecs": [{**group, "replicas": workers}]}})

    first = house.until(grown(1))["metadata"]["name"]
    house.until(lambda: free_pods(house, team) == 2)
    resize(3)
    assert house.until(grown(3))["metadata"]["annotations"][REPLACES] == f"{team}/{first}"
    house.until(lambda: free_pods(house, team) == 4)
    resize(1)
    house.until(grown(1))
    house.until(lambda: used(house, team) == "2")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"annotations": {ELASTIC: None}}}, "Invalid value: false: field is immutable"),
        (
            {"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}}},
            "partial admission and elastic job cannot be used together",
        ),
    ],
)
def test_what_an_elastic_job_is_refused(house: House, change: Object, words: str) -> None:
    team = house.team()
    house.create(JOBS, elastic(team, "train", 2))
    assert words in house.refusal(lambda: house.patch(JOBS, team, "train", change))


def test_an_elastic_job_may_not_ask_for_places_close_together(house: House) -> None:
    team = house.team()
    made = elastic(team, "train", 2)
    made["spec"]["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    assert "required topology is not supported with elastic jobs" in house.refusal(lambda: house.create(JOBS, made))


def test_a_ray_job_follows_the_size_its_autoscaler_gives_its_cluster(house: House) -> None:
    team = house.team(gpus=4)
    group = {"groupName": "w", "replicas": 1, "minReplicas": 0, "maxReplicas": 9, "rayStartParams": {}}
    cluster = {
        "headGroupSpec": {"template": template(1), "rayStartParams": {}},
        "workerGroupSpecs": [{**group, "template": template(1)}],
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"resources": {"requests": {"cpu": "1"}}},
    }
    submitter = {"name": "submit", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster,
        "submitterPodTemplate": {"spec": {"restartPolicy": "Never", "containers": [submitter]}},
    }
    metadata = {"name": "tune", "namespace": team, "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    house.create(RAY_JOBS, with_note({"metadata": metadata, "spec": spec}, ELASTIC, "true"))
    house.until(lambda: free_pods(house, team) == 2)
    (made,) = house.all(CLUSTERS, team)

    def resize(workers: int) -> None:
        change = {**made["spec"]["workerGroupSpecs"][0], "replicas": workers}
        house.patch(CLUSTERS, team, made["metadata"]["name"], {"spec": {"workerGroupSpecs": [change]}})

    def sizes() -> list[list[int]]:
        return [[each["count"] for each in one["spec"]["podSets"]] for one in slices(house, team)]

    resize(3)
    house.until(lambda: free_pods(house, team) == 4 and sizes() == [[1, 3, 1]])
    resize(5)
    house.until(lambda: len(house.all(PODS, team)) == 6 and sizes() == [[1, 3, 1], [1, 5, 1]])
    house.settled()
    assert free_pods(house, team) == 4, "the rest waits for quota"
    resize(2)
    house.until(lambda: free_pods(house, team) == 3 and sizes() == [[1, 2, 1]])
    notes = house.get(RAY_JOBS, team, "tune")["metadata"]["annotations"]
    assert notes["kueue.x-k8s.io/raycluster-podset-replica-sizes"] == (
        '[{"name":"head","count":1},{"name":"w","count":2},{"name":"submitter","count":1}]'
    )


def test_a_job_that_ends_while_it_waits_to_grow_gives_everything_back(house: House) -> None:
    team = house.team(gpus=2)
    house.create(JOBS, elastic(team, "short", 1, backoffLimit=0))
    house.until(lambda: free_pods(house, team) == 1)
    scale(house, team, "short", 3)
    house.until(lambda: len(slices(house, team)) == 2)
    house.settled()
    end_pods(house, team, "Failed")
    house.until(lambda: slices(house, team) == [])
    names = [each["metadata"]["name"] for each in house.all(WORKLOADS, team)]
    assert [finish_of(house, team, name)[0] for name in names] == ["Failed", "Failed"]
    house.until(lambda: used(house, team) == "0")


def test_where_elastic_jobs_are_off_a_job_is_held_like_any_other(house: House) -> None:
    team = house.team(gpus=3)
    now = house.configured.now
    house.configure(replace(now, jobs=replace(now.jobs, elastic=False)))
    try:
        made = house.create(JOBS, elastic(team, "train", 2))
        assert not made["spec"]["template"]["spec"].get("schedulingGates")
        first = house.until(holds(house, team, 2))
        assert ELASTIC not in (first["metadata"].get("annotations") or {})
        house.until(lambda: not is_suspended(house, team, "train"))
        scale(house, team, "train", 3)
        other = house.until(holds(house, team, 3))
        assert other["metadata"]["uid"] != first["metadata"]["uid"]  # it waited again, as a whole
        assert REPLACES not in (other["metadata"].get("annotations") or {})
        words = house.refusal(lambda: house.create(CLUSTERS, autoscaled(team)))
        assert "can use autoscaling only as an elastic job" in words
    finally:
        house.configure(now)


def autoscaled(team: str) -> Object:
    head = {"rayStartParams": {}, "template": template(gpus=1)}
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    metadata = {"name": "ray", "namespace": team, "labels": labels, "annotations": {ELASTIC: "true"}}
    return {"metadata": metadata, "spec": {"enableInTreeAutoscaling": True, "headGroupSpec": head}}
