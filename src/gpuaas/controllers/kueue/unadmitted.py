"""Workloads that are not admitted, where the configuration asks for finer words: why each, and how many for what.

The words are `admission.unadmitted`'s. Counts are kept as workloads change, by LocalQueue.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

from gpuaas.client.protocol import Object
from gpuaas.engine.engine import Engine
from gpuaas.engine.items import Shape
from gpuaas.engine.plan import Plan
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.unadmitted import MISCONFIGURED, SUSPENDED, Said, reason_of, standing, why_unreserved
from gpuaas.runtime.informer import Informer

Place = tuple[str, str, str, str]
"""Namespace and name of the LocalQueue, reason, cause."""


class FinerReasons:
    def __init__(self, engine: Engine, configured: Configured) -> None:
        self._engine = engine
        self._configured = configured
        self._passed: WeakKeyDictionary[Shape, str] = WeakKeyDictionary()
        """Why workloads of a shape were passed over when one was last looked at."""

    def looked(self, plan: Plan) -> None:
        if self._configured.now.reasons.granular:
            for passed in plan.skipped:
                item = self._engine.items.get(passed.key)
                if item is not None:
                    self._passed[item.shape] = reason_of(passed.token)

    def why(self, obj: Object, unusable: str) -> Said | None:
        """What its condition should say; `unusable`: what is wrong with its queue."""
        item = self._engine.items.get(f"{obj['metadata']['namespace']}/{obj['metadata']['name']}")
        blocked, alike = None, ""
        if unusable:
            blocked = SUSPENDED if unusable.endswith("is inactive") else MISCONFIGURED, unusable
        elif item is not None:
            refusal = self._engine.refusal(item)
            if refusal is not None and reason_of(refusal[0]) == MISCONFIGURED:
                blocked = MISCONFIGURED, refusal[1]
            elif item.queue is not None and item.shape in item.queue.pending.parked:
                alike = self._passed.get(item.shape, "")
        return why_unreserved(obj, blocked, alike, explicit=self._configured.now.reasons.explicit)


class Unadmitted:
    def __init__(self, workloads: Informer, configured: Configured) -> None:
        self._workloads = workloads
        self._configured = configured
        self._places: dict[tuple[str, str], Place] = {}
        self._counts: Counter[Place] = Counter()
        workloads.subscribe(self._changed)
        configured.subscribe(self._reconfigured)

    def __iter__(self) -> Iterator[tuple[Place, int]]:
        return iter(self._counts.items())

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if not self._configured.now.reasons.granular:
            return
        obj = new or old
        assert obj is not None
        meta = obj["metadata"]
        key = meta["namespace"], meta["name"]
        said = None if new is None else standing(new)
        place = None if said is None else (meta["namespace"], (obj.get("spec") or {}).get("queueName", ""), *said)
        before = self._places.get(key)
        if place == before:
            return
        if before is not None:
            del self._places[key]
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if place is not None:
            self._places[key] = place
            self._counts[place] += 1

    def _reconfigured(self, before: Configuration, now: Configuration) -> None:
        if before.reasons.granular == now.reasons.granular:
            return
        self._places.clear()
        self._counts.clear()
        self._count(self._workloads.all())

    def _count(self, workloads: Iterable[Object]) -> None:
        for each in workloads:
            self._changed(None, each)
