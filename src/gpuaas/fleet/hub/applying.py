"""Making an object on a worker be as wanted: created where it is missing, changed where what we say about it differs."""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.runtime.writes import merge_diff

MANAGER = "gpuaas-fleet"


async def keep(client: Client, resource: Resource, wanted: Object) -> Object:
    """The object, as wanted in every top-level field that `wanted` names; of its metadata only labels, annotations and
    owners count, and those of others stay."""
    metadata = wanted["metadata"]
    namespace = metadata.get("namespace", "")
    try:
        known = await client.get(resource, metadata["name"], namespace)
    except NotFound:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **wanted}
        try:
            return await client.create(resource, whole, namespace, field_manager=MANAGER)
        except AlreadyExists:
            known = await client.get(resource, metadata["name"], namespace)
    patch = difference(known, wanted)
    if not patch:
        return known
    return await client.patch(resource, metadata["name"], patch, namespace, field_manager=MANAGER)


def difference(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """The merge patch that makes `known` be as wanted; empty where it is."""
    patch: Object = {}
    for field, value in wanted.items():
        if field in ("apiVersion", "kind", "metadata", "status"):
            continue
        before = known.get(field)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if changed := merge_diff(before, value):
                patch[field] = changed
        elif before != value:
            patch[field] = value
    metadata: Object = {}
    for field in ("labels", "annotations"):
        have = known["metadata"].get(field) or {}
        missing = {k: v for k, v in (wanted["metadata"].get(field) or {}).items() if have.get(k) != v}
        if missing:
            metadata[field] = missing
    return {**patch, **({"metadata": metadata} if metadata else {})}


async def remove(client: Client, resource: Resource, name: str, namespace: str = "") -> None:
    try:
        await client.delete(resource, name, namespace)
    except NotFound:
        return
