"""A client that lets a controller read its own writes.

Controllers decide on informers' views. Between a write and the watch event that tells of it, the view is old, and a
controller that decides then would make a second pod for the first one's place. So each write here returns only when
the informer of that resource, if there is one, shows it. That replaces counters of expected events, and is why no
controller has any. `merge_diff` makes the patches controllers write.
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from gpuaas.base.errors import ApiError, NotFound
from gpuaas.client.protocol import Client, Listing, Object, PatchKind, Propagation, Resource, WatchEvent
from gpuaas.client.resources import PODS
from gpuaas.runtime.informer import Informer, Informers
from gpuaas.runtime.metadata import Key, key_of, revision_of, uid_of
from gpuaas.runtime.pod_budget import PodBudget

MANAGER = "kube-controller-manager"


class ReadYourWrites:
    """Wraps a client; the reads pass through, the writes wait for the informers."""

    def __init__(
        self, client: Client, informers: Informers, field_manager: str = MANAGER, budget: PodBudget | None = None
    ) -> None:
        self._client = client
        self._informers = informers
        self._manager = field_manager
        self._budget = budget or PodBudget()

    def under(self, field_manager: str) -> "ReadYourWrites":
        return ReadYourWrites(self._client, self._informers, field_manager, self._budget)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object:
        return await self._client.get(resource, name, namespace, subresource=subresource)

    def under_way(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        return self._client.under_way(resource, name, namespace)

    def hasten(self) -> None:
        self._client.hasten()

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        outline: bool = False,
    ) -> Listing:
        return await self._client.list(
            resource,
            namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
            outline=outline,
        )

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        outline: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        return self._client.watch(
            resource,
            namespace,
            resource_version=resource_version,
            labels=labels,
            fields=fields,
            bookmarks=bookmarks,
            timeout_seconds=timeout_seconds,
            outline=outline,
        )

    async def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        view = self._informer(resource) if resource == PODS and not subresource and not dry_run else None
        with self._budget.spent(view, obj, namespace) if view is not None else contextlib.nullcontext():
            made = await self._client.create(
                resource,
                obj,
                namespace,
                name=name,
                subresource=subresource,
                field_manager=field_manager or self._manager,
                dry_run=dry_run,
            )
            return await self._seen(resource, made, dry_run=dry_run)

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        made = await self._client.update(
            resource,
            obj,
            namespace,
            subresource=subresource,
            field_manager=field_manager or self._manager,
            dry_run=dry_run,
        )
        return await self._seen(resource, made, dry_run=dry_run)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        namespace: str = "",
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        made = await self._client.patch(
            resource,
            name,
            patch,
            namespace,
            kind=kind,
            subresource=subresource,
            field_manager=field_manager or self._manager,
            force=force,
            dry_run=dry_run,
        )
        return await self._seen(resource, made, dry_run=dry_run)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        informer = self._informer(resource)
        known = informer.get(namespace, name) if informer is not None else None
        answer = await self._client.delete(
            resource,
            name,
            namespace,
            propagation=propagation,
            uid=uid,
            resource_version=resource_version,
            grace=grace,
            dry_run=dry_run,
        )
        if informer is not None and known is not None and not dry_run:
            await informer.gone(Key(namespace, name), uid or uid_of(known))
        return answer

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        await self._client.delete_collection(
            resource,
            namespace,
            labels=labels,
            fields=fields,
            propagation=propagation,
            grace=grace,
            dry_run=dry_run,
        )

    def log(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        return self._client.log(
            name,
            namespace,
            container=container,
            follow=follow,
            previous=previous,
            tail_lines=tail_lines,
            since_seconds=since_seconds,
            timestamps=timestamps,
        )

    def _informer(self, resource: Resource) -> Informer | None:
        informer = self._informers.known(resource)
        return informer if informer is not None and informer.is_synced else None

    async def _seen(self, resource: Resource, made: Object, *, dry_run: bool) -> Object:
        informer = self._informer(resource)
        if informer is None or dry_run or made.get("kind") != resource.kind:
            return made
        if informer.resource.namespaced and not made.get("metadata", {}).get("namespace"):
            return made
        if _is_last_breath(made):
            # Taking the last finalizer off a deleted object removes it; its last revision is never watched.
            await informer.gone(key_of(made), uid_of(made), fully=True)
        else:
            await informer.caught_up(revision_of(made))
        return made


def _is_last_breath(obj: Mapping[str, Any]) -> bool:
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj.get("spec") or {}).get("finalizers")  # where namespaces keep theirs
    )


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> Object:
    """The merge patch that turns `old` into `new`; empty when they are equal."""
    patch: Object = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if key in old and before == value and type(before) is type(value):
            continue
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            patch[key] = merge_diff(before, value)
        else:
            patch[key] = value
    return patch


async def write_status(client: Client, resource: Resource, obj: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Make the object's status be `status`, unless another client wrote it since (Conflict); False if it is already so."""
    if (obj.get("status") or {}) == status:
        return False
    namespace = obj["metadata"].get("namespace", "")
    await client.update(resource, {**obj, "status": status}, namespace, subresource="status")
    return True


def namespace_is_ending(error: ApiError) -> bool:
    """Nothing can be created in a namespace that is gone or going; waiting will not help."""
    causes = error.details.get("causes") or ()
    return isinstance(error, NotFound) or any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
