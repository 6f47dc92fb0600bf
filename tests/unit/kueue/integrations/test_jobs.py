"""What labels say, how workloads are named and made, whose job a job is."""

from typing import Any

import pytest

from gpuaas.client.resources import DEPLOYMENTS, JOBS, REPLICA_SETS
from gpuaas.kueue.integrations.ancestry import Kinds, OwnerMissing, TooDeep
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.integrations.jobs import PriorityMissing, max_exec_time_of, new_workload, prebuilt_of, priority_of
from gpuaas.kueue.integrations.names import workload_name

Object = dict[str, Any]


def labelled(**labels: str) -> Object:
    found = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return {"metadata": {"name": "j", "namespace": "n", "uid": "u-1", "labels": found}}


@pytest.mark.parametrize(
    ("kind", "group", "name", "uid", "result"),
    [
        ("Job", "batch", "name", "uid", "job-name-ef3a1"),
        ("Job", "batch", "x" * 300, "uid", "job-" + "x" * 243),
    ],
)
def test_names_are_those_of_upstream(kind: str, group: str, name: str, uid: str, result: str) -> None:
    made = workload_name(kind, group, name, uid)
    assert made.startswith(result)
    assert len(made) <= 253
    assert len(made.rpartition("-")[2]) == 5


def test_two_jobs_of_one_name_have_two_workloads() -> None:
    assert workload_name("Job", "batch", "a", "1") != workload_name("Job", "batch", "a", "2")


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("0", None), ("-1", None), ("x", None), ("99999999999", None)]
)
def test_the_time_a_job_may_take(text: str, seconds: int | None) -> None:
    assert max_exec_time_of(labelled(max_exec_time_seconds=text)) == seconds


def test_a_workload_says_what_its_job_says() -> None:
    job = labelled(queue_name="lq", max_exec_time_seconds="60")
    job["metadata"]["labels"]["team"] = "red"
    job["metadata"]["annotations"] = {
        "provreq.kueue.x-k8s.io/x": "1",
        "kueue.x-k8s.io/admission-gated-by": "a.io/b",
        "other": "2",
    }
    made = new_workload(job, JOBS, [{"name": "main"}], ["team", "absent"])
    assert made["metadata"]["labels"] == {"team": "red", "kueue.x-k8s.io/job-uid": "u-1"}
    assert made["metadata"]["annotations"] == {
        "provreq.kueue.x-k8s.io/x": "1",
        "kueue.x-k8s.io/admission-gated-by": "a.io/b",
    }
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "j",
            "uid": "u-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert (made["spec"]["queueName"], made["spec"]["maximumExecutionTimeSeconds"]) == ("lq", 60)


def test_the_annotation_of_a_prebuilt_workload_goes_before_the_label() -> None:
    job = labelled(prebuilt_workload_name="by-label")
    assert prebuilt_of(job) == "by-label"
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/prebuilt-workload-name": "by-note"}
    assert prebuilt_of(job) == "by-note"


def classes(*found: tuple[str, int, bool]) -> list[Object]:
    return [{"metadata": {"name": name}, "value": value, "globalDefault": default} for name, value, default in found]


KNOWN = classes(("urgent", 100, False), ("usual", 5, True), ("also-usual", 3, True))
NAMED_POD_SET = {"template": {"spec": {"priorityClassName": "urgent"}}}


@pytest.mark.parametrize(
    ("label", "named", "pod_sets", "priority", "ref"),
    [
        ("high", None, [NAMED_POD_SET], 1000, ("WorkloadPriorityClass", "high")),
        ("", None, [{}, NAMED_POD_SET], 100, ("PriorityClass", "urgent")),
        ("", "urgent", [], 100, ("PriorityClass", "urgent")),
        ("", None, [{}], 3, ("PriorityClass", "also-usual")),
    ],
)
def test_priority_comes_from_the_label_then_the_pods_then_the_default(
    label: str, named: str | None, pod_sets: list[Object], priority: int, ref: tuple[str, str]
) -> None:
    job = labelled(priority_class=label) if label else labelled()
    found = priority_of(job, named, pod_sets, lambda name: {"value": 1000} if name == "high" else None, lambda: KNOWN)
    assert (found["priority"], found["priorityClassRef"]["kind"], found["priorityClassRef"]["name"]) == (priority, *ref)


def test_without_any_class_the_priority_is_zero() -> None:
    assert priority_of(labelled(), None, [], lambda _: None, list) == {"priority": 0}


