"""Kill a writing store with SIGKILL again and again, and count what was lost, torn or repeated.

`python -m tests.unit.store.crash --rounds 100 FOLDER`. A child opens the store, writes from many tasks at once and
reports each acknowledged write on a pipe; the parent kills it at a random moment, opens the store and compares. The
last object of each key carries a number, its revision and a checksum of itself.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuaas.base.clock import SystemClock
from gpuaas.store import Store

KEYS = 40
TASKS = 16


@dataclass
class Outcome:
    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    torn: int = 0
    repeated: int = 0


def crash_rounds(folder: Path, rounds: int, seed: int = 0) -> Outcome:
    """Each round goes on from the file the last one left behind."""
    chance = random.Random(seed)
    outcome = Outcome()
    newest: dict[str, tuple[int, int]] = {}  # key -> revision and number of its last acknowledged write
    handed_out: set[int] = set()
    path = folder / "crash.db"
    for _ in range(rounds):
        for key, revision, number, stage in _run_and_kill(path, chance):
            if stage == "begin":
                outcome.repeated += revision in handed_out
                handed_out.add(revision)
            else:
                outcome.acknowledged += 1
                newest[key] = max(newest.get(key, (0, 0)), (revision, number))
        outcome.rounds += 1
        asyncio.run(_compare(path, newest, outcome))
    return outcome


def _run_and_kill(path: Path, chance: random.Random) -> list[tuple[str, int, int, str]]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.store.crash", "--child", str(path), "--seed", str(chance.random())],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    lines: list[bytes] = []
    stop_after = chance.randrange(50, 4000)
    for line in child.stdout:
        lines.append(line)
        if len(lines) >= stop_after:
            break
    child.kill()
    lines += child.stdout.readlines()
    child.stdout.close()
    child.wait()
    whole = [line.decode().split() for line in lines if line.endswith(b"\n")]
    return [(key, int(revision), int(number), stage) for key, revision, number, stage in whole]


async def _compare(path: Path, newest: dict[str, tuple[int, int]], outcome: Outcome) -> None:
    store = await Store.open(path, clock=SystemClock())
    try:
        for key, (revision, number) in newest.items():
            entry = store.get(key)
            if entry is None or entry.revision < revision or entry.obj["number"] < number:
                outcome.lost += 1
        for entry in store.list(""):
            obj = entry.obj
            outcome.torn += obj["revision"] != entry.revision or obj["check"] != zlib.crc32(obj["body"].encode())
        outcome.repeated += store.revision < max((revision for revision, _ in newest.values()), default=0)
        revisions = [event.revision for event in store.events_after("", store.compacted, -1)[0]]
        outcome.repeated += len(revisions) != len(set(revisions))
        # What the comparison found is the floor for the next round: also writes that were never acknowledged.
        newest.update({entry.key: (entry.revision, entry.obj["number"]) for entry in store.list("")})
    finally:
        await store.close()


async def _write_until_killed(path: Path, seed: str) -> None:
    chance = random.Random(seed)
    store = await Store.open(path, clock=SystemClock())
    out = sys.stdout.fileno()
    number = max((entry.obj["number"] for entry in store.list("")), default=0)

    async def task() -> None:
        nonlocal number
        while True:
            key = f"/pods/ns/{chance.randrange(KEYS)}"
            number += 1
            mine = number

            def render(revision: int, key: str = key, mine: int = mine) -> tuple[bytes, None]:
                os.write(out, f"{key} {revision} {mine} begin\n".encode())
                body = chance.choice("abc") * chance.randrange(10, 9000)
                obj = {"revision": revision, "number": mine, "body": body, "check": zlib.crc32(body.encode())}
                return msgspec.json.encode(obj), None

            entry = await store.put(key, render)
            os.write(out, f"{key} {entry.revision} {mine} acknowledged\n".encode())
            if mine % 500 == 0:
                await store.compact(store.revision - 300)

    await asyncio.gather(*(task() for _ in range(TASKS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(_write_until_killed(options.folder, options.seed))
        return
    outcome = crash_rounds(options.folder, options.rounds, int(options.seed))
    sys.stdout.write(f"{outcome}\n")
    sys.exit(1 if outcome.lost or outcome.torn or outcome.repeated else 0)


if __name__ == "__main__":
    main()
