"""Kill the whole service with SIGKILL, again and again, in the middle of thousands of running and waiting jobs.

`python -m tests.conformance.outage --jobs 5000 --kills 8`. The same jobs go through a service that is never disturbed
and through one that is killed and started again; both must end alike. From the store's own log every revision is
checked (module history): no quota over-committed, no job twice at a time, no node overfull.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.conformance.history import GPU, History, Object, Rules
from tests.conformance.service import Service
from tests.conformance.wire import Closed

COHORTS, QUEUES = 4, 5
NOMINAL, BORROWING = 8, 16
NAMESPACE = "default"
_JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_WORKLOADS = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"


@dataclass
class Outcome:
    ends: dict[str, str] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    kills: int = 0
    seconds: float = 0.0

    def report(self) -> str:
        counts = ", ".join(f"{number} {end}" for end, number in sorted(Counter(self.ends.values()).items()))
        return (
            f"{self.kills} kills, {self.seconds:.0f} s, {self.rules.changes} revisions checked, "
            f"{len(self.rules.broken)} broken rules, at most {self.rules.most_held} workloads held quota, "
            f"{self.rules.preempted} preempted; {counts}"
        )


def queue_names() -> list[tuple[str, str]]:
    return [(f"cohort-{cohort}", f"queue-{cohort}-{number}") for cohort in range(COHORTS) for number in range(QUEUES)]


def fleet() -> str:
    """Room for all the quota there is, and the queues."""
    nodes = COHORTS * QUEUES * NOMINAL // 8 + 4  # whole jobs have to find whole nodes
    node = {"name": "gpu", "count": nodes, "gpu": {"product": "NVIDIA-H200", "count": 8}, "cpu": 512, "memory": "8Ti"}
    documents: list[Object] = [{"clusters": [{"name": "local", "nodes": [{**node, "pods": 500}]}]}]
    api = "kueue.x-k8s.io/v1beta2"
    documents.append({"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "h200"}})
    for priority, value in (("low", 10), ("high", 100)):
        meta = {"name": priority}
        documents.append({"apiVersion": api, "kind": "WorkloadPriorityClass", "metadata": meta, "value": value})
    for cohort, name in queue_names():
        quota = {"name": GPU, "nominalQuota": NOMINAL, "borrowingLimit": BORROWING}
        spec = {
            "cohortName": cohort,
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": "h200", "resources": [quota]}]}],
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        }
        documents.append({"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
        meta = {"name": name, "namespace": NAMESPACE}
        documents.append({"apiVersion": api, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": name}})
    return yaml.safe_dump_all(documents)


def jobs(count: int, seed: int) -> list[Object]:
    """Most end well, some fail, a few can never be admitted."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        _, queue = chance.choice(queue_names())
        gpus = 1000 if number % 100 == 99 else chance.choice([1, 1, 1, 2, 2, 4, 8])
        notes = {"gpuaas.dev/run-seconds": str(round(chance.uniform(0.2, 3.0), 1))}
        if number % 20 == 19:
            notes["gpuaas.dev/fail"] = "3"
        labels = {
            "kueue.x-k8s.io/queue-name": queue,
            "kueue.x-k8s.io/priority-class": chance.choice(["low", "low", "low", "high"]),
        }
        container = {"name": "c", "image": "none", "resources": {"requests": {GPU: gpus}, "limits": {GPU: gpus}}}
        template = {"metadata": {"annotations": notes}, "spec": {"restartPolicy": "Never", "containers": [container]}}
        meta = {"name": f"job-{number:05}", "labels": labels}
        found.append({"metadata": meta, "spec": {"backoffLimit": 0, "suspend": True, "template": template}})
    return found


class Submission:
    """Sends all jobs, however often the service goes away in between."""

    def __init__(self, service: Service, todo: list[Object]) -> None:
        self._service = service
        self._todo = todo[::-1]

    @property
    def left(self) -> int:
        return len(self._todo)

    def some(self, until: float) -> None:
        headers = {"authorization": f"Bearer {self._service.token}", "content-type": "application/json"}
        with closing(self._service.connect()) as wire:
            while self._todo and time.monotonic() < until:
                answer = wire.ask("POST", _JOBS, headers, json.dumps(self._todo[-1]).encode())
                assert answer.status in (201, 409), answer.body[:300]  # 409: it was taken, the answer was lost
                self._todo.pop()


