"""Which workers a workload is offered to: all at once, some more each round, or those that fit best.

The configuration names the dispatcher. Where it names none, queues whose clusters a Placement chooses are dispatched by
fit (`kueue.multikueue.fit`) and all others to every cluster at once. What was considered is noted on the workload, in the
annotation `gpuaas.dev/dispatch`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import ADMISSION_CHECKS, WORKLOADS
from gpuaas.client.protocol import Object
from gpuaas.fleet.multikueue.promises import Promises
from gpuaas.fleet.multikueue.worker import Worker
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.multikueue import fit
from gpuaas.kueue.multikueue.adapters import Adapter
from gpuaas.kueue.multikueue.decide import Remote
from gpuaas.kueue.multikueue.explain import candidates
from gpuaas.kueue.multikueue.fit import Candidate, Room, Verdict
from gpuaas.kueue.multikueue.names import DISPATCH, PIN, PREFER, UPSTREAM_PIN
from gpuaas.kueue.multikueue.rules import ALL_AT_ONCE, BY_FIT, INCREMENTAL, ROUND_SECONDS
from gpuaas.kueue.quotas import cluster_queue_named
from gpuaas.kueue.workload_state import conditions_of, holds
from gpuaas.runtime.controller import Deps
from gpuaas.runtime.events import NORMAL, Recorder
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import Key, key_of, uid_of

PLACEMENT = "open-cluster-management.io/placement"
QUEUES, LOCALS = "clusterqueues", "localqueues"
"""What the views of a worker's queues are called."""
_AGAIN = 5.0
_EVENT_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Choice:
    clusters: tuple[str, ...] | None
    """None: an external dispatcher writes the nominations."""
    again: float | None = None
    """Seconds until more are nominated."""
    verdicts: tuple[Verdict, ...] = ()