def test_a_class_that_is_not_there_is_no_priority() -> None:
    with pytest.raises(PriorityMissing, match=r'workloadpriorityclasses.kueue.x-k8s.io "high" not found'):
        priority_of(labelled(priority_class="high"), None, [], lambda _: None, list)
    with pytest.raises(PriorityMissing, match=r'priorityclasses.scheduling.k8s.io "none" not found'):
        priority_of(labelled(), "none", [], lambda _: None, list)


@pytest.mark.parametrize(
    ("config", "labels", "selected", "held"),
    [
        (JobsConfig(), {}, True, False),
        (JobsConfig(), {"kueue.openshift.io/managed": "true"}, True, True),
        (JobsConfig(), {"kueue.openshift.io/managed": "false"}, True, False),
        (JobsConfig(manage_without_queue=True), {}, True, True),
        (JobsConfig(manage_without_queue=True), {"kubernetes.io/metadata.name": "kube-system"}, False, False),
        (
            JobsConfig(),
            {"kubernetes.io/metadata.name": "kueue-system", "kueue.openshift.io/managed": "true"},
            False,
            False,
        ),
    ],
)
def test_where_jobs_are_held(config: JobsConfig, labels: dict[str, str], selected: bool, held: bool) -> None:
    assert (config.selects(labels), config.holds_without_queue(labels)) == (selected, held)


# Ancestors.


def _by_kind(*resources: Any) -> dict[tuple[str, str], Any]:
    return {(each.api_version, each.kind): each for each in resources}


KINDS = Kinds(_by_kind(JOBS, DEPLOYMENTS), _by_kind(REPLICA_SETS))


def owned(name: str, uid: str, by: Object | None = None, kind: str = "Job", **labels: str) -> Object:
    made = labelled(**labels)
    made["metadata"] |= {"name": name, "uid": uid}
    made["kind"] = kind
    if by is not None:
        version = "batch/v1" if by["kind"] in ("Job", "CronJob") else "apps/v1"
        made["metadata"]["ownerReferences"] = [
            {
                "apiVersion": version,
                "kind": by["kind"],
                "name": by["metadata"]["name"],
                "uid": by["metadata"]["uid"],
                "controller": True,
            }
        ]
    return made


def ancestor(obj: Object, *known: Object, without_queue: bool = False) -> str | None:
    there = {each["metadata"]["name"]: each for each in known}
    found = KINDS.ancestor(obj, lambda _r, _n, name: there.get(name), without_queue=without_queue)
    return None if found is None else str(found[1]["metadata"]["name"])


def test_the_topmost_owner_with_a_queue_answers() -> None:
    top = owned("top", "1", queue_name="lq")
    middle = owned("middle", "2", top)
    assert ancestor(owned("low", "3", middle), top, middle) == "top"
    assert ancestor(owned("low", "3", middle), owned("top", "1"), middle) is None
    assert ancestor(owned("low", "3", middle), owned("top", "1"), middle, without_queue=True) == "top"


def test_replica_sets_are_passed_through() -> None:
    deployment = owned("web", "1", kind="Deployment", queue_name="lq")
    replicas = owned("web-1", "2", deployment, kind="ReplicaSet")
    assert ancestor(owned("pod", "3", replicas, kind="Pod"), deployment, replicas) == "web"


def test_unknown_owners_end_the_way() -> None:
    cron = owned("often", "1", kind="CronJob", queue_name="lq")
    assert ancestor(owned("j", "2", cron), cron) is None


def test_a_reference_to_another_uid_leads_nowhere() -> None:
    real = owned("top", "1", queue_name="lq")
    forged = owned("low", "3", {**real, "metadata": {**real["metadata"], "uid": "9"}})
    assert ancestor(forged, real) is None


def test_an_owner_that_is_not_there_cannot_be_judged() -> None:
    with pytest.raises(OwnerMissing):
        ancestor(owned("low", "3", owned("top", "1")))


def test_a_circle_ends_and_a_tower_is_too_deep() -> None:
    first = owned("a", "1", queue_name="lq")
    second = owned("b", "2", first)
    first["metadata"]["ownerReferences"] = owned("x", "0", second)["metadata"]["ownerReferences"]
    assert ancestor(second, first, second) == "a"
    tower = [owned("0", "0")]
    for level in range(1, 15):
        tower.append(owned(str(level), str(level), tower[-1]))
    with pytest.raises(TooDeep, match="exceeded limit of 10"):
        ancestor(tower[-1], *tower)
