"""The store against a model that keeps every state there ever was, driven by hypothesis."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.store.conftest import remove, write

from gpuaas.base.clock import VirtualClock
from gpuaas.store import Compacted, Entry, Event, FutureRevision, Store, Watch

KEYS = [f"{plural}{namespace}/{name}" for plural in ("/pods/", "apps/sets/") for namespace in "ab" for name in "xyz"]
PREFIXES = ["", "/pods/", "/pods/a/", "apps/sets/", "apps/sets/b/", "/pods/a/x", "/nodes/"]

State = dict[str, tuple[int, int]]  # key -> revision, created


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="store-model-"))
        self.path = self.folder / "0.db"
        self.states: dict[int, State] = {0: {}}  # every committed revision -> the state after it
        self.log: list[tuple[str, str, int]] = []  # every committed event
        self.latest: State = {}
        self.compacted = 0
        self.in_flight: list[tuple[asyncio.Future[Entry], str, str]] = []
        self.watches: list[tuple[Watch, int, list[Event]]] = []
        self.handed_out = 0
        self._open()

    def _open(self) -> None:
        options = {"window_events": 5, "decoded_bytes": 300}
        self.store = self._run(Store.open(self.path, clock=VirtualClock(), fsync=False, **options))

    def _run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    @property
    def revision(self) -> int:
        return max(self.states)

    @rule(key=st.sampled_from(KEYS))
    def put(self, key: str) -> None:
        kind = "MODIFIED" if key in self.latest else "ADDED"
        self._begin(write(self.store, key), key, kind)
        revision = self._handed(key)
        self.latest[key] = (revision, self.latest[key][1] if key in self.latest else revision)

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        if key not in self.latest:
            assert self.store.latest(key) is None
            return
        self._begin(remove(self.store, key), key, "DELETED")
        self.handed_out += 1
        del self.latest[key]

    def _begin(self, future: asyncio.Future[Entry], key: str, kind: str) -> None:
        self.in_flight.append((future, key, kind))

    def _handed(self, key: str) -> int:
        entry = self.store.latest(key)
        assert entry is not None
        assert entry.revision > self.handed_out
        self.handed_out = entry.revision
        return entry.revision

    @rule()
    def commit(self) -> None:
        for future, key, kind in self.in_flight:
            entry = self._run(future)
            state = dict(self.states[self.revision])
            if kind == "DELETED":
                del state[key]
            else:
                state[key] = (entry.revision, entry.created)
            assert entry.revision > self.revision
            self.states[entry.revision] = state
            self.log.append((kind, key, entry.revision))
        self.in_flight = []
        self.handed_out = max(self.handed_out, self.revision)

    @rule(prefix=st.sampled_from(PREFIXES), back=st.integers(0, 12), pushed=st.booleans(), buffer=st.integers(1, 4))
    def watch(self, prefix: str, back: int, pushed: bool, buffer: int) -> None:
        since = max(0, self.revision - back)
        got: list[Event] = []
        if since < self.compacted:
            try:
                self.store.watch(prefix, since)
            except Compacted:
                return
            raise AssertionError("a watch from before the compaction was accepted")
        watch = self.store.watch(prefix, since, got.extend if pushed else None, buffer=buffer)
        if pushed:
            watch.resume()
        self.watches.append((watch, since, got))

    @rule()
    @precondition(lambda self: self.watches and not self.in_flight)
    def read_watches(self) -> None:
        for watch, since, got in list(self.watches):
            try:
                while watch._on_events is None and watch.progress < self.store.revision:
                    got += watch.drain()
            except Compacted:
                assert watch.progress < self.compacted
                watch.close()
                self.watches.remove((watch, since, got))
                continue
            expected = [event for event in self.log if event[2] > since and event[1].startswith(watch.prefix)]
            assert [(event.type, event.key, event.revision) for event in got] == expected
            for event in got:
                assert msgspec.json.decode(event.entry.raw)["revision"] == event.revision
                assert (event.previous is None) == (event.type == "ADDED")

    @rule(back=st.integers(0, 8))
    @precondition(lambda self: not self.in_flight)
    def compact(self, back: int) -> None:
        target = self.revision - back
        self._run(self.store.compact(target))
        self.compacted = max(self.compacted, target)

    @rule(crash=st.booleans())
    @precondition(lambda self: not self.in_flight)
    def reopen(self, crash: bool) -> None:
        """A clean restart, or one from what a kill would leave behind."""
        if crash:
            target = self.folder / f"{int(self.path.stem) + 1}.db"
            for suffix in ("", "-wal"):
                shutil.copy(f"{self.path}{suffix}", f"{target}{suffix}")
        self._run(self.store.close())
        if crash:
            self.path = target
        self.watches = []
        self._open()
        if not crash:
            assert self.store.revision == self.revision

    @invariant()
    def readers_see_the_committed_state(self) -> None:
        state = self.states[self.revision] if not self.in_flight else None
        if state is None:
            return
        for prefix in PREFIXES[:5]:
            listed = [(entry.key, entry.revision, entry.created) for entry in self.store.list(prefix)]
            assert listed == sorted((key, *value) for key, value in state.items() if key.startswith(prefix))
            assert self.store.count(prefix) == len(listed)
            assert self.store.changed(prefix or "/pods/") <= self.revision

    @invariant()
    def writers_see_the_latest(self) -> None:
        for key in KEYS:
            entry = self.store.latest(key)
            assert (entry and (entry.revision, entry.created)) == self.latest.get(key)

    @rule(revision=st.integers(0, 60), prefix=st.sampled_from(PREFIXES[:5]))
    @precondition(lambda self: not self.in_flight)
    def look_back(self, revision: int, prefix: str) -> None:
        try:
            entries = self.store.list_at(prefix, revision)
        except Compacted:
            assert revision < self.compacted
            return
        except FutureRevision:
            assert revision > self.store.revision
            return
        then = max(known for known in self.states if known <= revision)
        expected = sorted((key, *value) for key, value in self.states[then].items() if key.startswith(prefix))
        assert [(entry.key, entry.revision, entry.created) for entry in entries] == expected

    def teardown(self) -> None:
        self._run(self.store.close())
        self.loop.close()
        shutil.rmtree(self.folder)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
