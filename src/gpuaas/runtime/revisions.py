"""The history of templates: ControllerRevisions of an object whose pods are updated one by one.

The newest revision holds the template as it is now; going back to an old template makes the old revision the newest.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import CONTROLLER_REVISIONS
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import annotations_of, controller_reference, is_controlled_by, uid_of
from gpuaas.runtime.values import revision_hash

HASH = "controller.kubernetes.io/hash"
NAME_LENGTH = 223


class Revisions:
    def __init__(self, client: Client, informer: Informer, owner: Resource, hash_label: str = HASH) -> None:
        self._client = client
        self._informer = informer
        self._owner = owner
        self._hash_label = hash_label

    def of(self, owner: Mapping[str, Any]) -> list[Object]:
        """Oldest first."""
        found = [one for one in self._informer.owned_by(uid_of(owner)) if is_controlled_by(one, owner)]
        return sorted(
            found, key=lambda one: (one["revision"], one["metadata"]["creationTimestamp"], one["metadata"]["name"])
        )

    async def current(
        self, owner: Mapping[str, Any], known: Sequence[Object], collisions: int = 0
    ) -> tuple[Object, int]:
        """The revision of the owner's template, made or moved to the front if need be, and the count of collisions."""
        data = ordered({"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}})
        equal = [one for one in known if one.get("data") == data]
        number = known[-1]["revision"] + 1 if known else 1
        if not equal:
            return await self._create(owner, data, number, collisions)
        if equal[-1] is known[-1]:
            return known[-1], collisions
        name, namespace = equal[-1]["metadata"]["name"], equal[-1]["metadata"]["namespace"]
        return await self._client.patch(CONTROLLER_REVISIONS, name, {"revision": number}, namespace), collisions

    async def trim(self, known: Sequence[Object], live: Iterable[str], limit: int | None) -> None:
        """Delete the oldest beyond the limit; what is live never goes."""
        names = set(live)
        history = [one for one in known if one["metadata"]["name"] not in names]
        for one in history[: max(0, len(history) - (10 if limit is None else limit))]:
            try:
                await self._client.delete(CONTROLLER_REVISIONS, one["metadata"]["name"], one["metadata"]["namespace"])
            except NotFound:
                continue

    async def _create(self, owner: Mapping[str, Any], data: Object, number: int, collisions: int) -> tuple[Object, int]:
        namespace = owner["metadata"]["namespace"]
        while True:
            mark = revision_hash(data, collisions)
            name = f"{owner['metadata']['name'][:NAME_LENGTH]}-{mark}"
            labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
            metadata: Object = {
                "name": name,
                "namespace": namespace,
                "labels": {**labels, self._hash_label: mark},
                "ownerReferences": [controller_reference(owner, self._owner)],
            }
            if annotations_of(owner):
                metadata["annotations"] = dict(annotations_of(owner))
            made = {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": metadata,
                "data": data,
                "revision": number,
            }
            try:
                return await self._client.create(CONTROLLER_REVISIONS, made, namespace), collisions
            except AlreadyExists:
                existing = await self._client.get(CONTROLLER_REVISIONS, name, namespace)
                if existing.get("data") == data and is_controlled_by(existing, owner):
                    return existing, collisions
                collisions += 1


def ordered(value: Any) -> Any:
    """With its keys in order: clients compare a revision with a template byte by byte, as Go writes both."""
    if isinstance(value, Mapping):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(item) for item in value] if isinstance(value, list | tuple) else value


def template_of(revision: Mapping[str, Any]) -> Object:
    template = revision["data"]["spec"]["template"]
    return {key: value for key, value in template.items() if key != "$patch"}
