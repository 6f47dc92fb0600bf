"""What pods wrote, for `kubectl logs`: lines with their times, cut as the reader asked (tail, since, limit, follow).

Each executor has a `Source`; `Logs` finds the executor by the pod's node. It fits the API server's LogSource without
knowing it: the options are read by name. A source that has its lines in memory offers `Lines`, and `read_lines` cuts them.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from gpuaas.nodefit.names import EXECUTOR


class Line(NamedTuple):
    at: float
    text: bytes  # without its end


class Options(Protocol):
    @property
    def container(self) -> str: ...
    @property
    def follow(self) -> bool: ...
    @property
    def previous(self) -> bool: ...
    @property
    def timestamps(self) -> bool: ...
    @property
    def tail_lines(self) -> int | None: ...
    @property
    def since(self) -> float | None: ...
    @property
    def limit_bytes(self) -> int | None: ...


class Source(Protocol):
    def read(self, pod: Mapping[str, Any], container: str, options: Options) -> AsyncIterator[bytes]:
        """What the container wrote, cut as asked but for `limit_bytes`; the next piece is made when it is asked for."""
        ...


class Lines(Protocol):
    def past(self, pod: Mapping[str, Any], container: str) -> AsyncIterator[Line]:
        """What has been written so far."""
        ...

    def coming(self, pod: Mapping[str, Any], container: str, after: Line | None, count: int) -> AsyncIterator[Line]:
        """What is written from then on, until the container ends; `count` lines were read already."""
        ...


class Logs:
    def __init__(self, sources: Mapping[str, Source], nodes: Any) -> None:
        """`sources` by executor; `nodes` is the informer of nodes."""
        self._sources = sources
        self._nodes = nodes

    def waits_for(self, pod: Mapping[str, Any]) -> bool:
        return False  # as a kubelet does: a request before the start is refused

    async def read(self, pod: Mapping[str, Any], options: Options) -> AsyncIterator[bytes]:
        source = self._source(pod)
        if source is None:
            yield b"(nothing: the node of this pod keeps no logs)\n"
            return
        container = options.container or pod["spec"]["containers"][0]["name"]
        left = options.limit_bytes
        async for piece in source.read(pod, container, options):
            if left is not None:
                piece = piece[:left]
                left -= len(piece)
            yield piece
            if left == 0:
                return

    def _source(self, pod: Mapping[str, Any]) -> Source | None:
        node = self._nodes.get("", pod["spec"].get("nodeName") or "")
        if node is None:
            return next(iter(self._sources.values()), None) if len(self._sources) == 1 else None
        return self._sources.get((node["metadata"].get("labels") or {}).get(EXECUTOR, ""))


async def read_lines(source: Lines, pod: Mapping[str, Any], container: str, options: Options) -> AsyncIterator[bytes]:
    past: deque[Line] = deque(maxlen=options.tail_lines)
    last: Line | None = None
    count = 0
    async for line in source.past(pod, container):
        last, count = line, count + 1
        if options.since is None or line.at >= options.since:
            past.append(line)
    for line in past:
        yield _shown(line, options)
    if options.follow and not options.previous:
        async for line in source.coming(pod, container, last, count):
            yield _shown(line, options)


def _shown(line: Line, options: Options) -> bytes:
    if not options.timestamps:
        return line.text + b"\n"
    moment = datetime.fromtimestamp(line.at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return f"{moment}000Z ".encode() + line.text + b"\n"
