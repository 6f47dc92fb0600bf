"""Whose job a job is: the topmost owner that Kueue manages answers for everything below it.

A child has no workload of its own; it waits while its ancestor does. Owners are followed only through kinds that are
known, and only while the reference's uid is really the owner's: a copied reference leads nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations.jobs import queue_of

Object = dict[str, Any]
View = Mapping[str, Any]
Owner = Callable[[Resource, str, str], "Object | None"]

LIMIT = 10


class OwnerMissing(Exception):
    """A named owner does not exist, so the managing ancestor of the job is unknown."""


class TooDeep(Exception):
    def __init__(self) -> None:
        super().__init__(f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {LIMIT}")


def controller_of(obj: View) -> View | None:
    return next((each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")), None)


class Kinds:
    """The kinds whose owners are followed; of those not `managed` only the way leads on (ReplicaSets)."""

    def __init__(self, managed: Mapping[tuple[str, str], Resource], passed: Mapping[tuple[str, str], Resource]) -> None:
        self._managed = managed
        self._passed = passed

    @property
    def resources(self) -> list[Resource]:
        return [*self._managed.values(), *self._passed.values()]

    def manages(self, reference: View) -> bool:
        return (reference.get("apiVersion", ""), reference.get("kind", "")) in self._managed

    def is_managed(self, resource: Resource) -> bool:
        return (resource.api_version, resource.kind) in self._managed

    def owner_managed(self, obj: View) -> bool:
        reference = controller_of(obj)
        return reference is not None and self.manages(reference)

    def ancestor(self, obj: View, find: Owner, *, without_queue: bool) -> tuple[Resource, Object] | None:
        """The topmost managed owner; with `without_queue` also one that names no queue."""
        top: tuple[Resource, Object] | None = None
        for resource, parent in self.owners(obj, find):
            if self.is_managed(resource) and (without_queue or queue_of(parent)):
                top = resource, parent
        return top

    def owners(self, obj: View, find: Owner) -> Iterator[tuple[Resource, Object]]:
        """The owner, its owner, and so on, as far as they are known kinds and really those that are meant."""
        namespace = obj["metadata"].get("namespace", "")
        seen = {obj["metadata"].get("uid", "")}
        while (reference := controller_of(obj)) is not None:
            kind = (reference.get("apiVersion", ""), reference.get("kind", ""))
            resource = self._managed.get(kind) or self._passed.get(kind)
            if resource is None:
                return
            parent = find(resource, namespace, reference["name"])
            if parent is None:
                raise OwnerMissing(f'workload owner not found: {resource} "{reference["name"]}" not found')
            if parent["metadata"].get("uid") != reference.get("uid"):
                return
            yield resource, parent
            if parent["metadata"].get("uid", "") in seen:
                return
            seen.add(parent["metadata"].get("uid", ""))
            if len(seen) > LIMIT:
                raise TooDeep
            obj = parent
