"""From the submission of an important job to its victim's eviction and its own admission, in an idle fleet of 100 queues.

Each queue's quota is taken by a job of low priority that really runs on a (simulated) node. Then, one queue after the
other, a job of high priority is submitted over HTTPS, and a watch tells when the victim's workload says Evicted and
when the new one says Admitted. In between lie the decision, the victim's suspension, the end of its pod and the release
of its quota.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from bench.embedded import embedded
from bench.show import progress, table
from gpuaas.client.http import HttpClient, from_kubeconfig
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.resources import JOBS
from gpuaas.kueue.workload_state import conditions_of, is_true

QUEUES, GPUS = 100, 8
GPU = "nvidia.com/gpu"
LIMIT = 0.2
Object = dict[str, Any]


def fleet() -> str:
    api = "kueue.x-k8s.io/v1beta2"
    node = {
        "name": "gpu",
        "count": QUEUES,
        "gpu": {"product": "NVIDIA-H200", "count": GPUS},
        "cpu": 96,
        "memory": "1Ti",
    }
    documents: list[Object] = [{"clusters": [{"name": "local", "nodes": [node]}]}]
    documents.append({"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "h200"}})
    for name, value in (("low", 10), ("high", 1000)):
        documents.append(
            {"apiVersion": api, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        )
    for number in range(QUEUES):
        name = f"queue-{number}"
        flavor = {"name": "h200", "resources": [{"name": GPU, "nominalQuota": GPUS}]}
        spec = {
            "cohortName": f"cohort-{number // 10}",
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [flavor]}],
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        }
        documents.append({"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec})
        meta = {"name": name, "namespace": "default"}
        documents.append({"apiVersion": api, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": name}})
    return yaml.safe_dump_all(documents)


def job(name: str, queue: str, priority: str) -> Object:
    labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/priority-class": priority}
    container = {"name": "c", "image": "none", "resources": {"limits": {GPU: GPUS}}}
    template = {
        "metadata": {"annotations": {"gpuaas.dev/run-seconds": "3600"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": {"suspend": True, "template": template}}


class Story:
    """When each workload, by its job, was first seen admitted and evicted."""

    def __init__(self) -> None:
        self.admitted: dict[str, float] = {}
        self.evicted: dict[str, float] = {}
        self._news = asyncio.Event()

    async def follow(self, client: HttpClient) -> None:
        async for event in client.watch(WORKLOADS, timeout_seconds=3600):
            owners = event.object["metadata"].get("ownerReferences") or ()
            conditions = conditions_of(event.object)
            for owner in owners:
                for seen, name in ((self.admitted, "Admitted"), (self.evicted, "Evicted")):
                    if is_true(conditions.get(name)):
                        seen.setdefault(owner["name"], time.monotonic())
            self._news.set()

    async def until(self, seen: dict[str, float], *names: str) -> None:
        async with asyncio.timeout(120):
            while not all(name in seen for name in names):
                self._news.clear()
                await self._news.wait()


async def tell(kubeconfig: Path) -> tuple[list[float], list[float]]:
    evictions, admissions = [], []
    async with from_kubeconfig(kubeconfig) as client:
        story = Story()
        following = asyncio.create_task(story.follow(client))
        for number in range(QUEUES):
            await client.create(JOBS, job(f"low-{number}", f"queue-{number}", "low"), "default")
        await story.until(story.admitted, *(f"low-{number}" for number in range(QUEUES)))
        await asyncio.sleep(3)  # idle from here on
        for number in range(QUEUES):
            progress(f"preemption {number + 1} of {QUEUES}")
            began = time.monotonic()
            await client.create(JOBS, job(f"high-{number}", f"queue-{number}", "high"), "default")
            await story.until(story.evicted, f"low-{number}")
            await story.until(story.admitted, f"high-{number}")
            evictions.append(story.evicted[f"low-{number}"] - began)
            admissions.append(story.admitted[f"high-{number}"] - began)
            await asyncio.sleep(0.1)
        progress("")
        following.cancel()
    return evictions, admissions


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.yaml"
        path.write_text(fleet())
        with embedded("--fleet", str(path)) as kubeconfig:
            evictions, admissions = asyncio.run(tell(kubeconfig))
    rows = [_row("victim evicted", evictions, ""), _row("newcomer admitted", admissions, f"< {LIMIT * 1000:.0f} ms")]
    table(f"Preemption, from the submission, {QUEUES} times", ("", "p50", "p99", "worst", "wanted"), rows)
    return {"evicted_s": evictions, "admitted_s": admissions}


def _row(name: str, seconds: list[float], wanted: str) -> tuple[str, ...]:
    ordered = sorted(seconds)
    picks = (ordered[len(ordered) // 2], ordered[int(0.99 * (len(ordered) - 1))], ordered[-1])
    return (name, *(f"{each * 1000:.0f} ms" for each in picks), wanted)
