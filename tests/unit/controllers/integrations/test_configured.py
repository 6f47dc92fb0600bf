"""What the cluster's Kueue object changes for jobs at the API, from the moment its status says so."""

from collections.abc import Iterator

import pytest

from gpuaas.client.kueue import KUEUES
from gpuaas.client.resources import JOBS, PODS
from gpuaas.kueue.integrations.config import MANAGED_NAMESPACE, JobsConfig
from gpuaas.testing.server import House, is_suspended, job, template

MANAGED = {MANAGED_NAMESPACE: "true"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("house"), JobsConfig())
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _clean(house: House) -> Iterator[None]:
    yield
    if house.find(KUEUES, "", "cluster") is not None:
        house.delete(KUEUES, "", "cluster")
        house.until(lambda: house.configured.now is house.configured.started_with)


def say(house: House, frameworks: list[str], **config: object) -> None:
    house.create(
        KUEUES,
        {"metadata": {"name": "cluster"}, "spec": {"config": {"integrations": {"frameworks": frameworks}, **config}}},
    )

    def is_in_force() -> bool:
        status = house.get(KUEUES, "", "cluster").get("status") or {}
        found = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        return found.get("Available") == "True" and found.get("Degraded") == "False"

    house.until(is_in_force, "the object's status does not say that it is in force")


def test_jobs_of_a_kind_that_is_off_are_left_alone(house: House) -> None:
    team = house.team(labels=MANAGED)
    say(house, ["RayCluster"])
    made = house.create(JOBS, job(team, "free"))
    assert not made["spec"].get("suspend")
    house.settled()
    assert house.workload(team, "free") is None


def test_jobs_of_a_kind_that_is_on_are_held_again_once_the_object_is_gone(house: House) -> None:
    team = house.team(labels=MANAGED)
    say(house, ["RayCluster"])
    house.delete(KUEUES, "", "cluster")
    house.until(lambda: house.configured.now is house.configured.started_with)
    assert house.create(JOBS, job(team, "held", gpus=100))["spec"]["suspend"]


def test_namespaces_without_the_label_are_left_alone(house: House) -> None:
    plain, managed = house.team(), house.team(labels=MANAGED)
    say(house, ["BatchJob"])
    house.create(JOBS, job(plain, "free", gpus=100))
    house.create(JOBS, job(managed, "held", gpus=100))
    house.until(lambda: house.workload(managed, "held"))
    house.settled()
    assert house.workload(plain, "free") is None
    assert is_suspended(house, managed, "held")


@pytest.mark.parametrize(("policy", "held"), [("None", True), ("QueueName", False), ("", True)])
def test_the_label_policy_decides_for_jobs_without_a_queue(house: House, policy: str, held: bool) -> None:
    team = house.team(labels=MANAGED)
    say(house, ["BatchJob"], workloadManagement={"labelPolicy": policy})
    made = house.create(JOBS, job(team, "nameless", queue=""))
    assert bool(made["spec"].get("suspend")) is held


def test_single_pods_are_left_alone_where_only_jobs_are_held(house: House) -> None:
    team = house.team(labels=MANAGED)
    say(house, ["BatchJob"])
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    pod = {"metadata": {"name": "alone", "namespace": team, "labels": labels}, **template()}
    assert not house.create(PODS, pod)["spec"].get("schedulingGates")
    house.delete(PODS, team, "alone")


def test_a_running_pod_somebody_marks_as_managed_goes_on_where_pods_are_not_held(house: House) -> None:
    """Kueue's importer does so: it labels what runs, and makes the workload for it itself."""
    team = house.team(labels=MANAGED)
    say(house, ["BatchJob"])
    house.create(PODS, {"metadata": {"name": "runs", "namespace": team}, **template()})
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/managed": "true"}
    house.patch(PODS, team, "runs", {"metadata": {"labels": labels}})
    house.settled()
    assert "deletionTimestamp" not in house.get(PODS, team, "runs")["metadata"]
    assert house.workload(team, "runs") is None
    house.delete(PODS, team, "runs")
