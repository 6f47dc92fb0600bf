"""exec, attach and port-forward for pods, by the executor of their node. It fits the API server's PodStreams without
knowing it, as `logs` fits its LogSource."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpuaas.base.errors import NotImplementedHere
from gpuaas.nodefit.names import EXECUTOR

View = Mapping[str, Any]


class Streams(Protocol):
    """What one executor offers. A container is one of the pod's, which runs."""

    async def exec(self, pod: View, container: str, words: Sequence[str], *, tty: bool, stdin: bool) -> Any: ...

    async def attach(self, pod: View, container: str, *, tty: bool, stdin: bool) -> Any: ...

    async def dial(self, pod: View, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]: ...


class PodStreams:
    def __init__(self, sources: Mapping[str, Streams], nodes: Any) -> None:
        """`sources` by executor; `nodes` is the informer of nodes."""
        self._sources = sources
        self._nodes = nodes

    async def exec(self, pod: View, container: str, words: Sequence[str], *, tty: bool, stdin: bool) -> Any:
        return await self._of(pod).exec(pod, container, words, tty=tty, stdin=stdin)

    async def attach(self, pod: View, container: str, *, tty: bool, stdin: bool) -> Any:
        return await self._of(pod).attach(pod, container, tty=tty, stdin=stdin)

    async def dial(self, pod: View, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._of(pod).dial(pod, port)

    def _of(self, pod: View) -> Streams:
        name = pod["spec"].get("nodeName") or ""
        node = self._nodes.get("", name)
        if node is None and len(self._sources) == 1:  # it was deleted, or this server has just begun
            return next(iter(self._sources.values()))
        labels = (node["metadata"].get("labels") or {}) if node is not None else {}
        found = self._sources.get(labels.get(EXECUTOR, ""))
        if found is None:
            raise NotImplementedHere(f'node "{name}" of pod "{pod["metadata"]["name"]}" is not run by this server')
        return found


@dataclass(frozen=True, slots=True)
class FromNow:
    """Options of a log that is read from now on, as who attaches does."""

    container: str
    follow: bool = True
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = 0
    since: float | None = None
    limit_bytes: int | None = None


class Written:
    """Output that is only read: of a container one is attached to, or the answer of a simulated one."""

    def __init__(self, pieces: AsyncIterator[bytes], errors: bytes = b"", code: int = 0) -> None:
        self._pieces = pieces
        self._errors = errors
        self._code = code

    def start(self) -> None:
        """It runs already, or nothing is to be run."""

    async def read(self, *, errors: bool) -> bytes:
        if errors:
            said, self._errors = self._errors, b""
            return said
        return await anext(self._pieces, b"")

    async def write(self, data: bytes) -> None:
        raise BrokenPipeError

    def close_input(self) -> None:
        """Nothing reads it."""

    def resize(self, columns: int, rows: int) -> None:
        """It is no terminal."""

    async def ended(self) -> int:
        return self._code

    def kill(self) -> None:
        """Who reads it is cancelled, and with that the reading."""
