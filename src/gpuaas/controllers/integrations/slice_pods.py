"""Pods of elastic jobs: gated from their making, they are let go as far as their job's admitted slice has room.

A key is a job, as workloads are indexed by it. Its slices share one name, which its pods carry, so that a pod made for an earlier slice is ungated
against the one that holds quota now. A pod that was let go a moment ago counts as such before the news of it arrive.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.errors import NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.resources import PODS
from gpuaas.controllers.integrations.slices import holder_of, job_of, slice_of
from gpuaas.controllers.integrations.workloads import BY_JOB, count_ungated, jobs_of, patch_to
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import keys, outcome, slices
from gpuaas.kueue.integrations.jobs import is_elastic
from gpuaas.kueue.integrations.pods import has_gate
from gpuaas.observe.kueue import new_series
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import uid_of

BY_SLICE = "slice"


class SlicePodsController(Controller):
    name = "elastic-job-ungater"
    component = "elastic-job-ungater"
    workers = 4

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps)
        self._series = series or new_series()
        self._workloads = self.follow(deps.informers.of(WORKLOADS), _admitted)
        self._workloads.add_index(BY_JOB, jobs_of)
        self._pods = self.follow(deps.informers.of(PODS), self._job_of)
        self._pods.add_index(BY_SLICE, _slices_of)
        self._gone: dict[str, set[str]] = {}

    async def reconcile(self, key: str) -> Requeue | None:
        workload = holder_of(key, self._workloads)
        if workload is None or not is_elastic(workload) or not outcome.is_admitted(workload):
            return None
        namespace = workload["metadata"]["namespace"]
        pods = self._pods.indexed(BY_SLICE, f"{namespace}/{slices.slice_name(workload)}")
        gone = self._gone.pop(key, set()) & {uid_of(pod) for pod in pods if has_gate(pod, keys.ELASTIC)}
        for pod, ready in slices.may_go(workload, pods, gone):
            try:
                await patch_to(self.client, PODS, pod, ready)
            except NotFound:
                continue
            gone.add(uid_of(pod))
            self._gone[key] = gone
            count_ungated(self._series, keys.ELASTIC, workload, pod, self.clock.now())
        return None

    def _job_of(self, pod: Mapping[str, Any]) -> Iterable[str]:
        job = job_of(pod, self._workloads) if slice_of(pod) else None
        return () if job is None else (job,)


def _admitted(workload: Mapping[str, Any]) -> Iterable[str]:
    if is_elastic(workload) and outcome.is_admitted(workload) and not outcome.is_finished(workload):
        yield from jobs_of(workload)


def _slices_of(pod: Mapping[str, Any]) -> Iterable[str]:
    name = slice_of(pod)
    return (f"{pod['metadata']['namespace']}/{name}",) if name else ()
