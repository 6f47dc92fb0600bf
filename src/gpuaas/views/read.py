"""Rows of a cluster for a command: computed by the server where it serves them, else made here from lists.

The server is asked first and a refusal is remembered for the process, so that a screen that refreshes asks a cluster
without the API once. What makes rows from lists is imported only when it is needed: it brings the engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gpuaas.base.errors import ApiError
from gpuaas.views import served
from gpuaas.views.served import NotServed

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.views.rows import FreeRow, GpuRow, JobRow, NodeTypes, QueueRow

T = TypeVar("T")
_without: set[str] = set()  # addresses of servers that do not serve rows


async def jobs(
    client: HttpClient,
    namespace: str,
    *,
    everywhere: bool = False,
    finished: bool = True,
    nodes: bool = False,
    owner: str = "",
) -> tuple[list[JobRow], int]:
    """Rows, and how many unfinished jobs other namespaces have. Without rights there are no rows, and no error."""
    where = "" if everywhere else namespace

    async def from_lists() -> tuple[list[JobRow], int]:
        from gpuaas.views import lists

        return await lists.jobs(client, namespace, everywhere=everywhere, finished=finished, nodes=nodes, owner=owner)

    async def asked() -> tuple[list[JobRow], int]:
        return await served.jobs(client, where, finished=finished, nodes=nodes, owner=owner)

    try:
        return await _first(client, asked, from_lists)
    except ApiError as error:
        if error.code != 403:
            raise
        return [], 0


async def queues(client: HttpClient, namespace: str = "") -> list[QueueRow]:
    async def from_lists() -> list[QueueRow]:
        from gpuaas.views import lists

        return await lists.queues(client, namespace)

    return await _first(client, lambda: served.queues(client, namespace), from_lists)


async def gpus(client: HttpClient, *, details: bool = True) -> list[GpuRow]:
    async def from_lists() -> list[GpuRow]:
        from gpuaas.views import lists

        return await lists.gpus(client)

    return await _first(client, lambda: served.gpus(client, details=details), from_lists)


async def free(client: HttpClient, namespace: str) -> list[FreeRow]:
    """For the caller; none where neither the server computes them nor nodes, pods and quotas are to be seen."""

    async def from_lists() -> list[FreeRow]:
        from gpuaas.views import lists

        return await lists.free(client, namespace)

    try:
        return await _first(client, lambda: served.free(client), from_lists)
    except ApiError as error:
        if error.code != 403:
            raise
        return []


async def node_types(client: HttpClient) -> NodeTypes:
    async def from_lists() -> NodeTypes:
        from gpuaas.views import lists

        return await lists.node_types(client)

    return await _first(client, lambda: served.node_types(client), from_lists)


async def why(client: HttpClient, namespace: str, name: str, kind: str) -> dict[str, Any] | None:
    """As the server explains it; None where it cannot: no such API, or no Workload of that name."""

    async def unknown() -> dict[str, Any] | None:
        return None

    try:
        return await _first(client, lambda: served.why(client, namespace, name, kind), unknown)
    except ApiError as error:
        if error.code in (403, 404):
            return None
        raise


async def _first(client: HttpClient, ask: Callable[[], Awaitable[T]], otherwise: Callable[[], Awaitable[T]]) -> T:
    server = client.access.server
    if server not in _without:
        try:
            return await ask()
        except NotServed:
            _without.add(server)
    return await otherwise()
