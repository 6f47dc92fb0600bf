"""Watch: committed changes to a client, in order, each once, from the revision it asks for.

No task for each watcher: the store hands over batches, they are filtered and written. A slow client pauses its watch,
which keeps its place in history and no memory. An event's bytes are made once for all watchers that see it alike.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuaas.apiserver.codec import Wanted, content_type, encode
from gpuaas.apiserver.http import Stream, StreamWriter
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.options import check_list
from gpuaas.apiserver.present import partial, table
from gpuaas.apiserver.read import revision_number
from gpuaas.apiserver.requestinfo import said, whole_number
from gpuaas.apiserver.select import scope
from gpuaas.base.errors import ApiError, Expired, NotAcceptable
from gpuaas.store import Compacted, Entry, Event, Watch

_BOOKMARK_EVERY = 60.0
_DEFAULT_TIMEOUT = 30 * 60.0
_STREAMED = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def watch(op: Operation, wanted: Wanted) -> Stream:
    if wanted.media != "json":
        raise NotAcceptable(f"only the following media types are accepted: {', '.join(_STREAMED)}")
    return Stream(_Session(op, wanted).start, content_type(wanted))


class _Session:
    def __init__(self, op: Operation, wanted: Wanted) -> None:
        self._op = op
        self._wanted = wanted
        self._where, self._matches = scope(op)
        self._bookmarks = said(op.query, "allowWatchBookmarks")
        self._timeout = _seconds(op.query.get("timeoutSeconds", "")) or _DEFAULT_TIMEOUT
        self._plain = not wanted.form and op.version is op.resource.hub
        self._since, self._initial, self._marks_end = _beginning(op)
        self._timers: list[asyncio.TimerHandle] = []
        self._defined = False  # a table's first event says what the columns are

    def start(self, writer: StreamWriter) -> Callable[[], None]:
        self._writer = writer
        store = self._op.cluster.store
        if self._initial:
            self._since = store.revision
            self._send_state(store.list(self._where) if self._where.endswith("/") else self._only())
        try:
            self._watch: Watch = store.watch(self._where, min(self._since, store.revision), on_events=self._send)
        except Compacted as gone:
            return self._fail(Expired(str(gone)))
        writer.on_pause, writer.on_resume = self._watch.pause, self._resume
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._timeout, self._end))
        if self._bookmarks:
            self._timers.append(loop.call_later(_BOOKMARK_EVERY, self._bookmark))
        self._op.cluster.watching(self._op.resource, self._end)
        self._resume()
        return self._gone

    def _resume(self) -> None:
        try:
            self._watch.resume()
        except Compacted as gone:
            self._fail(Expired(str(gone)))

    def _gone(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()  # they know this session: without them nothing of it is left to the garbage collector
        self._op.cluster.not_watching(self._op.resource, self._end)
        self._watch.close()

    def _end(self) -> None:
        self._writer.close()

    def _fail(self, error: ApiError) -> Callable[[], None]:
        self._writer.write(_line("ERROR", encode(error.status())))
        self._writer.close()
        return lambda: None

    # What the client sees.

    def _only(self) -> list[Entry]:
        entry = self._op.cluster.store.get(self._where)
        return [] if entry is None else [entry]

    def _send_state(self, entries: Iterable[Any]) -> None:
        lines = [
            _line("ADDED", entry.raw if self._plain else encode(self._shape(entry.obj)))
            for entry in entries
            if self._matches is None or self._matches(entry.obj)
        ]
        if self._marks_end:
            lines.append(self._bookmark_line({"annotations": {INITIAL_EVENTS_END: "true"}}))
        self._writer.write(b"".join(lines))

    def _send(self, events: list[Event]) -> None:
        if self._matches is None and self._plain and self._since < events[0].revision:
            lines = [event.line or _shared_line(event) for event in events]
        else:
            lines = [line for event in events if (line := self._filtered(event))]
        if len(lines) == 1:
            self._writer.write(lines[0])
        else:
            self._writer.write(b"".join(lines))

    def _filtered(self, event: Event) -> bytes:
        """The event as this watcher sees it: an object that no longer matches is gone for it."""
        if event.revision <= self._since:
            return b""
        obj, matches = event.entry.obj, self._matches
        kind: str = event.type
        if matches is not None:
            now = kind != "DELETED" and matches(obj)
            before = event.previous is not None and matches(event.previous.obj)
            if not now and not before:
                return b""
            if now and kind == "MODIFIED" and not before:
                kind = "ADDED"
            elif not now and kind == "MODIFIED" and event.previous is not None:
                kind = "DELETED"
                previous = event.previous.obj
                obj = {**previous, "metadata": {**previous["metadata"], "resourceVersion": str(event.revision)}}
                return _line(kind, encode(self._shape(obj)))
        if self._plain:
            return event.line or _shared_line(event) if kind == event.type else _line(kind, event.entry.raw)
        return _line(kind, encode(self._shape(obj)))

    def _shape(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        match self._wanted.form:
            case "Table":
                meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
                first, self._defined = not self._defined, True
                return table(self._op, [obj], meta, definitions=first)
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return partial(obj, self._wanted.version)
            case _:
                return self._op.resource.seen(dict(obj), self._op.version)

    def _bookmark(self) -> None:
        self._writer.write(self._bookmark_line({}))
        self._timers.append(asyncio.get_running_loop().call_later(_BOOKMARK_EVERY, self._bookmark))

    def _bookmark_line(self, extra: Mapping[str, Any]) -> bytes:
        watch = getattr(self, "_watch", None)
        revision = watch.progress if watch is not None else self._since
        meta = {"resourceVersion": str(revision), **extra}
        kind = self._op.kind
        if self._wanted.form == "Table":
            obj: Mapping[str, Any] = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(revision)},
                "columnDefinitions": [],
                "rows": [
                    {
                        "cells": [],
                        "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta},
                    }
                ],
            }
        elif self._wanted.form:
            obj = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        else:
            obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        return _line("BOOKMARK", encode(obj))


def _beginning(op: Operation) -> tuple[int, bool, bool]:
    """From which revision, whether the present state comes first, and whether its end is marked."""
    check_list(op.query, watches=True)
    wanted = op.query.get("resourceVersion", "")
    number = revision_number(wanted) if wanted else 0
    if "sendInitialEvents" not in op.query:
        return number, not number, False
    if said(op.query, "sendInitialEvents"):
        return 0, True, said(op.query, "allowWatchBookmarks")
    return number or op.cluster.store.revision, False, False


def _shared_line(event: Event) -> bytes:
    event.line = _line(event.type, event.entry.raw)
    return event.line


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)


def _seconds(text: str) -> float:
    return max(float(whole_number(text)), 0.0) if text else 0.0