class Nominations:
    def __init__(
        self, deps: Deps, connections: Workers, configured: Configured, recorder: Recorder, *, strict: bool = False
    ) -> None:
        self._client = deps.client
        self._clock = deps.clock
        self._connections = connections
        self._configured = configured
        self._recorder = recorder
        self._strict = strict
        self._checks = deps.informers.of(ADMISSION_CHECKS)
        self._workloads = deps.informers.of(WORKLOADS)
        self._promises = Promises(deps.clock)
        self._rounds: dict[Key, tuple[str, float]] = {}
        """When the first round of a workload began; of which uid."""
        self._problems: dict[Key, dict[str, str]] = {}
        self.stuck: set[Key] = set()
        """Workloads that no cluster can take now: a change of a worker's queues concerns them."""

    @property
    def informers(self) -> Iterable[Informer]:
        return (self._checks,)

    def choose(
        self,
        workload: Object,
        adapter: Adapter,
        config: Object | None,
        remotes: Sequence[Remote],
        notes: Mapping[str, str],
    ) -> Choice:
        """`notes`: the annotations of the job, which may name clusters."""
        key, status = key_of(workload), workload.get("status") or {}
        if config is None or not holds(workload, "QuotaReserved") or status.get("clusterName"):
            self._rounds.pop(key, None)
            self.stuck.discard(key)
            if status.get("clusterName"):
                self._promises.admitted(key)
            else:
                self._promises.withdraw(key)
            return Choice(None)
        offered = [each for each in remotes if each.offered]
        pinned = () if self._strict else _names(notes.get(PIN) or notes.get(UPSTREAM_PIN, ""))
        dispatcher = self._dispatcher(status)
        if dispatcher == BY_FIT:
            return self._by_fit(workload, adapter, offered, pinned, _names(notes.get(PREFER, "")))
        allowed = [each for each in offered if not pinned or each.name in pinned]
        if dispatcher == ALL_AT_ONCE:
            return Choice(tuple(each.name for each in allowed if each.connected and each.usable))
        if dispatcher == INCREMENTAL:
            return self._incremental(workload, [each.name for each in allowed])
        return Choice(None)

    def _dispatcher(self, status: Mapping[str, Any]) -> str:
        named = self._configured.now.multikueue.dispatcher
        if named or self._strict:
            return named or ALL_AT_ONCE
        for each in status.get("admissionChecks") or ():
            check = self._checks.get("", each["name"]) or {}
            if (check.get("spec") or {}).get("controllerName") == PLACEMENT:
                return BY_FIT
        return ALL_AT_ONCE

    def _incremental(self, workload: Object, offered: Sequence[str]) -> Choice:
        """Nominates `step_size` more clusters each round, in the order of the configuration, connected or not."""
        key, uid, now = key_of(workload), uid_of(workload), self._clock.monotonic()
        known = self._rounds.get(key)
        if known is None or known[0] != uid:
            known = self._rounds[key] = uid, now
        rounds = int((now - known[1]) // ROUND_SECONDS) + 1
        number = rounds * self._configured.now.multikueue.step_size
        before = [each for each in _nominated(workload) if each in offered]
        more = [each for each in offered if each not in before][: max(0, number - len(before))]
        left = known[1] + rounds * ROUND_SECONDS - now
        return Choice((*before, *more), left if number < len(offered) else None)

    # By fit.

    def _by_fit(
        self,
        workload: Object,
        adapter: Adapter,
        offered: Sequence[Remote],
        pinned: Sequence[str],
        preferred: Sequence[str],
    ) -> Choice:
        key, needs = key_of(workload), fit.needs_of(workload)
        weighed = [self._candidate(each, workload, adapter) for each in offered]
        kept = _nominated(workload)
        verdicts = fit.choose(needs, weighed, pinned=pinned, preferred=preferred, kept=kept)
        clusters = tuple(each.cluster for each in verdicts if each.chosen)
        self._promises.offer(key, clusters, needs)
        if clusters:
            self.stuck.discard(key)
        else:
            self.stuck.add(key)
        return Choice(clusters, _AGAIN, tuple(verdicts))

    def _candidate(self, remote: Remote, workload: Object, adapter: Adapter) -> Candidate:
        worker = self._connections.get(remote.name)
        if worker is None or not remote.connected:
            why = worker.problem if worker is not None and worker.problem else "the connection is lost"
            return Candidate(remote.name, f"not connected: {why}")
        if not remote.usable:
            return Candidate(remote.name, f"cannot run this kind: {worker.unusable.get(adapter.resource, '')}")
        count, amounts = self._promises.of(remote.name, key_of(workload))
        room, problem = self._room(worker, workload)
        known = self._problems.get(key_of(workload), {}).get(remote.name, "")
        return Candidate(remote.name, problem or known, room, amounts, count)

    def _room(self, worker: Worker, workload: Object) -> tuple[Room | None, str]:
        """The quota of the worker's queue, or why the queue cannot be used."""
        if not (worker.shows(LOCALS) and worker.shows(QUEUES)):
            return None, ""
        namespace, name = workload["metadata"]["namespace"], (workload.get("spec") or {}).get("queueName", "")
        local = worker.extra[LOCALS].get(namespace, name)
        if local is None:
            return None, f"LocalQueue {name} doesn't exist in namespace {namespace} there"
        queue = worker.extra[QUEUES].get("", cluster_queue_named(local))
        if queue is None:
            return None, f"ClusterQueue {cluster_queue_named(local)} doesn't exist there"
        active = conditions_of(queue).get("Active") or {}
        if active.get("status") == "False":
            return None, f"ClusterQueue {cluster_queue_named(local)} is inactive there: {active.get('message', '')}"
        return fit.room_of(queue), ""

    # What was considered.

    async def record(self, workload: Object, choice: Choice, *, nominated: bool) -> None:
        """Notes the candidates on the workload and records an event: when they are nominated, and, where no cluster can
        take the workload, when the reasons change. A failure to write the note does not stop the dispatch."""
        if not choice.verdicts or not (nominated or self._reasons_changed(workload, choice)):
            return
        noted = {
            "time": rfc3339(self._clock.now()),
            "candidates": [
                {"cluster": each.cluster, "chosen": each.chosen, "reason": each.reason} for each in choice.verdicts
            ],
        }
        key = key_of(workload)
        patch = {"metadata": {"annotations": {DISPATCH: msgspec.json.encode(noted).decode()}}}
        try:
            await self._client.patch(WORKLOADS, key.name, patch, key.namespace)
        except ApiError:
            return
        chosen = [f"{each.cluster} ({each.reason})" for each in choice.verdicts if each.chosen]
        others = [f"{each.cluster} ({each.reason})" for each in choice.verdicts if not each.chosen]
        words = f"Offered to {', '.join(chosen) or 'no cluster'}" + (f"; not to {', '.join(others)}" if others else "")
        self._recorder.event(WORKLOADS, workload, NORMAL, "Dispatched", words[:_EVENT_LIMIT], action="Dispatched")

    def _reasons_changed(self, workload: Object, choice: Choice) -> bool:
        if choice.clusters:
            return False
        known = [(each.get("cluster"), each.get("reason")) for each in candidates(workload)]
        return known != [(each.cluster, each.reason) for each in choice.verdicts]

    def problem(self, workload: Object, cluster: str, words: str) -> None:
        """Why a copy could not be made there; empty: it could."""
        problems = self._problems.setdefault(key_of(workload), {})
        if words:
            problems[cluster] = words
        elif problems.pop(cluster, None) is None and not problems:
            del self._problems[key_of(workload)]

    def problems(self, key: Key) -> Mapping[str, str]:
        return self._problems.get(key, {})

    def forget(self, key: Key) -> None:
        self._rounds.pop(key, None)
        self._problems.pop(key, None)
        self.stuck.discard(key)
        self._promises.withdraw(key)


def _nominated(workload: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple((workload.get("status") or {}).get("nominatedClusterNames") or ())


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())
