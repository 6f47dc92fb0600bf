"""The device classes, claim templates and devices of a cluster, from lists of its objects.

Where a class says by which name of a resource it may be asked for, the newest that says so answers, as Kubernetes'
scheduler has it: of those made in the same second, the first by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key

from gpuaas.kueue.resources import Object


class Listed:
    """An inventory of what was listed once."""

    def __init__(
        self, classes: Iterable[Object] = (), templates: Iterable[Object] = (), slices: Iterable[Object] = ()
    ) -> None:
        self._classes = {each["metadata"]["name"]: each for each in classes}
        self._templates = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in templates}
        self._slices = list(slices)
        self._backing = backing_classes(self._classes.values())

    def template(self, namespace: str, name: str) -> Object | None:
        return self._templates.get((namespace, name))

    def device_class(self, name: str) -> Object | None:
        return self._classes.get(name)

    def backing(self, resource: str) -> str | None:
        return self._backing.get(resource)

    def slices(self) -> Iterable[Object]:
        return self._slices


def backing_classes(classes: Iterable[Object]) -> dict[str, str]:
    """By the name of a resource, the class that is asked for by it."""
    found: dict[str, str] = {}
    for each in sorted(classes, key=cmp_to_key(_newest_first)):
        name = resource_of(each)
        if name:
            found.setdefault(name, each["metadata"]["name"])
    return found


def resource_of(device_class: Object) -> str:
    return str((device_class.get("spec") or {}).get("extendedResourceName") or "")


def _newest_first(first: Object, second: Object) -> int:
    born, other = (each["metadata"].get("creationTimestamp", "") for each in (first, second))
    if born != other:
        return -1 if born > other else 1
    return -1 if first["metadata"]["name"] < second["metadata"]["name"] else 1
