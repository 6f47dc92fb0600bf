"""Every way around a queue that we know of, tried where every job must have one. None gets a pod to run.

The table runs in a namespace labelled kueue.openshift.io/managed under the usual configuration, and in an ordinary
one under manageJobsWithoutQueueName. A trick either is refused with words, or leaves nothing but what waits.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpuaas.client.kueue import PRIORITY_CLASSES, WORKLOADS
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from gpuaas.kueue.integrations.config import MANAGED_NAMESPACE, JobsConfig
from gpuaas.kueue.integrations.job_set import JOB_SETS
from gpuaas.kueue.integrations.notebook import NOTEBOOKS, STOPPED
from gpuaas.kueue.integrations.ray import CLUSTERS
from gpuaas.kueue.integrations.training import TRAINING_KINDS
from gpuaas.testing.server import House, condition, is_suspended, job, template, with_label, with_note

QUEUE = "kueue.x-k8s.io/queue-name"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
GATE = {"name": "kueue.x-k8s.io/admission"}


@pytest.fixture(scope="module", params=["managed namespace", "manageJobsWithoutQueueName"])
def strict(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Strict"]:
    everywhere = request.param == "manageJobsWithoutQueueName"
    house = House(tmp_path_factory.mktemp("house"), JobsConfig(manage_without_queue=everywhere))
    house.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    yield Strict(house, {} if everywhere else {MANAGED_NAMESPACE: "true"})
    house.close()


class Strict:
    def __init__(self, house: House, labels: dict[str, str]) -> None:
        self.house = house
        self._labels = labels

    def team(self, **options: Any) -> str:
        return self.house.team(labels=self._labels, **options)

    def nothing_runs(self, team: str) -> None:
        """Whatever pods there are, none may be scheduled."""
        self.house.settled()
        free = [each["metadata"]["name"] for each in self.house.all(PODS, team) if not _is_held(each)]
        assert free == []


def _is_held(pod: Object) -> bool:
    return GATE in (pod["spec"].get("schedulingGates") or ()) or bool(pod["metadata"].get("deletionTimestamp"))


def plain(team: str, name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "namespace": team}, "spec": spec}


def pods_of(name: str) -> Object:
    pods = template(1, restartPolicy="Always")
    return {"selector": {"matchLabels": {"app": name}}, "template": {**pods, "metadata": {"labels": {"app": name}}}}


def ray() -> Object:
    return {"headGroupSpec": {"rayStartParams": {}, "template": template(1)}}


WITHOUT_A_QUEUE: list[tuple[Resource, Object]] = [
    (JOBS, {"template": template(1)}),
    (PODS, template(1)["spec"]),
    (DEPLOYMENTS, {"replicas": 2, **pods_of("x")}),
    (REPLICA_SETS, {"replicas": 2, **pods_of("x")}),
    (STATEFUL_SETS, {"replicas": 2, "serviceName": "x", **pods_of("x")}),
    (CLUSTERS, ray()),
    (JOB_SETS, {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template(1)}}}]}),
    (TRAINING_KINDS[0].resource, {"pytorchReplicaSpecs": {"Master": {"template": template(1)}}}),
    (NOTEBOOKS, {"template": template(1, restartPolicy="Always")}),
]


@pytest.mark.parametrize(("resource", "spec"), WITHOUT_A_QUEUE, ids=[each[0].kind for each in WITHOUT_A_QUEUE])
def test_without_a_queue_nothing_runs(strict: Strict, resource: Resource, spec: Object) -> None:
    team = strict.team()
    strict.house.create(resource, plain(team, "free", spec))
    strict.nothing_runs(team)
    assert not any(condition(each, "QuotaReserved") == "True" for each in strict.house.all(WORKLOADS, team))


def test_jobs_of_a_cron_job_have_no_way_around(strict: Strict) -> None:
    team = strict.team()
    owner = strict.house.create(
        CRON_JOBS, plain(team, "often", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template(1)}}})
    )
    reference = {
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "often", "uid": owner["metadata"]["uid"],
        "controller": True,
    }  # fmt: skip
    made = plain(team, "often-1", {"template": template(1)})
    made["metadata"]["ownerReferences"] = [reference]
    strict.house.create(JOBS, made)
    strict.nothing_runs(team)


def test_the_default_queue_is_given_where_there_is_one(strict: Strict) -> None:
    team = strict.team(default_queue=True)
    for resource, spec in WITHOUT_A_QUEUE:
        if resource is REPLICA_SETS:
            continue  # its pods get it, one by one
        made = strict.house.create(resource, plain(team, f"a-{resource.plural}", spec))
        assert made["metadata"]["labels"][QUEUE] == "default", resource.kind


def test_starting_a_held_job_by_hand_stops_it_again(strict: Strict) -> None:
    team = strict.team(gpus=0)
    strict.house.create(JOBS, job(team, "eager"))
    strict.house.until(lambda: strict.house.workload(team, "eager"))
    strict.house.patch(JOBS, team, "eager", {"spec": {"suspend": False}})
    strict.house.until(lambda: is_suspended(strict.house, team, "eager"))
    strict.nothing_runs(team)
    strict.house.until(lambda: "Stopped: Not admitted by cluster queue" in strict.house.events(team, "Job"))


def test_taking_the_queue_off_a_waiting_job_and_starting_it_does_not_help(strict: Strict) -> None:
    team = strict.team(gpus=0)
    strict.house.create(JOBS, job(team, "sly"))
    strict.house.until(lambda: strict.house.workload(team, "sly"))
    strict.house.patch(JOBS, team, "sly", {"metadata": {"labels": {QUEUE: None}}})
    strict.house.patch(JOBS, team, "sly", {"spec": {"suspend": False}})
    strict.house.until(lambda: is_suspended(strict.house, team, "sly"))
    strict.nothing_runs(team)


def test_taking_the_queue_off_where_there_is_a_default_one_is_refused(strict: Strict) -> None:
    team = strict.team(gpus=0, default_queue=True)
    strict.house.create(JOBS, job(team, "sly"))
    words = strict.house.refusal(lambda: strict.house.patch(JOBS, team, "sly", {"metadata": {"labels": {QUEUE: None}}}))
    assert words == (
        'admission webhook "vjob.kb.io" denied the request: metadata.labels[kueue.x-k8s.io/queue-name]: '
        'Invalid value: "": queue-name must not be empty in namespace with default queue'
    )


@pytest.mark.parametrize("queue", ["other", None])
def test_a_running_job_keeps_its_queue(strict: Strict, queue: str | None) -> None:
    team = strict.team()
    strict.house.create(JOBS, job(team, "runs"))
    strict.house.until(lambda: not is_suspended(strict.house, team, "runs"))
    words = strict.house.refusal(
        lambda: strict.house.patch(JOBS, team, "runs", {"metadata": {"labels": {QUEUE: queue}}})
    )
    assert words == (
        'admission webhook "vjob.kb.io" denied the request: metadata.labels[kueue.x-k8s.io/queue-name]: '
        f'Invalid value: "{queue or ""}": field is immutable'
    )


def test_a_running_job_that_grows_waits_again(strict: Strict) -> None:
    team = strict.team(gpus=1)
    strict.house.create(JOBS, job(team, "grows", parallelism=1, completions=4))
    strict.house.until(lambda: strict.house.all(PODS, team))
    strict.house.patch(JOBS, team, "grows", {"spec": {"parallelism": 4}})
    strict.house.until(lambda: is_suspended(strict.house, team, "grows"))
    strict.house.until(lambda: strict.house.all(PODS, team) == [])
    strict.nothing_runs(team)


def test_a_job_cannot_get_larger_containers_once_it_runs(strict: Strict) -> None:
    team = strict.team()
    strict.house.create(JOBS, job(team, "runs"))
    strict.house.until(lambda: not is_suspended(strict.house, team, "runs"))
    words = strict.house.refusal(lambda: strict.house.patch(JOBS, team, "runs", {"spec": {"template": template(4)}}))
    assert "field is immutable" in words


def test_an_admitted_pod_does_not_grow_in_place(strict: Strict) -> None:
    team = strict.team()
    made = with_label(plain(team, "grows", template(1)["spec"]), QUEUE, "lq")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    strict.house.create(PODS, made)
    strict.house.until(lambda: not _is_held(strict.house.get(PODS, team, "grows")))
    larger = {"spec": {"containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "50"}}}]}}
    words = strict.house.refusal(lambda: strict.house.patch(PODS, team, "grows", larger, subresource="resize"))
    assert "may not grow once admitted by Kueue" in words


def test_a_stateful_set_scales_to_zero_and_back_only(strict: Strict) -> None:
    team = strict.team()
    spec = {"replicas": 1, "serviceName": "db", **pods_of("db")}
    strict.house.create(STATEFUL_SETS, with_label(plain(team, "db", spec), QUEUE, "lq"))
    for options in ({}, {"subresource": "scale"}):
        words = strict.house.refusal(
            lambda options=options: strict.house.patch(STATEFUL_SETS, team, "db", {"spec": {"replicas": 5}}, **options)
        )
        assert words == (
            'admission webhook "vstatefulset.kb.io" denied the request: spec.replicas: Invalid value: 5: '
            "field is immutable"
        )


def test_a_deployment_that_grows_brings_only_gated_pods(strict: Strict) -> None:
    team = strict.team(gpus=1)
    strict.house.create(DEPLOYMENTS, with_label(plain(team, "web", {"replicas": 1, **pods_of("web")}), QUEUE, "lq"))
    strict.house.until(lambda: any(not _is_held(each) for each in strict.house.all(PODS, team)))
    strict.house.patch(DEPLOYMENTS, team, "web", {"spec": {"replicas": 4}})
    strict.house.until(lambda: len(strict.house.all(PODS, team)) == 4)
    strict.house.settled()
    assert sum(not _is_held(each) for each in strict.house.all(PODS, team)) == 1


def _with_requests(amount: str) -> Callable[[str], Object]:
    def made(team: str) -> Object:
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": amount}}}
        return job(team, "odd", template={"spec": {"restartPolicy": "Never", "containers": [container]}})

    return made


@pytest.mark.parametrize("amount", ["-1", "-5Gi"])
def test_negative_requests_are_refused(strict: Strict, amount: str) -> None:
    team = strict.team()
    words = strict.house.refusal(lambda: strict.house.create(JOBS, _with_requests(amount)(team)))
    assert "must be greater than or equal to 0" in words


@pytest.mark.parametrize("amount", ["9223372036854775807", "9E", "1000000E", "99999999999999999999999999"])
def test_requests_beyond_all_numbers_only_wait(strict: Strict, amount: str) -> None:
    team = strict.team()
    strict.house.create(
        JOBS, {**_with_requests(amount)(team), "spec": {**_with_requests(amount)(team)["spec"], "parallelism": 1000}}
    )
    strict.house.until(lambda: strict.house.workload(team, "odd"))
    strict.nothing_runs(team)
    assert is_suspended(strict.house, team, "odd")


def test_negative_requests_through_custom_kinds_get_no_workload(strict: Strict) -> None:
    """Their definitions do not check pods; the workload made of them does."""
    team = strict.team(gpus=1)
    credit = template(1)
    credit["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "-100"}}
    spec = {**ray(), "workerGroupSpecs": [{
        "groupName": "credit", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {}, "template": credit,
    }]}  # fmt: skip
    strict.house.create(CLUSTERS, with_label(plain(team, "credit", spec), QUEUE, "lq"))
    strict.nothing_runs(team)
    assert strict.house.all(WORKLOADS, team) == []
    strict.house.until(
        lambda: any(each.startswith("ErrWorkloadCompose: ") for each in strict.house.events(team, "RayCluster"))
    )


@pytest.mark.parametrize("replicas", [-5, 2147483647])
def test_odd_numbers_of_replicas_get_nothing(strict: Strict, replicas: int) -> None:
    team = strict.team(gpus=4)
    group = {
        "groupName": "odd", "replicas": replicas, "minReplicas": replicas, "maxReplicas": 2147483647, "numOfHosts": 4,
        "rayStartParams": {}, "template": template(1),
    }  # fmt: skip
    try:
        strict.house.create(
            CLUSTERS, with_label(plain(team, "odd", {**ray(), "workerGroupSpecs": [group]}), QUEUE, "lq")
        )
    except Exception:  # refused is as good
        return
    strict.nothing_runs(team)


def test_the_name_of_anothers_workload_is_no_group(strict: Strict) -> None:
    team = strict.team(gpus=1)
    strict.house.create(JOBS, job(team, "victim"))
    victim = strict.house.admitted(team, "victim")
    name = victim["metadata"]["name"]
    thief = with_note(
        with_label(with_label(plain(team, "thief", template(1)["spec"]), QUEUE, "lq"), GROUP, name), TOTAL, "1"
    )
    strict.house.create(PODS, thief)
    strict.house.settled()
    assert _is_held(strict.house.get(PODS, team, "thief"))
    after = strict.house.get(WORKLOADS, team, name)
    assert after["metadata"]["uid"] == victim["metadata"]["uid"], "the victim keeps its workload"
    assert (after["metadata"]["ownerReferences"], after["metadata"]["finalizers"]) == (
        victim["metadata"]["ownerReferences"],
        victim["metadata"]["finalizers"],
    )
    assert condition(after, "Admitted") == "True"
    words = (
        f'A Workload named "{name}" already exists but is not a pod group workload; this pod group cannot be admitted'
    )
    strict.house.until(lambda: f"WorkloadNameConflict: {words}" in strict.house.events(team, "Pod"))


def test_joining_an_admitted_group_gets_nobody_in(strict: Strict) -> None:
    team = strict.team(gpus=1)
    member = with_note(
        with_label(with_label(plain(team, "first", template(1)["spec"]), QUEUE, "lq"), GROUP, "club"), TOTAL, "1"
    )
    strict.house.create(PODS, member)
    strict.house.until(lambda: not _is_held(strict.house.get(PODS, team, "first")))
    guest = {**member, "metadata": {**member["metadata"], "name": "guest"}}
    strict.house.create(PODS, guest)
    strict.house.until(lambda: strict.house.find(PODS, team, "guest") is None)
    other_shape = {**guest, "spec": template(4)["spec"]}
    strict.house.create(PODS, {**other_shape, "metadata": {**guest["metadata"], "name": "larger"}})
    strict.house.settled()
    found = strict.house.find(PODS, team, "larger")
    assert found is None or _is_held(found)


@pytest.mark.parametrize("where", [with_label, with_note], ids=["label", "annotation"])
def test_anothers_workload_is_no_prebuilt_one(strict: Strict, where: Callable[[Object, str, str], Object]) -> None:
    team = strict.team(gpus=1)
    strict.house.create(JOBS, job(team, "victim"))
    victim = strict.house.admitted(team, "victim")
    name = victim["metadata"]["name"]
    strict.house.create(JOBS, where(job(team, "thief"), PREBUILT, name))
    strict.house.settled()
    assert is_suspended(strict.house, team, "thief")
    after = strict.house.get(WORKLOADS, team, name)
    assert after["metadata"]["ownerReferences"] == victim["metadata"]["ownerReferences"]
    assert condition(after, "Finished") == ""
    assert condition(after, "Admitted") == "True"


def test_a_groups_workload_is_no_prebuilt_one_for_a_job(strict: Strict) -> None:
    team = strict.team(gpus=1)
    member = with_note(
        with_label(with_label(plain(team, "a", template(1)["spec"]), QUEUE, "lq"), GROUP, "club"), TOTAL, "1"
    )
    strict.house.create(PODS, member)
    strict.house.until(lambda: not _is_held(strict.house.get(PODS, team, "a")))
    strict.house.create(JOBS, with_label(job(team, "thief"), PREBUILT, "club"))
    strict.house.settled()
    assert is_suspended(strict.house, team, "thief")
    assert condition(strict.house.get(WORKLOADS, team, "club"), "Finished") == ""


def test_a_smaller_workload_made_beforehand_does_not_let_a_larger_job_in(strict: Strict) -> None:
    team = strict.team(gpus=1)
    strict.house.create(JOBS, with_label(job(team, "large", gpus=8), PREBUILT, "tiny"))
    pod_sets = [{"name": "main", "count": 1, "template": template(1)}]
    tiny = {"metadata": {"name": "tiny", "namespace": team}, "spec": {"queueName": "lq", "podSets": pod_sets}}
    strict.house.create(WORKLOADS, tiny)
    strict.house.until(lambda: condition(strict.house.get(WORKLOADS, team, "tiny"), "Finished") == "True")
    conditions = strict.house.get(WORKLOADS, team, "tiny")["status"]["conditions"]
    end = next(each for each in conditions if each["type"] == "Finished")
    assert (end["reason"], end["message"]) == ("OutOfSync", "The prebuilt workload is out of sync with its user job")
    assert is_suspended(strict.house, team, "large")


def test_the_gate_of_a_waiting_pod_does_not_come_off(strict: Strict) -> None:
    team = strict.team(gpus=0)
    strict.house.create(PODS, with_label(plain(team, "gated", template(1)["spec"]), QUEUE, "lq"))
    words = strict.house.refusal(lambda: strict.house.patch(PODS, team, "gated", {"spec": {"schedulingGates": []}}))
    assert words.startswith('admission webhook "vpod.kb.io" denied the request: spec.schedulingGates: Forbidden')
    unmanaged = {"metadata": {"labels": {"kueue.x-k8s.io/managed": None}}}
    words = strict.house.refusal(lambda: strict.house.patch(PODS, team, "gated", unmanaged))
    assert words == (
        'admission webhook "vpod.kb.io" denied the request: metadata.labels[kueue.x-k8s.io/managed]: '
        'Invalid value: "": field is immutable'
    )


def test_a_pod_that_says_its_parent_holds_it_is_held_all_the_same(strict: Strict) -> None:
    team = strict.team(gpus=4)
    made = with_note(plain(team, "orphan", template(1)["spec"]), "kueue.x-k8s.io/pod-suspending-parent", "deployment")
    strict.house.create(PODS, made)
    strict.nothing_runs(team)
    strict.house.refusal(lambda: strict.house.patch(PODS, team, "orphan", {"spec": {"schedulingGates": []}}))


def test_a_copied_owner_reference_with_another_uid_is_no_owner(strict: Strict) -> None:
    team = strict.team(gpus=1)
    strict.house.create(JOBS, job(team, "real"))
    strict.house.admitted(team, "real")
    made = plain(team, "child", template(1)["spec"])
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "real", "uid": "0-0-0", "controller": True}
    ]
    strict.house.create(PODS, made)
    found = strict.house.find(PODS, team, "child")
    assert found is None or _is_held(found)


def test_a_deployment_made_before_its_namespace_was_managed_does_not_let_new_pods_through(strict: Strict) -> None:
    if strict.house.config.manage_without_queue:
        pytest.skip("every namespace is managed from the start")
    team = strict.house.team()
    strict.house.create(DEPLOYMENTS, plain(team, "old", {"replicas": 1, **pods_of("old")}))
    strict.house.until(lambda: strict.house.all(PODS, team))
    strict.house.patch(NAMESPACES, "", team, {"metadata": {"labels": {MANAGED_NAMESPACE: "true"}}})
    strict.house.patch(DEPLOYMENTS, team, "old", {"spec": {"replicas": 3}}, subresource="scale")
    strict.house.until(lambda: len(strict.house.all(PODS, team)) == 3)
    assert sum(not _is_held(each) for each in strict.house.all(PODS, team)) == 1


def test_a_notebook_cannot_be_started_by_hand(strict: Strict) -> None:
    team = strict.team(gpus=0)
    strict.house.create(NOTEBOOKS, with_label(plain(team, "nb", {"template": template(1)}), QUEUE, "lq"))
    strict.house.until(lambda: strict.house.workload(team, "nb"))
    strict.house.patch(NOTEBOOKS, team, "nb", {"metadata": {"annotations": {STOPPED: None}}})
    strict.house.until(
        lambda: STOPPED in (strict.house.get(NOTEBOOKS, team, "nb")["metadata"].get("annotations") or {})
    )
    strict.house.until(lambda: strict.house.all(PODS, team) == [])


def test_a_lesser_job_cannot_become_more_important_by_a_class_nobody_made(strict: Strict) -> None:
    team = strict.team()
    strict.house.create(JOBS, with_label(job(team, "vain"), "kueue.x-k8s.io/priority-class", "made-up"))
    strict.nothing_runs(team)
    assert strict.house.workload(team, "vain") is None


@pytest.mark.parametrize("resource", [DAEMON_SETS], ids=["DaemonSet"])
def test_pods_made_by_hand_for_unheld_kinds_are_gated(strict: Strict, resource: Resource) -> None:
    team = strict.team()
    owner = strict.house.create(resource, plain(team, "agent", pods_of("agent")))
    made = plain(team, "agent-1", template(1)["spec"])
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": resource.kind,
            "name": "agent",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]
    strict.house.create(PODS, made)
    assert _is_held(strict.house.get(PODS, team, "agent-1"))


def deactivated(strict: Strict, team: str, owner: str) -> Object:
    """The workload once it is evicted and has given its quota back."""
    house = strict.house
    name = house.admitted(team, owner)["metadata"]["name"]
    house.patch(WORKLOADS, team, name, {"spec": {"active": False}})
    found: Object = house.until(
        lambda: (now := house.get(WORKLOADS, team, name)) and condition(now, "QuotaReserved") == "False" and now,
        f"{name} keeps its quota",
    )
    return found


def test_a_job_that_is_given_an_owner_later_stops_with_its_own_workload(strict: Strict) -> None:
    house, team = strict.house, strict.team()
    for name in ("one", "other"):
        house.create(JOBS, job(team, name))
        house.admitted(team, name)
    house.until(lambda: not is_suspended(house, team, "one"))
    owner = house.get(JOBS, team, "other")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": owner["metadata"]["uid"]}
    house.patch(JOBS, team, "one", {"metadata": {"ownerReferences": [{**reference, "controller": True}]}})
    deactivated(strict, team, "one")
    assert is_suspended(house, team, "one")


def test_a_group_whose_pods_are_gone_gives_its_quota_back_when_evicted(strict: Strict) -> None:
    house, team = strict.house, strict.team()
    pod = with_note(with_label(plain(team, "a", template(1)["spec"]), GROUP, "group"), TOTAL, "1")
    house.create(PODS, with_label(pod, QUEUE, "lq"))
    house.admitted(team, "a")
    house.delete(PODS, team, "a", propagation=Propagation.ORPHAN)
    house.until(lambda: house.find(PODS, team, "a") is None)
    house.settled()
    if house.find(WORKLOADS, team, "group") is not None:
        house.patch(WORKLOADS, team, "group", {"spec": {"active": False}})
        house.until(lambda: condition(house.get(WORKLOADS, team, "group"), "QuotaReserved") == "False")
