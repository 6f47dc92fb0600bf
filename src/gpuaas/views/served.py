"""The client of `views.gpuaas.dev`: the rows as the embedded server computes them.

A server that does not serve the group answers 404, or 403 about the group itself where RBAC is asked before the path is
looked up, as in the real API server: `NotServed`. What the caller may not see is a 403 about the objects behind the
rows. `Resource` names no path here, so requests go out as raw ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from gpuaas.base.errors import ApiError
from gpuaas.views.rows import GROUP, VERSION, FreeRow, GpuRow, JobRow, NodeRow, NodeTypes, QueueRow

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

T = TypeVar("T")


class NotServed(Exception):
    """The server has no such API: the rows have to be made from lists."""


class _Jobs(msgspec.Struct):
    items: list[JobRow]
    elsewhere: int
    metadata: dict[str, str]


class _Queues(msgspec.Struct):
    items: list[QueueRow]


class _Gpus(msgspec.Struct):
    items: list[GpuRow]


class _Free(msgspec.Struct):
    items: list[FreeRow]


class _Nodes(msgspec.Struct):
    items: list[NodeRow]


async def jobs(
    client: HttpClient, namespace: str, *, finished: bool = True, nodes: bool = False, owner: str = ""
) -> tuple[list[JobRow], int]:
    """All pages; and how many unfinished jobs other namespaces have."""
    rows: list[JobRow] = []
    token = ""
    while True:
        query = {"finished": _flag(finished), "nodes": _flag(nodes)}
        query |= {key: value for key, value in (("owner", owner), ("continue", token)) if value}
        page = await _get(client, _path("jobs", namespace), query, _Jobs)
        rows += page.items
        token = page.metadata.get("continue", "")
        if not token:
            return rows, page.elsewhere


async def why(client: HttpClient, namespace: str, name: str, kind: str) -> dict[str, Any]:
    path = f"{_path('jobs', namespace)}/{quote(name, safe='')}/why"
    found = await _get(client, path, {"kind": kind} if kind else {}, dict[str, Any])
    return {key: value for key, value in found.items() if key not in ("apiVersion", "kind")}


async def queues(client: HttpClient, namespace: str) -> list[QueueRow]:
    return (await _get(client, _path("queues", namespace), {}, _Queues)).items


async def gpus(client: HttpClient, *, details: bool) -> list[GpuRow]:
    return (await _get(client, _path("gpus"), {"details": _flag(details)}, _Gpus)).items


async def free(client: HttpClient) -> list[FreeRow]:
    return (await _get(client, _path("free"), {}, _Free)).items


async def node_types(client: HttpClient) -> NodeTypes:
    return await _get(client, _path("nodetypes"), {}, NodeTypes)


async def nodes(client: HttpClient) -> list[NodeRow]:
    return (await _get(client, _path("nodes"), {}, _Nodes)).items


def _path(plural: str, namespace: str = "") -> str:
    where = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}/{where}{plural}"


def _flag(value: bool) -> str:
    return "true" if value else "false"


async def _get(client: HttpClient, path: str, query: dict[str, str], kind: type[T]) -> T:
    try:
        body = await client.raw("GET", f"{path}?{urlencode(query)}" if query else path)
    except ApiError as error:
        about = (error.details or {}).get("group")
        if (error.code == 404 and not (error.details or {}).get("name")) or (error.code == 403 and about == GROUP):
            raise NotServed from None
        raise
    return msgspec.json.decode(body, type=kind)
