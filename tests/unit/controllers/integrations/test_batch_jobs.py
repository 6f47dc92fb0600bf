"""What a batch job under Kueue promises: it waits, runs where its flavor says, makes room, and comes back."""

from gpuaas.api.owner import OWNER
from gpuaas.client.kueue import FINALIZER, PRIORITY_CLASSES, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import JOBS, PODS
from gpuaas.testing.server import House, condition, end_pods, is_suspended, job, with_label, with_note

CLASS = "kueue.x-k8s.io/priority-class"


def test_a_job_is_suspended_until_admitted_and_runs_where_its_flavor_says(house: House) -> None:
    team = house.team()
    made = house.create(JOBS, job(team, "train", gpus=2))
    assert made["spec"]["suspend"], "from the first moment on"
    workload = house.admitted(team, "train")
    assert workload["metadata"]["name"].startswith("job-train-")
    assert workload["metadata"]["finalizers"] == [FINALIZER]
    assert workload["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": made["metadata"]["uid"]}
    assert workload["spec"]["queueName"] == "lq"
    assert {each["manager"] for each in workload["metadata"]["managedFields"]} == {"kueue"}
    house.until(lambda: not is_suspended(house, team, "train"))
    template = house.get(JOBS, team, "train")["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"card": "a100"}
    assert template["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": workload["metadata"]["name"]}
    labels = template["metadata"]["labels"]
    assert {key: labels[key] for key in labels if key.startswith("kueue")} == {
        "kueue.x-k8s.io/podset": "main",
        "kueue.x-k8s.io/local-queue-name": "lq",
        "kueue.x-k8s.io/cluster-queue-name": team,
    }
    name = workload["metadata"]["name"]
    house.until(lambda: f"Started: Admitted by clusterQueue {team}" in house.events(team, "Job"))
    house.until(lambda: f"CreatedWorkload: Created Workload: {team}/{name}" in house.events(team, "Job"))


def test_a_job_that_has_no_room_waits(house: House) -> None:
    team = house.team(gpus=1)
    house.create(JOBS, job(team, "large", gpus=2))
    workload = house.until(lambda: house.workload(team, "large"))
    house.settled()
    assert is_suspended(house, team, "large")
    assert condition(house.get(WORKLOADS, team, workload["metadata"]["name"]), "QuotaReserved") == "False"
    assert house.all(PODS, team) == []


def test_a_more_important_job_takes_the_place_of_a_lesser_one_which_comes_back(house: House) -> None:
    team = house.team(gpus=2)
    house.create(JOBS, with_label(job(team, "lesser", gpus=2), CLASS, "low"))
    house.admitted(team, "lesser")
    house.until(lambda: house.all(PODS, team))
    house.create(JOBS, with_label(job(team, "urgent", gpus=2), CLASS, "high"))
    house.admitted(team, "urgent")
    victim = house.workload(team, "lesser")
    assert victim is not None
    conditions = {each["type"]: each for each in victim["status"]["conditions"]}
    assert (conditions["Evicted"]["status"], conditions["Evicted"]["reason"]) == ("True", "Preempted")
    assert (conditions["Requeued"]["status"], conditions["Requeued"]["reason"]) == ("True", "Preempted")
    assert conditions["Admitted"]["status"] == "False"
    assert "admission" not in victim["status"]
    stopped = house.get(JOBS, team, "lesser")
    assert stopped["spec"]["suspend"]
    assert "nodeSelector" not in stopped["spec"]["template"]["spec"], "its template is as it was"
    assert stopped["metadata"]["annotations"].keys() == {OWNER}
    house.until(lambda: any(each.startswith("Stopped: Preempted to accommodate") for each in house.events(team, "Job")))
    house.until(lambda: len(house.all(PODS, team)) == 1)
    end_pods(house, team)
    house.admitted(team, "lesser")
    house.until(lambda: not is_suspended(house, team, "lesser"))


def test_a_finished_job_finishes_its_workload_with_its_own_words(house: House) -> None:
    team = house.team()
    house.create(JOBS, job(team, "short"))
    house.admitted(team, "short")
    house.until(lambda: house.all(PODS, team))
    end_pods(house, team)

    def finished() -> bool:
        found = house.workload(team, "short")
        return found is not None and condition(found, "Finished") == "True" and "finalizers" not in found["metadata"]

    house.until(finished)
    workload = house.workload(team, "short")
    assert workload is not None
    end = next(each for each in workload["status"]["conditions"] if each["type"] == "Finished")
    assert (end["reason"], end["message"]) == ("Succeeded", "Reached expected number of succeeded pods")
    words = f"FinishedWorkload: Workload '{team}/{workload['metadata']['name']}' is declared finished"
    house.until(lambda: words in house.events(team, "Job"))


def test_a_failed_job_says_so(house: House) -> None:
    team = house.team()
    house.create(JOBS, job(team, "bad", backoffLimit=0))
    house.admitted(team, "bad")
    house.until(lambda: house.all(PODS, team))
    end_pods(house, team, "Failed")
    house.until(lambda: condition(house.workload(team, "bad") or {}, "Finished") == "True")
    workload = house.workload(team, "bad")
    assert workload is not None
    end = next(each for each in workload["status"]["conditions"] if each["type"] == "Finished")
    assert (end["reason"], end["message"]) == ("Failed", "Job has reached the specified backoff limit")


def test_pods_that_are_done_give_their_quota_back(house: House) -> None:
    team = house.team(gpus=3)
    house.create(JOBS, job(team, "wide", parallelism=3, completions=3))
    house.admitted(team, "wide")
    pods = house.until(lambda: (found := house.all(PODS, team)) and len(found) == 3 and found)
    name = pods[0]["metadata"]["name"]
    house.patch(PODS, team, name, {"status": {"phase": "Succeeded"}}, subresource="status")

    def reclaimed() -> bool:
        found = house.workload(team, "wide")
        return found is not None and (found.get("status") or {}).get("reclaimablePods") == [
            {"name": "main", "count": 1}
        ]

    house.until(reclaimed)
    house.create(JOBS, job(team, "next"))
    house.admitted(team, "next")


def test_ready_pods_are_told(house: House) -> None:
    team = house.team()
    house.create(JOBS, job(team, "served"))
    first = house.until(lambda: house.workload(team, "served"))
    house.until(lambda: condition(house.workload(team, "served") or {}, "PodsReady") == "False")
    pod = house.until(lambda: house.all(PODS, team))[0]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    house.patch(PODS, team, pod["metadata"]["name"], status, subresource="status")
    house.until(lambda: condition(house.workload(team, "served") or {}, "PodsReady") == "True")
    told = house.get(WORKLOADS, team, first["metadata"]["name"])["status"]["conditions"]
    ready = next(each for each in told if each["type"] == "PodsReady")
    assert (ready["reason"], ready["message"]) == (
        "Started",
        "All pods reached readiness and the workload is running",
    )


def test_a_job_may_start_with_fewer_pods_and_gets_all_back_when_it_stops(house: House) -> None:
    team = house.team(gpus=2)
    wide = with_note(job(team, "elastic", parallelism=4, completions=4), "kueue.x-k8s.io/job-min-parallelism", "1")
    house.create(JOBS, with_label(wide, CLASS, "low"))
    workload = house.admitted(team, "elastic")
    assert workload["status"]["admission"]["podSetAssignments"][0]["count"] == 2
    house.until(lambda: not is_suspended(house, team, "elastic"))
    assert house.get(JOBS, team, "elastic")["spec"]["parallelism"] == 2
    house.create(JOBS, with_label(job(team, "urgent", gpus=2), CLASS, "high"))
    house.until(lambda: house.get(JOBS, team, "elastic")["spec"]["parallelism"] == 4)


def test_changing_the_class_of_a_job_changes_its_workload_also_while_it_runs(house: House) -> None:
    team = house.team()
    house.create(JOBS, with_label(job(team, "climber"), CLASS, "low"))
    assert house.admitted(team, "climber")["spec"]["priority"] == 10
    house.until(lambda: not is_suspended(house, team, "climber"))
    house.patch(JOBS, team, "climber", {"metadata": {"labels": {CLASS: "high"}}})
    house.until(lambda: (house.workload(team, "climber") or {})["spec"]["priority"] == 1000)
    workload = house.workload(team, "climber")
    assert workload is not None
    assert workload["spec"]["priorityClassRef"]["name"] == "high"
    assert condition(workload, "Admitted") == "True"


def test_a_class_that_does_not_exist_yet_is_waited_for(house: House) -> None:
    team = house.team()
    house.create(JOBS, with_label(job(team, "early"), CLASS, f"later-{team}"))
    house.settled()
    assert house.workload(team, "early") is None
    house.create(PRIORITY_CLASSES, {"metadata": {"name": f"later-{team}"}, "value": 5})
    house.admitted(team, "early")


def test_a_deactivated_workload_stops_its_job_and_a_reactivated_one_starts_it(house: House) -> None:
    team = house.team()
    house.create(JOBS, job(team, "paused"))
    name = house.admitted(team, "paused")["metadata"]["name"]
    house.until(lambda: not is_suspended(house, team, "paused"))
    house.patch(WORKLOADS, team, name, {"spec": {"active": False}})
    house.until(lambda: is_suspended(house, team, "paused"))
    house.until(lambda: condition(house.get(WORKLOADS, team, name), "QuotaReserved") == "False")
    house.until(lambda: "Stopped: The workload is deactivated" in house.events(team, "Job"))
    house.patch(WORKLOADS, team, name, {"spec": {"active": True}})
    house.until(lambda: not is_suspended(house, team, "paused"))


def test_a_deleted_job_takes_its_workload_along(house: House) -> None:
    team = house.team(gpus=1)
    house.create(JOBS, job(team, "first"))
    house.admitted(team, "first")
    house.create(JOBS, job(team, "second"))
    house.delete(JOBS, team, "first")
    house.admitted(team, "second")
    house.until(lambda: house.workload(team, "first") is None)


def test_a_deleted_workload_stops_its_job_which_then_queues_anew(house: House) -> None:
    team = house.team()
    house.create(JOBS, job(team, "again"))
    first = house.admitted(team, "again")
    house.until(lambda: not is_suspended(house, team, "again"))
    house.delete(WORKLOADS, team, first["metadata"]["name"])

    def replaced() -> bool:
        found = house.workload(team, "again")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    house.until(replaced)
    house.admitted(team, "again")
    house.until(lambda: "Stopped: Workload is deleted" in house.events(team, "Job"))


def test_a_waiting_job_that_is_changed_changes_its_workload(house: House) -> None:
    team = house.team(gpus=1)
    house.create(JOBS, job(team, "large", gpus=1, parallelism=2))
    house.until(lambda: house.workload(team, "large"))
    house.patch(JOBS, team, "large", {"spec": {"parallelism": 1}})
    assert house.admitted(team, "large")["spec"]["podSets"][0]["count"] == 1


def test_a_running_job_that_is_changed_queues_anew_as_it_was_written(house: House) -> None:
    team = house.team(gpus=4)
    house.create(JOBS, job(team, "grows", parallelism=1, completions=4))
    first = house.admitted(team, "grows")
    house.until(lambda: (house.get(JOBS, team, "grows").get("status") or {}).get("active"))
    house.patch(JOBS, team, "grows", {"spec": {"parallelism": 2}})

    def second() -> Object | None:
        found = house.workload(team, "grows")
        return found if found and found["metadata"]["uid"] != first["metadata"]["uid"] else None

    (made,) = house.until(second)["spec"]["podSets"]
    (written,) = first["spec"]["podSets"]
    assert made == {**written, "count": 2}, "nothing of the flavor it ran on: another may be free now"


def test_a_waiting_job_may_change_its_queue(house: House) -> None:
    team = house.team()
    house.create(JOBS, job(team, "lost", queue="nowhere"))
    house.until(lambda: house.workload(team, "lost"))
    house.patch(JOBS, team, "lost", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}})
    assert house.admitted(team, "lost")["spec"]["queueName"] == "lq"


def test_a_job_may_use_a_workload_made_beforehand(house: House) -> None:
    team = house.team()
    wanted = with_label(job(team, "late"), "kueue.x-k8s.io/prebuilt-workload-name", "ready-made")
    house.create(JOBS, wanted)
    house.settled()
    assert house.all(WORKLOADS, team) == []
    template = house.get(JOBS, team, "late")["spec"]["template"]
    bare = {"spec": template["spec"]}
    pod_sets = [{"name": "main", "count": 1, "template": bare}]
    metadata = {"name": "ready-made", "namespace": team}
    house.create(WORKLOADS, {"metadata": metadata, "spec": {"queueName": "lq", "podSets": pod_sets}})
    assert house.admitted(team, "late")["metadata"]["name"] == "ready-made"
    house.until(lambda: not is_suspended(house, team, "late"))
