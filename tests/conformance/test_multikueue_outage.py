"""Hub and workers as processes of their own, over real sockets, while one of them is killed in the middle of the work."""

from __future__ import annotations

import os
import signal
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
CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue: {workerLostTimeout: 6s}
"""


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


@pytest.mark.parametrize("loss", ["killed", "frozen"])
def test_a_job_of_a_lost_worker_goes_to_another_and_stays_there(
    loss: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`frozen`: the process stands still with its connections open, so that only silence tells of it."""
    folder = tmp_path_factory.mktemp("lost")
    configuration = folder / "kueue.yaml"
    configuration.write_text(CONFIGURATION)
    with Hub(folder, ["worker1", "worker2"], "--kueue-config", str(configuration), apart=True) as hub:
        hub.on("hub", "create -f -", job("train", command="sleep 30"))
        hub.until(lambda: hub.get("hub", "job train")["status"].get("active") == 1, "the job does not run")
        [workload] = hub.get("hub", "workloads")["items"]
        first = workload["status"]["clusterName"]
        other = "worker2" if first == "worker1" else "worker1"
        service = hub.services[first]
        if loss == "killed":
            service.kill()
        else:
            os.kill(service.pid, signal.SIGSTOP)
        try:
            hub.until(lambda: _cluster(hub) == other, "the job stays with the lost worker", 60)
        finally:
            if loss == "killed":
                service.start()
            else:
                os.kill(service.pid, signal.SIGCONT)
        hub.until(lambda: not hub.get(first, "jobs,workloads")["items"], "the old copy stays", 90)
        assert _cluster(hub) == other, "clusterName wins when the lost worker returns"
        hub.until(lambda: done(hub) == 1, "the job does not end", 120)


def _cluster(hub: Hub) -> str:
    [workload] = hub.get("hub", "workloads")["items"]
    return str(workload["status"].get("clusterName") or "")
