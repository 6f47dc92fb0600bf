"""A few kills in the middle of running and waiting jobs; `python -m tests.conformance.outage` does thousands of jobs."""

from pathlib import Path
from typing import Any

from tests.conformance.history import GPU, Rules
from tests.conformance.outage import jobs, run


def test_kill_9_in_the_middle_of_jobs_changes_no_end_overcommits_nothing_and_runs_none_twice(tmp_path: Path) -> None:
    outcome = run(tmp_path / "home", count=60, kills=2, seed=1)
    assert outcome.kills == 2
    assert outcome.rules.broken == []
    assert outcome.rules.most_held > 5, "jobs ran side by side"
    ends = {job["metadata"]["name"]: _expected(job) for job in jobs(60, 1)}
    assert {name: end.split()[0] for name, end in outcome.ends.items()} == ends


def _expected(job: Any) -> str:
    return "Failed" if "gpuaas.dev/fail" in job["spec"]["template"]["metadata"]["annotations"] else "Complete"


def test_the_judge_of_the_log_sees_what_must_not_be() -> None:
    rules = Rules()
    for name in ("a", "b"):
        quota = {"name": GPU, "nominalQuota": "4", "borrowingLimit": "2"}
        spec = {"cohortName": "all", "resourceGroups": [{"flavors": [{"resources": [quota]}]}]}
        rules.hear(1, f"kueue.x-k8s.io/clusterqueues//{name}", {"metadata": {"name": name}, "spec": spec})
    rules.hear(2, "/nodes//n", {"metadata": {"name": "n"}, "status": {"allocatable": {GPU: "2"}}})

    rules.hear(3, "kueue.x-k8s.io/workloads/ns/one", _holding("a", 6))
    assert rules.broken == []
    rules.hear(4, "kueue.x-k8s.io/workloads/ns/two", _holding("a", 1))
    assert rules.broken.pop() == "revision 4: a uses 7 of 6"
    rules.hear(5, "kueue.x-k8s.io/workloads/ns/two", None)
    rules.hear(6, "kueue.x-k8s.io/workloads/ns/three", _holding("b", 3))
    assert rules.broken.pop() == "revision 6: cohort all uses 9 of 8"

    rules.hear(7, "/pods/ns/p1", _running("job", "n", 1))
    rules.hear(8, "/pods/ns/p2", _running("other", "n", 2))
    assert rules.broken.pop() == "revision 8: n holds 3 GPUs"
    rules.hear(9, "/pods/ns/p2", _running("job", "n", 1))
    assert rules.broken.pop() == "revision 9: job job runs 2 times at once"
    rules.hear(10, "/pods/ns/p1", {**_running("job", "n", 1), "status": {"phase": "Succeeded"}})
    rules.hear(11, "/pods/ns/p2", _running("job", "n", 1))
    assert rules.broken == []


def _holding(queue: str, gpus: int) -> Any:
    given = {
        "clusterQueue": queue,
        "podSetAssignments": [{"name": "main", "count": 1, "resourceUsage": {GPU: str(gpus)}}],
    }
    return {"status": {"admission": given, "conditions": [{"type": "QuotaReserved", "status": "True"}]}}


def _running(job: str, node: str, gpus: int) -> Any:
    containers = [{"resources": {"requests": {GPU: str(gpus)}}}]
    meta = {"name": "p", "uid": "u", "ownerReferences": [{"uid": job}]}
    return {"metadata": meta, "spec": {"nodeName": node, "containers": containers}, "status": {"phase": "Running"}}
