"""The recent past is bounded: what is out of the window is let go, not only out of sight."""

import gc
import weakref

from gpuaas.store.entries import Entry, Event
from gpuaas.store.window import Window


class Noted(Event):
    """An event whose end can be seen."""

    __slots__ = ("__weakref__",)


def event(revision: int) -> Noted:
    return Noted("ADDED", Entry("/things//a", revision, revision, b"x" * 1000), None)


def test_events_that_fell_out_by_their_size_are_not_kept_in_memory() -> None:
    window = Window(0, limit_events=10_000, limit_bytes=24_000)  # room for ten
    seen: list[weakref.ref[Noted]] = []
    for revision in range(1, 1001):
        made = event(revision)
        seen.append(weakref.ref(made))
        window.add([made])
    del made
    gc.collect()
    assert len(window.after(window.start, "/things/", 100)) == 10
    assert sum(each() is not None for each in seen) <= 20
