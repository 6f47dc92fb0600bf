"""Kill the whole server with SIGKILL during concurrent HTTPS writes, again and again; count what was lost, torn, repeated.

`python -m tests.conformance.crash --rounds 100`. Writers own their keys and note every acknowledged write; every object
carries a number and a checksum of itself. One watcher goes on from the last revision it saw, over all restarts. After
each kill the server is started again on the same home and its list is compared with what was acknowledged.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
import zlib
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.service import Service, eventually
from tests.conformance.wire import Answer, Closed, Wire, encoded

NAMESPACE = "default"
_PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_LABEL = "crash-test"
WRITERS = 8
KEYS = 6  # of each writer


@dataclass(slots=True)
class Outcome:
    rounds: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)  # one revision for two writes, or one that went back
    unseen: list[str] = field(default_factory=list)  # acknowledged, and the watch never said so
    watch_ends: int = 0
    relists: int = 0

    def clean(self) -> bool:
        return not (self.lost or self.torn or self.repeated or self.unseen)

    def report(self) -> str:
        counts = f"lost {len(self.lost)}, torn {len(self.torn)}, repeated revisions {len(self.repeated)}, unseen by the watch {len(self.unseen)}"
        details = [*self.lost, *self.torn, *self.repeated, *self.unseen][:20]
        return "\n".join(
            [f"{self.rounds} kills, {self.acknowledged} acknowledged writes: {counts}; the watch resumed {self.watch_ends} times, relisted {self.relists} times", *details]
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Write:
    key: str
    revision: int
    number: int  # 0: deleted


class Writer(threading.Thread):
    """Creates, patches and deletes its own keys until the server is gone."""

    def __init__(self, service: Service, index: int, seed: float) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._index = index
        self._chance = random.Random(seed)
        self.written: list[Write] = []
        self.problems: list[str] = []

    def run(self) -> None:
        try:
            with closing(self._service.connect()) as wire:
                while True:
                    self._one(wire, f"crash-{self._index}-{self._chance.randrange(KEYS)}")
        except (Closed, OSError):
            return

    def _one(self, wire: Wire, key: str) -> None:
        number = self._chance.randrange(1, 1 << 40)
        roll = self._chance.random()
        if roll < 0.15:
            answer = self._ask(wire, "DELETE", f"{_PATH}/{key}")
            if answer.status == 200:  # says nothing of its revision: the watch will
                self.written.append(Write(key, 0, 0))
            return
        data = contents(number, self._chance)
        answer = self._ask(wire, "PATCH", f"{_PATH}/{key}", {"data": data}, "application/merge-patch+json")
        if answer.status == 404:
            meta = {"name": key, "labels": {_LABEL: "yes"}}
            answer = self._ask(wire, "POST", _PATH, {"metadata": meta, "data": data})
        if answer.status in (200, 201):
            self.written.append(Write(key, int(answer.json()["metadata"]["resourceVersion"]), number))
        else:
            self.problems.append(f"{answer.status} {answer.body[:200]!r}")

    def _ask(self, wire: Wire, method: str, path: str, body: Any = None, media: str = "application/json") -> Answer:
        headers = {"authorization": f"Bearer {self._service.token}"}
        sent = None if body is None else json.dumps(body).encode()
        if sent is not None:
            headers["content-type"] = media
        return wire.ask(method, path, headers, sent)


class Watcher(threading.Thread):
    """Follows all changes from the last revision it knows; what it believes is compared with a list at the end."""

    def __init__(self, service: Service, outcome: Outcome) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._outcome = outcome
        self.revision = 0
        self.state: dict[str, tuple[int, int]] = {}  # key -> revision and number
        self.seen: dict[int, Write] = {}
        self.done = False
        self.wire: Wire | None = None

    def run(self) -> None:
        while not self.done:
            try:
                self._follow()
            except (Closed, OSError, AttributeError):
                self._outcome.watch_ends += 1
                time.sleep(0.02)  # the server is being started again

    def _follow(self) -> None:
        with closing(self._service.connect(60)) as self.wire:
            self._read(self.wire)

    def _read(self, wire: Wire) -> None:
        if not self.revision:
            self._list(wire)
        query = f"?watch=true&labelSelector={_LABEL}&resourceVersion={self.revision}&allowWatchBookmarks=true"
        wire.send(encoded("GET", _PATH + query, {"authorization": f"Bearer {self._service.token}"}))
        if wire.read(whole=False).status != 200:
            raise Closed("no watch")
        left = b""
        while chunk := wire.chunk():
            *lines, left = (left + chunk).split(b"\n")
            for line in lines:
                self._event(json.loads(line))

    def _list(self, wire: Wire) -> None:
        self._outcome.relists += 1
        listing = wire.ask(
            "GET", f"{_PATH}?labelSelector={_LABEL}", {"authorization": f"Bearer {self._service.token}"}
        ).json()
        self.state = {each["metadata"]["name"]: _stamp(each) for each in listing["items"]}
        self.revision = int(listing["metadata"]["resourceVersion"])

    def _event(self, event: Any) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            self.revision = 0
            raise Closed(str(obj))
        revision = int(obj["metadata"]["resourceVersion"])
        if event["type"] == "BOOKMARK":
            self.revision = max(self.revision, revision)
            return
        key = obj["metadata"]["name"]
        if revision <= self.revision:
            self._outcome.repeated.append(f"the watch went back from {self.revision} to {revision}")
        self.revision = revision
        deleted = event["type"] == "DELETED"
        self.seen[revision] = Write(key, revision, 0 if deleted else int(obj["data"]["number"]))
        if deleted:
            self.state.pop(key, None)
        else:
            self.state[key] = _stamp(obj)


class Ledger:
    """What was acknowledged, over all rounds."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.newest: dict[str, Write] = {}
        self.revisions: dict[int, Write] = {}

    def add(self, writers: list[Writer]) -> None:
        for write in (each for writer in writers for each in writer.written):
            self._outcome.acknowledged += 1
            self.newest[write.key] = write
            if not write.revision:
                continue
            known = self.revisions.setdefault(write.revision, write)
            if known != write:
                self._outcome.repeated.append(f"{known} and {write}")

    def compare(self, items: dict[str, Any]) -> None:
        for key, obj in items.items():
            if not whole(obj):
                self._outcome.torn.append(f"{key}: {obj['data']}")
        for key, write in self.newest.items():
            found = _stamp(items[key]) if key in items else None
            if write.number and found is None and not self._deleted_later(key, write):
                self._outcome.lost.append(f"{write}: gone")
            elif (
                write.number
                and found is not None
                and (found[0] < write.revision or (found[0] == write.revision and found[1] != write.number))
            ):
                self._outcome.lost.append(f"{write}: found {found}")
            elif found is not None and not write.number and self._known(found):
                self._outcome.lost.append(f"{key} was deleted and is back as {found}")

    def _known(self, found: tuple[int, int]) -> bool:
        """Whether it is an acknowledged write: what is older than a later acknowledged delete must not be there."""
        return found[0] in self.revisions

    def _deleted_later(self, key: str, write: Write) -> bool:
        """A delete in flight when the server died may have been done; the watch tells."""
        return any(
            seen.key == key and not seen.number and seen.revision > write.revision for seen in self.watched.values()
        )

    watched: dict[int, Write] = {}  # noqa: RUF012 - the watcher's own, set once


