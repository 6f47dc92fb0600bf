"""Gathering what the commands show: the picture of the queues, and jobs with their workloads."""

import asyncio
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from gpuaas.base.errors import ApiError
from gpuaas.cli.kinds import JOB_KINDS, kind_of
from gpuaas.client.kueue import (
    PRIORITY_CLASSES,
    WORKLOADS,
)
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    DEVICE_SLICES,
    PODS,
)
from gpuaas.kueue.explain.snapshot import Picture, claims_devices, owner_of
from gpuaas.views.configured import configuration as kueue_configuration
from gpuaas.views.snapshot import BETWEEN, PICTURED

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient


async def picture(client: "HttpClient", namespace: str = "", *, pods: bool = False) -> Picture:
    """Everything the queues depend on. What a user may not see everywhere is looked for in the namespace."""
    narrowed: set[Resource] = set()
    found = await asyncio.gather(
        *(everything(client, resource, namespace, narrowed=narrowed) for resource in PICTURED.values())
    )
    lists = {name: items or [] for name, items in zip(PICTURED, found, strict=True)}
    hidden = frozenset(name for name, items in zip(PICTURED, found, strict=True) if items is None)
    if pods:
        lists["priorities"] = await everything(client, PRIORITY_CLASSES) or []
        lists["pods"], lists["owners"] = await pods_and_owners(client, namespace)
        if lists["topologies"]:  # where places are chosen, everybody's pods take some
            lists["pods"] = await everything(client, PODS, namespace) or lists["pods"]
    partial = frozenset(name for name, resource in PICTURED.items() if resource in narrowed)
    configuration = await kueue_configuration(client)
    if (configuration is not None and configuration.devices.mapped) or any(map(claims_devices, lists["workloads"])):
        more = {"device_classes": DEVICE_CLASSES, "claim_templates": CLAIM_TEMPLATES, "device_slices": DEVICE_SLICES}
        seen = await asyncio.gather(*(everything(client, resource, namespace) for resource in more.values()))
        hidden |= {name for name, items in zip(more, seen, strict=True) if items is None}
        lists |= {name: items or [] for name, items in zip(more, seen, strict=True)}
    return Picture(**lists, hidden=hidden, partial=partial, configuration=configuration)


async def pods_and_owners(client: "HttpClient", namespace: str) -> tuple[list[Object], list[Object]]:
    """The pods of a namespace, and what may stand between them and a job."""
    found = await asyncio.gather(*(everything(client, each, namespace, only=True) for each in (PODS, *BETWEEN)))
    return found[0] or [], [obj for items in found[1:] for obj in items or ()]


async def everything(
    client: "HttpClient",
    resource: Resource,
    namespace: str = "",
    *,
    only: bool = False,
    narrowed: set[Resource] | None = None,
) -> list[Object] | None:
    """None: the user may not see them. `narrowed` gets the resource where only the namespace's can be seen."""
    for where in (namespace,) if only or not resource.namespaced else dict.fromkeys(("", namespace)):
        try:
            items = (await client.list(resource, where if resource.namespaced else "")).items
            if narrowed is not None and where and resource.namespaced:
                narrowed.add(resource)
            return items
        except ApiError as error:
            if error.code == 404 and resource is not WORKLOADS:  # without those there is nothing to speak of
                return []
            if error.code != 403:
                raise
    return None


async def find_workload(client: "HttpClient", namespace: str, name: str) -> Object:
    """By its own name, or by the name of what it was made for: `train`, `job/train`, `raycluster/dev`."""
    here = (await client.list(WORKLOADS, namespace)).items
    found = named(here, name)
    if found is not None:
        return found
    job = await find_job(client, namespace, name)
    if job is not None and (found := await workload_of(client, namespace, job[1], here)) is not None:
        return found
    raise click.ClickException(await _no_such(client, namespace, name, here, known=job is not None))


async def whose_pods(client: "HttpClient", namespace: str, name: str) -> Object:
    """The workload, or the job itself: pods write whether or not a queue knows them (any more)."""
    here = (await client.list(WORKLOADS, namespace)).items
    found = named(here, name)
    if found is not None:
        return found
    job = await find_job(client, namespace, name)
    if job is None:
        raise click.ClickException(await _no_such(client, namespace, name, here, known=False))
    return await workload_of(client, namespace, job[1], here) or job[1]


async def workload_of(client: "HttpClient", namespace: str, job: Object, workloads: list[Object]) -> Object | None:
    """The workload of what the job made, where not the job itself is queued: a Notebook's StatefulSet, elsewhere."""
    _, between = await pods_and_owners(client, namespace)
    made = {each["metadata"]["uid"] for each in between if _belongs(each, {job["metadata"]["uid"]})}
    return next((each for each in workloads if _belongs(each, made)), None)


def _belongs(obj: Object, owners: set[str]) -> bool:
    return any(each.get("uid") in owners for each in obj["metadata"].get("ownerReferences") or ())


def named(workloads: list[Object], name: str) -> Object | None:
    """The newest workload of that name."""
    kind, _, bare = name.rpartition("/")
    wanted = kind_of(kind)
    found = [each for each in workloads if _is_called(each, wanted, bare)]
    return max(found, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)


async def find_job(client: "HttpClient", namespace: str, name: str) -> tuple[str, Object] | None:
    """A job by its name, whether or not a queue knows it: its kind and the object."""
    kind, _, bare = name.rpartition("/")
    if not bare:
        return None
    wanted = JOB_KINDS.get(kind.lower().removesuffix("s"), kind)
    served = [
        each.resource
        for each in await client.discover()
        if each.resource.kind in JOB_KINDS.values()
        and each.resource.kind != "Workload"
        and wanted in ("", each.resource.kind)
    ]
    found = await asyncio.gather(*(_get(client, each, bare, namespace) for each in served))
    return next(((resource.kind, obj) for resource, obj in zip(served, found, strict=True) if obj is not None), None)


async def _get(client: "HttpClient", resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except ApiError as error:
        if error.code in (403, 404):
            return None
        raise


async def _no_such(client: "HttpClient", namespace: str, name: str, here: list[Object], *, known: bool) -> str:
    if known:
        return f"{name} has no workload: no queue knows it (gpuaas why {name})"
    words = f"there is no job {name} in namespace {namespace}"
    near = get_close_matches(name.rpartition("/")[2], [owner_of(each)[1] for each in here], n=1)
    if near:
        return f"{words}; did you mean {near[0]}?"
    elsewhere = sorted(
        {each["metadata"]["namespace"] for each in await everything(client, WORKLOADS) or () if named([each], name)}
    )
    return (
        f"{words}; there is one in {', '.join(elsewhere)} (-n {elsewhere[0]})" if elsewhere else f"{words} (gpuaas ps)"
    )


def _is_called(workload: Object, kind: str, name: str) -> bool:
    owner_kind, owner_name = owner_of(workload)
    if workload["metadata"]["name"] == name and kind in ("", "Workload"):
        return True
    return owner_name == name and kind in ("", owner_kind)
