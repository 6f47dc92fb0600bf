"""What a namespace and a runtime class add to the requests of pods: LimitRanges and overheads, as the cluster has them.

They count from the moment they change, also for workloads that wait already; what holds quota keeps what it was given.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuaas.client.protocol import Object
from gpuaas.client.resources import LIMIT_RANGES, RUNTIME_CLASSES
from gpuaas.kueue.resources import Limits, limits_of
from gpuaas.runtime.informer import Informer


class Bounds:
    """`read_again` gets the workloads whose requests may count differently now."""

    def __init__(
        self,
        of: Callable[[Any], Informer],
        workloads: Informer,
        read_again: Callable[[Iterable[Object]], None],
    ) -> None:
        self._ranges, self._classes, self._workloads = of(LIMIT_RANGES), of(RUNTIME_CLASSES), workloads
        self._read_again = read_again
        self._limits: dict[str, Limits | None] = {}

    def follow(self) -> tuple[Informer, Informer]:
        """Starts watching once `read_again` is set; returns the views in use."""
        self._ranges.subscribe(self._range_changed)
        self._classes.subscribe(self._class_changed)
        return self._ranges, self._classes

    def limits(self, namespace: str) -> Limits | None:
        if namespace not in self._limits:
            found = [each for each in self._ranges.all() if each["metadata"]["namespace"] == namespace]
            self._limits[namespace] = limits_of(found) if found else None
        return self._limits[namespace]

    def overhead(self, runtime_class: str) -> Mapping[str, Any] | None:
        found = self._classes.get("", runtime_class)
        return None if found is None else _overhead(found)

    def _range_changed(self, old: Object | None, new: Object | None) -> None:
        namespace = (new or old or {})["metadata"]["namespace"]
        self._limits.pop(namespace, None)
        if (old or {}).get("spec") != (new or {}).get("spec"):
            self._read_again(each for each in self._workloads.all() if each["metadata"]["namespace"] == namespace)

    def _class_changed(self, old: Object | None, new: Object | None) -> None:
        if _overhead(old or {}) == _overhead(new or {}):
            return
        name = (new or old or {})["metadata"]["name"]
        self._read_again(each for each in self._workloads.all() if name in _classes_of(each))


def _overhead(runtime_class: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return (runtime_class.get("overhead") or {}).get("podFixed")


def _classes_of(workload: Mapping[str, Any]) -> set[str]:
    pod_sets = (workload.get("spec") or {}).get("podSets") or ()
    return {((each.get("template") or {}).get("spec") or {}).get("runtimeClassName", "") for each in pod_sets}
