"""Keeps a snapshot of rows (package views) up to date from the store's change feed.

Stored objects are taken a slice at a time, so that a large store holds up no request; every later commit
is taken as it is handed out, before the write is answered, so a client that reads rows after its own write sees it.
Where only metadata is wanted only metadata is decoded. An object that cannot be read loses its row and is
set aside (module quarantine): nothing stored may stop the feed.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from gpuaas.apiserver.cluster import Cluster
from gpuaas.client.protocol import Resource
from gpuaas.store import Entry, Event
from gpuaas.views.snapshot import BETWEEN, FOLLOWED, Snapshot

_SLICE = 200  # objects between two looks at the event loop


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    owner_references: Any = None


class _Outline(msgspec.Struct):
    metadata: _Metadata


_outline = msgspec.json.Decoder(_Outline).decode


async def feed(cluster: Cluster, snapshot: Snapshot) -> None:
    """Returns when the snapshot is complete; it stays so for as long as the store is open."""
    for resource in FOLLOWED:
        found = cluster.catalogue.find(resource.group, resource.version, resource.plural)
        if found is None:
            continue
        prefix, since = found[0].prefix, cluster.store.revision
        take = partial(_take, cluster, snapshot, resource)
        for number, entry in enumerate(list(cluster.store.list(prefix))):
            take(entry)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        cluster.store.watch(prefix, since, partial(_on_events, take, snapshot, resource)).resume()


def _on_events(take: Callable[[Entry], None], snapshot: Snapshot, resource: Resource, events: Sequence[Event]) -> None:
    for event in events:
        if event.type == "DELETED":
            snapshot.take(resource, *_where(event.key), None)
        else:
            take(event.entry)


def _take(cluster: Cluster, snapshot: Snapshot, resource: Resource, entry: Entry) -> None:
    where = _where(entry.key)
    named = {"kind": resource.kind, "metadata": {"namespace": where[0], "name": where[1]}}
    try:
        snapshot.take(resource, *where, _seen(cluster, resource, entry))
    except Exception as error:
        cluster.aside.note("views", named, error)
        snapshot.take(resource, *where, None)
    else:
        cluster.aside.clear("views", named)


def _seen(cluster: Cluster, resource: Resource, entry: Entry) -> Any:
    if resource in BETWEEN:
        meta = _outline(entry.raw).metadata
        return {"metadata": {"uid": meta.uid, "ownerReferences": meta.owner_references}}
    found = cluster.catalogue.find(resource.group, resource.version, resource.plural)
    return entry.obj if found is None else found[0].from_hub(entry.obj, found[1])


def _where(key: str) -> tuple[str, str]:
    _, _, namespace, name = key.split("/", 3)
    return namespace, name
