"""Which workers a workload is offered to: all at once, some more each round, or those that fit best.

Each workload has one dispatcher, named by the configuration; where it names none, queues whose clusters a Placement
chooses are dispatched by fit and all others at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuaas.client.protocol import Object
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.multikueue.adapters import Adapter
from gpuaas.kueue.multikueue.decide import Remote
from gpuaas.kueue.multikueue.rules import ALL_AT_ONCE, INCREMENTAL, ROUND_SECONDS
from gpuaas.kueue.workload_state import holds
from gpuaas.runtime.controller import Deps
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import Key, key_of, uid_of


@dataclass(frozen=True, slots=True)
class Choice:
    clusters: tuple[str, ...] | None
    """None: another dispatcher nominates."""
    again: float | None = None
    """Seconds until more are nominated."""


class Nominations:
    def __init__(self, deps: Deps, connections: Workers, configured: Configured, *, strict: bool = False) -> None:
        self._clock = deps.clock
        self._connections = connections
        self._configured = configured
        self._strict = strict
        self._rounds: dict[Key, tuple[str, float]] = {}
        """When the first round of a workload began; of which uid."""
        self._problems: dict[Key, dict[str, str]] = {}

    @property
    def informers(self) -> Iterable[Informer]:
        return ()

    def choose(
        self, workload: Object, check: Object, adapter: Adapter, config: Object | None, remotes: Sequence[Remote]
    ) -> Choice:
        if config is None or not holds(workload, "QuotaReserved") or (workload.get("status") or {}).get("clusterName"):
            self._rounds.pop(key_of(workload), None)
            return Choice(None)
        dispatcher = self._configured.now.multikueue.dispatcher or ALL_AT_ONCE
        if dispatcher == ALL_AT_ONCE:
            usable = (each for each in remotes if each.connected and each.offered and each.usable)
            return Choice(tuple(each.name for each in usable))
        if dispatcher == INCREMENTAL:
            return self._incremental(workload, [each.name for each in remotes if each.offered])
        return Choice(None)

    def _incremental(self, workload: Object, offered: Sequence[str]) -> Choice:
        """In the order of the configuration, so many more each round, whether they are connected or not."""
        key, uid, now = key_of(workload), uid_of(workload), self._clock.monotonic()
        known = self._rounds.get(key)
        if known is None or known[0] != uid:
            known = self._rounds[key] = uid, now
        rounds = int((now - known[1]) // ROUND_SECONDS) + 1
        number = rounds * self._configured.now.multikueue.step_size
        before = [each for each in (workload.get("status") or {}).get("nominatedClusterNames") or () if each in offered]
        more = [each for each in offered if each not in before][: max(0, number - len(before))]
        left = known[1] + rounds * ROUND_SECONDS - now
        return Choice((*before, *more), left if number < len(offered) else None)

    async def record(self, workload: Object, clusters: Sequence[str]) -> None:
        """What was considered is noted on the workload."""

    def problem(self, workload: Object, cluster: str, words: str) -> None:
        """Why a copy could not be made there; empty: it could."""
        problems = self._problems.setdefault(key_of(workload), {})
        if words:
            problems[cluster] = words
        else:
            problems.pop(cluster, None)

    def forget(self, key: Key) -> None:
        self._rounds.pop(key, None)
        self._problems.pop(key, None)
