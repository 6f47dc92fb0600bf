"""Random histories of a hub and its workers: jobs come, links fail, machines die, settings change; then all heals.

Each is made by a seed and can be run again. `run` gives what went wrong: a job lost, one that ran on two clusters at once,
or a state that does not come to rest.
"""

from __future__ import annotations

import random
from typing import Any

from tests.unit.fleet.multikueue.world import TEAM, World

from gpuaas.base.errors import NotFound
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.resources import JOBS
from gpuaas.kueue.multikueue.rules import MultiKueueRules

LOST = 120.0
STEPS = 14


async def run(seed: int, steps: int = STEPS) -> list[str]:
    chance = random.Random(seed)
    workers = [f"worker{number}" for number in range(1, chance.choice((2, 2, 3)) + 1)]
    skews = {name: chance.choice((0.0, 0.0, -3600.0, 7.3, 86400.0)) for name in ("hub", *workers)}
    async with World(workers, gpus=3, rules=MultiKueueRules(worker_lost_timeout=LOST), skews=skews) as world:
        history = History(world, chance)
        for _ in range(steps):
            await history.step()
            await world.advance(chance.choice((0.1, 1.0, 3.0, 10.0, 40.0)))
            if chance.random() < 0.1:
                await world.advance(LOST * 1.3)
        await history.heal()
        for _ in range(60):
            await world.advance(60)
            if history.is_over():
                break
        return [f"seed {seed}: {each}" for each in (*history.wrong(), *([history.told()] if history.wrong() else []))]


class History:
    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.jobs: list[str] = []
        self.cancelled: set[str] = set()
        self.down: set[str] = set()
        self.lines: list[str] = []
        self.backups: dict[str, Any] = {}

    async def step(self) -> None:
        name = self.chance.choices(
            ("submit", "cut", "mend", "crash", "recover", "hub", "configure", "cancel", "meddle", "slow", "restore"),
            (6, 4, 3, 2, 3, 1.5, 1.5, 1, 1.5, 1, 1.5),
        )[0]
        await getattr(self, name)()

    def _note(self, words: str) -> None:
        self.lines.append(f"{self.world.clock.now() - 1_767_225_600:.1f} {words}")

    def _worker(self) -> str:
        return self.chance.choice(self.world.workers)

    async def submit(self) -> None:
        for _ in range(self.chance.choice((1, 1, 3))):
            name = f"job{len(self.jobs)}"
            lasts = self.chance.choice((2.0, 20.0, 60.0, 200.0))
            self._note(f"submit {name} for {lasts}")
            self.jobs.append(name)
            self.world.submit(name, lasts=lasts, gpus=self.chance.choice((1, 1, 2)))

    async def cut(self) -> None:
        worker, fault = self._worker(), self.chance.choice(("refused", "silent", "revoked"))
        if worker not in self.down:
            self._note(f"cut {worker} {fault}")
            self.world.wires[worker].become(fault)

    async def mend(self) -> None:
        worker = self._worker()
        if worker not in self.down:
            self._note(f"mend {worker}")
            self.world.wires[worker].become("")

    async def crash(self) -> None:
        worker = self._worker()
        if worker not in self.down:
            self._note(f"crash {worker}")
            self.down.add(worker)
            await self.world.crash(worker)

    async def recover(self) -> None:
        if self.down:
            worker = self.chance.choice(sorted(self.down))
            self._note(f"recover {worker}")
            self.down.discard(worker)
            await self.world.recover(worker)

    async def hub(self) -> None:
        self._note("restart hub")
        await self.world.stop("hub")
        await self.world.advance(self.chance.choice((0.0, 5.0, LOST * 1.5)))
        await self.world.start("hub")

    async def configure(self) -> None:
        chosen = [each for each in self.world.workers if self.chance.random() < 0.7] or self.world.workers[:1]
        self.chance.shuffle(chosen)
        self._note(f"configure {chosen}")
        self.world.configure(chosen)

    async def cancel(self) -> None:
        left = [each for each in self.jobs if each not in self.cancelled and not self.world.is_done(each)]
        if left:
            name = self.chance.choice(left)
            self._note(f"cancel {name}")
            self.cancelled.add(name)
            await self.world.cancel(name)

    async def meddle(self) -> None:
        """Somebody deletes on a worker what the hub has made."""
        worker = self._worker()
        cluster = self.world.clusters[worker]
        resource = self.chance.choice((JOBS, WORKLOADS))
        found = cluster.all(resource, TEAM)
        if found:
            name = self.chance.choice(found)["metadata"]["name"]
            self._note(f"delete {resource} {name} on {worker}")
            try:
                cluster.remove(resource, name, TEAM)
            except NotFound:
                return

    async def slow(self) -> None:
        worker, delay = self._worker(), self.chance.choice((0.0, 0.5, 4.0))
        self._note(f"slow {worker} {delay}")
        self.world.wires[worker].delay = delay

    async def restore(self) -> None:
        """A worker's store as it was some steps ago."""
        worker = self._worker()
        if worker in self.down:
            return
        kept = self.backups.get(worker)
        if kept is None:
            self._note(f"backup {worker}")
            self.backups[worker] = self.world.backup(worker)
        else:
            self._note(f"restore {worker}")
            await self.world.restore(worker, self.backups.pop(worker))

    async def heal(self) -> None:
        self._note("heal")
        for worker in sorted(self.down):
            await self.world.recover(worker)
        self.down.clear()
        for wire in self.world.wires.values():
            wire.delay = 0.0
            if wire.fault:
                wire.become("")
        self.world.configure(self.world.workers)

    def is_over(self) -> bool:
        done = all(self.world.is_done(each) or each in self.cancelled for each in self.jobs)
        return done and not any(self.world.left_on(each) for each in self.world.workers)

    def wrong(self) -> list[str]:
        found = [f"{a.job} ran on {a.cluster} and {b.cluster}: {a} {b}" for a, b in self.world.record.overlaps()]
        for each in self.jobs:
            if each in self.cancelled:
                if self.world.job(each) is not None:
                    found.append(f"{each} was cancelled and is there")
            elif not self.world.is_done(each):
                found.append(f"{each} never ended")
        left = {worker: self.world.left_on(worker) for worker in self.world.workers}
        return [*found, *(f"left on {worker}: {names}" for worker, names in left.items() if names)]

    def told(self) -> str:
        return "\n".join([*self.lines, self.world.told()])
