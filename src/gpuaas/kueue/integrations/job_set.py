"""JobSets: one pod set for each replicated job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.fielderrors import child
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations.batch_job import INDEX
from gpuaas.kueue.integrations.integration import Find, Finish
from gpuaas.kueue.integrations.templated import Part, Templated, count_of, finish_by

Object = dict[str, Any]
View = Mapping[str, Any]

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", True, "JobSet")
JOB_INDEX = "jobset.sigs.k8s.io/job-index"


class JobSet(Templated):
    framework = "jobset.x-k8s.io/jobset"
    resource = JOB_SETS
    webhook = "jobset"

    def parts(self, job: View, find: Find) -> list[Part]:
        return replicated_parts(job["spec"].get("replicatedJobs") or ())

    def with_templates(self, job: View, templates: Sequence[Object]) -> Object:
        pairs = zip(job["spec"].get("replicatedJobs") or (), templates, strict=True)
        return {**job, "spec": {**job["spec"], "replicatedJobs": [_with(each, new) for each, new in pairs]}}

    def is_active(self, job: View) -> bool:
        return any(each.get("active") for each in _statuses(job))

    def finished(self, job: View) -> Finish | None:
        return finish_by(job, "Completed", "Failed")

    def pods_ready(self, job: View) -> bool:
        wanted = sum(count_of(each.get("replicas"), 1) for each in job["spec"].get("replicatedJobs") or ())
        ready: int = sum(each.get("ready", 0) + each.get("succeeded", 0) for each in _statuses(job))
        return wanted == ready

    def reclaimable(self, job: View, find: Find) -> dict[str, int]:
        succeeded = {each["name"]: each.get("succeeded", 0) for each in _statuses(job)}
        return ended_pods(job["spec"].get("replicatedJobs") or (), succeeded)


def replicated_parts(jobs: Sequence[View], path: str = "spec.replicatedJobs") -> list[Part]:
    return [
        Part(
            each["name"].lower(),
            count_of(each.get("replicas"), 1) * pods_of(each),
            each["template"]["spec"]["template"],
            child(path, index, "template", "spec", "template", "metadata"),
            INDEX,
            JOB_INDEX,
            count_of(each.get("replicas"), 1),
        )
        for index, each in enumerate(jobs)
    ]


def ended_pods(jobs: Sequence[View], succeeded: Mapping[str, int]) -> dict[str, int]:
    found = {}
    for each in jobs:
        done = succeeded.get(each["name"], 0)
        if 0 < done <= count_of(each.get("replicas"), 1):
            found[each["name"].lower()] = done * pods_of(each)
    return found


def pods_of(replicated: View) -> int:
    """Pods of one replica."""
    spec = replicated["template"]["spec"]
    parallelism = count_of(spec.get("parallelism"), 1)
    return min(parallelism, count_of(spec.get("completions"), parallelism))


def _statuses(job: View) -> Sequence[View]:
    return (job.get("status") or {}).get("replicatedJobsStatus") or ()


def _with(replicated: View, template: Object) -> Object:
    job = replicated["template"]
    return {**replicated, "template": {**job, "spec": {**job["spec"], "template": template}}}
