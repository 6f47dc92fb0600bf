"""Pods of workloads that were given places: each is bound to its own and let go to the scheduler."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.errors import NotFound
from gpuaas.base.numbers import natural
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS
from gpuaas.controllers.integrations.slices import holder_of, job_of, slice_of
from gpuaas.controllers.integrations.workloads import BY_JOB, count_ungated, jobs_of, patch_to
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations import keys, outcome
from gpuaas.kueue.integrations.jobs import is_elastic
from gpuaas.kueue.integrations.places import layout, ungated
from gpuaas.kueue.integrations.pods import has_gate
from gpuaas.kueue.integrations.slices import slice_name
from gpuaas.kueue.topology_assignment import is_placed_pod, unhealthy_of
from gpuaas.observe.kueue import new_series
from gpuaas.observe.series import Series
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, annotations_of, labels_of

BY_WORKLOAD = "workload"


class PlacesController(Controller):
    name = "tas-topology-ungater"
    component = "tas-topology-ungater"
    workers = 4

    def __init__(self, deps: Deps, configured: Configured | None = None, series: Series | None = None) -> None:
        super().__init__(deps)
        self._series = series or new_series()
        self._workloads = self.follow(deps.informers.of(WORKLOADS), _placed)
        self._workloads.add_index(BY_JOB, jobs_of)
        self._pods = self.follow(deps.informers.of(PODS), self._workload_of)
        self._pods.add_index(BY_WORKLOAD, _workload_name)

    async def reconcile(self, key: Key) -> Requeue | None:
        workload = self._workloads.get(*key)
        if workload is None or not outcome.is_admitted(workload) or outcome.eviction_of(workload) is not None:
            return None
        elastic = is_elastic(workload)
        if elastic and workload not in [holder_of(job, self._workloads) for job in jobs_of(workload)]:
            return None  # another slice has taken over its pods
        pods = self._pods.indexed(BY_WORKLOAD, f"{key.namespace}/{slice_name(workload) if elastic else key.name}")
        if elastic:
            pods = [pod for pod in pods if not has_gate(pod, keys.ELASTIC)]  # who has no quota needs no place yet
        if not any(has_gate(pod, keys.TOPOLOGY_GATE) for pod in pods):
            return None
        for assignment, request, first in _pod_sets(workload):
            if elastic:
                request = None  # its pods are where they were when it was smaller, whatever their ranks
            mine = [pod for pod in pods if labels_of(pod).get(keys.POD_SET) == assignment["name"]]
            for pod, labels in layout(
                assignment, request, mine, first=first + _offset(mine), failed=unhealthy_of(workload)
            ):
                if has_gate(pod):
                    continue  # it has not been started yet
                try:
                    await patch_to(self.client, PODS, pod, ungated(pod, labels))
                except NotFound:
                    continue
                count_ungated(self._series, keys.TOPOLOGY_GATE, workload, pod, self.clock.now())
        return None

    def _workload_of(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        """Also of pods that have their place: when one leaves, another may have it."""
        name = annotations_of(pod).get(keys.WORKLOAD)
        if not name or not (has_gate(pod, keys.TOPOLOGY_GATE) or is_placed_pod(pod)):
            return
        job = job_of(pod, self._workloads) if slice_of(pod) else None
        holder = holder_of(job, self._workloads) if job is not None else None
        yield Key(pod["metadata"]["namespace"], name if holder is None else holder["metadata"]["name"])


def _pod_sets(workload: Object) -> Iterable[tuple[Object, Object | None, int]]:
    """Each placed pod set with its request and the rank of its first pod: behind a leader placed with it, not 0."""
    requests = {each.get("name"): each.get("topologyRequest") for each in workload["spec"].get("podSets") or ()}
    assignments = workload["status"]["admission"].get("podSetAssignments") or ()
    for assignment in assignments:
        if assignment.get("topologyAssignment"):
            request = requests.get(assignment["name"])
            group = (request or {}).get("podSetGroupName")
            others = [
                each["count"]
                for each in assignments
                if group
                and each is not assignment
                and (requests.get(each["name"]) or {}).get("podSetGroupName") == group
            ]
            behind = bool(others) and others[0] < assignment["count"]
            yield assignment, request, others[0] if behind else 0


def _offset(pods: Sequence[Object]) -> int:
    """How far the ranks of the set's pods are off; all say the same."""
    said = annotations_of(pods[0]).get(keys.INDEX_OFFSET, "") if pods else ""
    return natural(said) or 0


def _placed(workload: Mapping[str, Any]) -> Iterable[Key]:
    assignments = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    if any(each.get("topologyAssignment") for each in assignments):
        yield Key(workload["metadata"]["namespace"], workload["metadata"]["name"])


def _workload_name(pod: Mapping[str, Any]) -> Iterable[str]:
    name = slice_of(pod) or annotations_of(pod).get(keys.WORKLOAD)
    return (f"{pod['metadata']['namespace']}/{name}",) if name else ()