def contents(number: int, chance: random.Random) -> dict[str, str]:
    blob = chance.randbytes(chance.choice([10, 500, 3000])).hex()
    return {"number": str(number), "blob": blob, "sum": str(zlib.crc32(f"{number}{blob}".encode()))}


def whole(obj: Any) -> bool:
    data = obj.get("data") or {}
    return data.get("sum") == str(zlib.crc32(f"{data.get('number')}{data.get('blob')}".encode()))


def _stamp(obj: Any) -> tuple[int, int]:
    return int(obj["metadata"]["resourceVersion"]), int(obj["data"]["number"])


def crash_rounds(folder: Path, rounds: int, seed: int = 0) -> Outcome:
    chance = random.Random(seed)
    outcome = Outcome()
    ledger = Ledger(outcome)
    service = Service(folder / "home")
    service.start()
    watcher = Watcher(service, outcome)
    ledger.watched = watcher.seen
    watcher.start()
    eventually(lambda: watcher.revision, "the watcher did not begin")  # what it lists first it never sees
    try:
        for _ in range(rounds):
            _round(service, ledger, chance, outcome)
            _catch_up(service, watcher, outcome)
            ledger.compare(_items(service))
        _judge_watch(watcher, ledger, outcome, _items(service))
    finally:
        watcher.done = True
        service.stop()
        watcher.join(30)
    return outcome


def _round(service: Service, ledger: Ledger, chance: random.Random, outcome: Outcome) -> None:
    writers = [Writer(service, index, chance.random()) for index in range(WRITERS)]
    for writer in writers:
        writer.start()
    eventually(lambda: any(writer.written for writer in writers), "nothing was written")
    time.sleep(chance.uniform(0.0, 1.0))  # the moment of the kill is what is tested
    service.kill()
    for writer in writers:
        writer.join(30)
    problems = [problem for writer in writers for problem in writer.problems]
    assert not problems, problems[:3]
    ledger.add(writers)
    outcome.rounds += 1
    service.start()


def _items(service: Service) -> dict[str, Any]:
    listing = service.ask("GET", f"{_PATH}?labelSelector={_LABEL}").json()
    return {each["metadata"]["name"]: each for each in listing["items"]}


def _catch_up(service: Service, watcher: Watcher, outcome: Outcome) -> None:
    """A last write, to see that the watch goes on: it is seen on the resumed watch."""
    number = str(outcome.rounds)
    meta = {"name": "crash-mark", "labels": {_LABEL: "yes"}}
    data = {"number": number, "blob": "", "sum": str(zlib.crc32(number.encode()))}
    path = f"{_PATH}/crash-mark?fieldManager=crash&force=true"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    answer = service.ask("PATCH", path, body, media="application/apply-patch+yaml")
    assert answer.status in (200, 201), answer
    revision = int(answer.json()["metadata"]["resourceVersion"])
    eventually(lambda: watcher.revision >= revision, f"the watch did not resume: at {watcher.revision}, not {revision}")


def _judge_watch(watcher: Watcher, ledger: Ledger, outcome: Outcome, items: dict[str, Any]) -> None:
    for revision, write in ledger.revisions.items():
        if watcher.seen.get(revision) != write:
            outcome.unseen.append(f"{write}, the watch said {watcher.seen.get(revision)}")
    listed = {key: _stamp(obj) for key, obj in items.items()}
    if listed != watcher.state:
        outcome.unseen.append(f"the watch believes {watcher.state}, the list says {listed}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = crash_rounds(Path(folder), options.rounds, options.seed)
    print(outcome.report())
    return 0 if outcome.clean() else 1


if __name__ == "__main__":
    sys.exit(main())