def run(folder: Path, count: int, kills: int, seed: int = 0, limit: float = 1800.0) -> Outcome:
    chance, outcome = random.Random(seed), Outcome()
    folder.mkdir()
    (folder / "fleet.yaml").write_text(fleet())
    began = time.monotonic()
    with Service(folder / "home", "--fleet", str(folder / "fleet.yaml")) as service:
        history = History(folder / "home" / "clusters" / "local.db")
        todo = Submission(service, jobs(count, seed))
        every = count / (kills + 1)
        while not _done(service, todo, count, outcome):
            assert time.monotonic() - began < limit, f"after {limit:.0f} s: {outcome.report()}"
            try:
                todo.some(time.monotonic() + 1.0)
            except (Closed, OSError):
                assert service.process is not None
                assert service.process.poll() is None, service.log.read_text()[-2000:]
            _hear(history, outcome)
            finished = sum(end != "waits" for end in outcome.ends.values())
            if outcome.kills < kills and finished >= every * (outcome.kills + 0.5):
                time.sleep(chance.uniform(0.0, 0.3))  # the moment of the kill is what is tested
                service.kill()
                outcome.kills += 1
                _hear(history, outcome)
                service.start()
        _hear(history, outcome)
    _hear(history, outcome)
    outcome.seconds = time.monotonic() - began
    return outcome


def _hear(history: History, outcome: Outcome) -> None:
    for revision, key, obj in history.read():
        outcome.rules.hear(revision, key, obj)


def _done(service: Service, todo: Submission, count: int, outcome: Outcome) -> bool:
    """Whether everything that can end has ended; notes how each job stands."""
    time.sleep(0.2)
    try:
        listed = service.ask("GET", _JOBS).json()["items"]
        if len(listed) < count or any(not _ended(job) and not _hopeless(job) for job in listed):
            outcome.ends = {job["metadata"]["name"]: "ended" if _ended(job) else "waits" for job in listed}
            return False
        outcome.ends = {job["metadata"]["name"]: _end(job) for job in listed}
        held = [each for each in service.ask("GET", _WORKLOADS).json()["items"] if not _finished(each)]
    except (Closed, OSError):
        return False
    # Of several that can never be admitted for the same reason, one is told.
    return todo.left == 0 and len(held) == sum(map(_hopeless, listed)) and (not held or any(map(_waits, held)))


def _ended(job: Any) -> bool:
    return any(each["type"] in ("Complete", "Failed") for each in job["status"].get("conditions") or ())


def _hopeless(job: Any) -> bool:
    return bool(job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][GPU] == "1k")


def _end(job: Any) -> str:
    conditions = job["status"].get("conditions") or ()
    found = next((each for each in conditions if each["type"] in ("Complete", "Failed")), None)
    return "waits" if found is None else f"{found['type']} {found.get('reason', '')}".strip()


def _finished(workload: Any) -> bool:
    return any(each["type"] == "Finished" for each in (workload.get("status") or {}).get("conditions") or ())


def _waits(workload: Any) -> str:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    found = next((each for each in conditions if each["type"] == "QuotaReserved"), None)
    return "" if found is None or found["status"] == "True" else f"{found['reason']}: {found['message']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        disturbed = run(Path(folder) / "disturbed", options.jobs, options.kills, options.seed)
        print(disturbed.report(), flush=True)
        calm = run(Path(folder) / "calm", options.jobs, 0, options.seed)
        print(calm.report())
    different = [name for name, end in calm.ends.items() if disturbed.ends.get(name) != end]
    for name in different[:10]:
        print(f"{name}: {calm.ends[name]!r} undisturbed, {disturbed.ends.get(name)!r} disturbed")
    for words in [*disturbed.rules.broken, *calm.rules.broken][:20]:
        print(words)
    print(f"{len(different)} of {len(calm.ends)} jobs ended otherwise")
    return 1 if different or disturbed.rules.broken or calm.rules.broken else 0


if __name__ == "__main__":
    sys.exit(main())
