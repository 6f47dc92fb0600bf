"""Placement vectors: fleets and what Open Cluster Management's own placement controller decided on each.

A step applies or deletes objects, then every Placement that the change touches is scheduled once, in order of name: as on
the live hub, a decision of one Placement does not make another look again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gpuaas.cli.vectors.verdicts import Difference, Verdict
from gpuaas.fleet.placement_cel import compile_cel
from gpuaas.placement.schedule import Result, schedule
from gpuaas.placement.values import Cluster, Fleet, Object, Score

NOW: Final = datetime(2026, 11, 15, tzinfo=UTC)
"""After 2026-01-02, when stale scores ended, and before 2096, when fresh ones will."""
_COMPILER_TEXT: Final = "Predicate:compilation failed:"


def run(vector: Object) -> Iterator[dict[str, Any]]:
    """One entry a step, in the form of a vector's `expect`."""
    hub = _Hub()
    for step in vector["steps"]:
        for obj in step.get("apply") or ():
            hub.apply(obj)
        for obj in step.get("delete") or ():
            hub.delete(obj)
        hub.settle()
        yield {"placements": {name: _shown(result) for name, result in sorted(hub.results.items())}}


class _Hub:
    def __init__(self) -> None:
        self.fleet = Fleet()
        self.placements: dict[str, Object] = {}
        self.results: dict[str, Result] = {}
        self._touched: set[str] = set()

    def apply(self, obj: Object) -> None:
        namespace, name = _key(obj)
        match obj["kind"]:
            case "ManagedCluster":
                self.fleet.clusters[name] = Cluster.read(obj)
            case "ManagedClusterSet":
                self.fleet.sets[name] = obj
            case "ManagedClusterSetBinding":
                self.fleet.bindings[namespace, name] = obj
            case "AddOnPlacementScore":
                self.fleet.scores[namespace, name] = Score.read(obj)
            case "Placement":
                self.placements[name] = obj
        self._touch(obj)

    def delete(self, obj: Object) -> None:
        namespace, name = _key(obj)
        match obj["kind"]:
            case "ManagedCluster":
                self.fleet.clusters.pop(name, None)
            case "ManagedClusterSet":
                self.fleet.sets.pop(name, None)
            case "ManagedClusterSetBinding":
                self.fleet.bindings.pop((namespace, name), None)
            case "AddOnPlacementScore":
                self.fleet.scores.pop((namespace, name), None)
            case "Placement":
                self.placements.pop(name, None)
                self.results.pop(name, None)
                self.fleet.decided.pop((namespace, name), None)
        self._touch(obj)

    def _touch(self, obj: Object) -> None:
        self._touched |= {_key(obj)[1]} if obj["kind"] == "Placement" else set(self.placements)

    def settle(self) -> None:
        for name in sorted(self._touched & set(self.placements)):
            placement = self.placements[name]
            self.results[name] = result = schedule(placement, self.fleet, NOW, compile_cel)
            self.fleet.decided[_key(placement)] = tuple(c for group in result.groups for c in group.clusters)
        self._touched.clear()


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj.get("metadata", obj)  # what is deleted is only named
    return metadata.get("namespace", ""), metadata["name"]


def _shown(result: Result) -> dict[str, Any]:
    return {
        "conditions": {c.type: [c.status, c.reason, c.message] for c in result.conditions},
        "groups": [
            {"clusters": list(group.clusters), "index": index, "name": group.name}
            for index, group in enumerate(result.groups)
        ],
        "selected": len(result.clusters),
    }


def is_placement(vector: Object) -> bool:
    expect = vector.get("expect")
    return isinstance(expect, list) and bool(expect) and "placements" in expect[0]


def judge(vector: Object) -> Verdict:
    return Verdict(vector["name"], vector["family"], tuple(_compare(vector["expect"], run(vector))))


def _compare(expect: Iterable[Any], found: Iterable[Mapping[str, Any]]) -> Iterator[Difference]:
    """The first difference of a vector: later ones only follow from it."""
    for index, (wanted, got) in enumerate(zip(expect, found, strict=True)):
        for name, one in sorted(wanted["placements"].items()):
            two = got["placements"].get(name)
            for part in ("conditions", "groups", "selected"):
                first, second = one.get(part), two.get(part) if two else None
                if part == "conditions":
                    first, second = _comparable(first), _comparable(second)
                if part == "selected":
                    first = first or 0  # null until it first was positive
                if first != second:
                    yield Difference(f"step {index}, {name}: {part}", first, second)
                    return


def _comparable(conditions: Any) -> Any:
    """The text of an expression that does not compile is the compiler's own and is not compared."""
    if not conditions:
        return conditions
    return {
        type_: (status, reason, _COMPILER_TEXT if message.startswith(_COMPILER_TEXT) else message)
        for type_, (status, reason, message) in conditions.items()
    }
