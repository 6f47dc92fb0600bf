"""Hub and workers as processes of their own, over real sockets, while one of them is killed in the middle of the work."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.conformance import kubectls
from tests.conformance.hub import Hub, job

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not kubectls.found(), reason=kubectls.NONE_HERE),
]
JOBS = 50


@pytest.fixture
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("apart"), ["worker1", "worker2"], apart=True) as made:
        yield made


def done(hub: Hub) -> int:
    return sum((each.get("status") or {}).get("succeeded", 0) for each in hub.get("hub", "jobs")["items"])


@pytest.mark.parametrize("victim", ["worker1", "hub"])
def test_no_job_is_lost_when_a_cluster_is_killed_in_mid_flight(hub: Hub, victim: str) -> None:
    manifests = "\n---\n".join(job(f"train-{number}", command="sleep 1") for number in range(JOBS))
    hub.on("hub", "create -f -", manifests)
    hub.until(lambda: done(hub) >= JOBS // 5, "the jobs do not run")
    service = hub.services[victim]
    service.kill()
    time.sleep(2)
    service.start()
    hub.until(lambda: done(hub) == JOBS, "jobs are lost", 120)
    for workload in hub.get("hub", "workloads")["items"]:
        conditions = {each["type"]: each for each in workload["status"]["conditions"]}
        assert conditions["Finished"]["reason"] == "Succeeded", workload
    hub.on("hub", "delete jobs --all --wait=false")
    for worker in hub.workers:
        hub.until(lambda name=worker: not hub.get(name, "jobs,workloads")["items"], "something is left", 90)
