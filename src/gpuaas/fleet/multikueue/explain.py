"""What `why` says about a dispatched workload beyond its own object: how its copies stand on the workers right now."""

from collections.abc import Iterator, Mapping

from gpuaas.base.clock import Clock
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.ocm import MISSING
from gpuaas.client.protocol import Object
from gpuaas.fleet.multikueue.shadow_pods import VIEW
from gpuaas.fleet.multikueue.worker import Worker
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.kueue.workload_state import conditions_of
from gpuaas.runtime.metadata import Key, annotations_of, key_of

_MOST_PODS = 3


def remote_lines(
    connections: Workers, workload: Object, problems: Mapping[str, str], lost_timeout: float, clock: Clock
) -> Iterator[str]:
    status = workload.get("status") or {}
    cluster = status.get("clusterName")
    if missing := annotations_of(workload).get(MISSING):
        yield f"its pods cannot start: {missing}"
    names = (cluster,) if cluster else tuple(status.get("nominatedClusterNames") or ())
    for name in names:
        worker = connections.get(name)
        if worker is None or not worker.connected:
            yield _lost(connections, name, worker, lost_timeout, clock, runs=bool(cluster))
        elif name in problems:
            yield f"{name}: no copy could be made there: {problems[name]}"
        else:
            yield from _copy(worker, key_of(workload))


def _lost(
    connections: Workers, name: str, worker: Worker | None, lost_timeout: float, clock: Clock, *, runs: bool
) -> str:
    since = max(0.0, clock.monotonic() - connections.lost_since(name))
    why = f": {worker.problem}" if worker is not None and worker.problem else ""
    line = f"{name}: cannot be reached since {since:.0f} s{why}"
    if not runs:
        return line
    left = max(0.0, lost_timeout - since)
    stops = "the job stops there by itself before" if worker is not None and worker.lease else "it may still run there"
    return f"{line}; in {left:.0f} s the job goes to another cluster; {stops}"


def _copy(worker: Worker, key: Key) -> Iterator[str]:
    copy = worker.get(WORKLOADS, *key)
    if copy is None:
        yield f"{worker.name}: its copy is being made"
        return
    found = conditions_of(copy)
    for kind in ("Finished", "Evicted", "Admitted"):
        condition = found.get(kind) or {}
        if condition.get("status") == "True":
            yield f"{worker.name}: {condition.get('message') or kind}"
            break
    else:
        waits = (found.get("QuotaReserved") or {}).get("message") or "not looked at yet"
        yield f"{worker.name}: waits there: {waits}"
    if worker.shows(VIEW):
        yield from _stuck_pods(worker, key)


def _stuck_pods(worker: Worker, key: Key) -> Iterator[str]:
    """What the worker's scheduler says of pods that have no node."""
    stuck = (
        (pod, conditions_of(pod).get("PodScheduled") or {})
        for pod in worker.extra[VIEW].of_workload(key.namespace, key.name)
    )
    waiting = [(pod, said) for pod, said in stuck if said.get("status") == "False"]
    for pod, said in waiting[:_MOST_PODS]:
        yield f"{worker.name}: pod {pod['metadata']['name']}: {said.get('message') or said.get('reason')}"
