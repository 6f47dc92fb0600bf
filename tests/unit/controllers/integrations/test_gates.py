"""Feature gates that change what happens to jobs at the API."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpuaas.client.kueue import PRIORITY_CLASSES
from gpuaas.client.resources import JOBS, PODS
from gpuaas.kueue.configuration.file import configuration_of
from gpuaas.kueue.integrations.ray import CLUSTERS
from gpuaas.testing.server import House, job, template, with_label

QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"


@pytest.fixture(autouse=True)
def _as_before(house: House) -> Iterator[None]:
    before = house.configured.now
    yield
    house.configure(before)


def with_gates(house: House, **gates: bool) -> None:
    document = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "featureGates": gates,
    }
    reading = configuration_of(document)
    assert reading.warnings == ()
    house.configure(replace(house.configured.now, jobs=reading.configuration.jobs))


def test_jobs_get_the_default_priority_class_where_that_is_asked_for(house: House) -> None:
    team = house.team()
    with_gates(house, WorkloadPriorityClassDefaulting=True)
    assert CLASS not in house.create(JOBS, job(team, "before"))["metadata"]["labels"]
    house.create(PRIORITY_CLASSES, {"metadata": {"name": "default"}, "value": 5})
    assert house.create(JOBS, job(team, "plain"))["metadata"]["labels"][CLASS] == "default"
    pod = {"metadata": {"name": "p", "namespace": team, "labels": {QUEUE: "lq"}}, "spec": template(1)["spec"]}
    assert house.create(PODS, pod)["metadata"]["labels"][CLASS] == "default"
    urgent = house.create(JOBS, with_label(job(team, "urgent"), CLASS, "high"))
    assert urgent["metadata"]["labels"][CLASS] == "high"
    with_gates(house)
    assert CLASS not in house.create(JOBS, job(team, "after"))["metadata"]["labels"]


@pytest.mark.parametrize("checked", [True, False])
def test_a_ray_cluster_that_runs_may_leave_its_queue_only_where_nobody_checks(house: House, checked: bool) -> None:
    team = house.team()
    with_gates(house, ValidateRayAndSparkJobUpdates=checked)
    spec = {"headGroupSpec": {"template": template(1), "rayStartParams": {}}}
    metadata = {"name": "ray", "namespace": team, "labels": {QUEUE: "lq"}}
    house.create(CLUSTERS, {"metadata": metadata, "spec": spec})
    house.until(lambda: not house.get(CLUSTERS, team, "ray")["spec"].get("suspend"))

    def leave() -> None:
        house.patch(CLUSTERS, team, "ray", {"metadata": {"labels": {QUEUE: None}}})

    if checked:
        assert "field is immutable" in house.refusal(leave)
    else:
        leave()
        assert QUEUE not in (house.get(CLUSTERS, team, "ray")["metadata"].get("labels") or {})
