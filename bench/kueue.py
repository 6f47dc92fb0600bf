"""Kueue's own baseline scenario through the API: 15,000 Workloads created, admitted, evicted and finished over HTTPS.

`python -m bench.kueue [--scale N]`: 5 cohorts of 6 queues; each queue gets 350 small, 100 medium and 50 large workloads
at the scenario's pace. The driver plays the jobs: it watches, lets an admitted workload run its time, gives quota back
when it is evicted, and finishes it. Printed beside two yardsticks: what the quota alone needs, and what the same policy
takes with no latency at all (preempted work starts again), measured in virtual time.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.embedded import embedded
from bench.engine import BASELINE, Class, run_virtual
from gpuaas.base.errors import ApiError, Conflict, NotFound
from gpuaas.client.http import HttpClient, from_kubeconfig
from gpuaas.client.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.resources import NAMESPACES
from gpuaas.engine.lifecycle import release
from gpuaas.kueue.workload_state import conditions_of, is_true, life_of, status_with

COHORT_COUNT, QUEUES_EACH = 5, 6
NOMINAL, BORROWING = 20, 100
GAP = "free quota to admission"
AT_ONCE = "submission to admission, room at once"
Object = dict[str, Any]


class Room:
    """How long there had been room for a workload when it got in: the time from free quota to admission.

    It hears of every arrival, admission and release of a cohort, in order. A workload waits from when the server has it,
    which the watch shows; how long it took to get there is told apart, where there was room for it already. While
    victims are on their way out, room is kept for whom they make place, and is not free for others: only from when the
    last of them has gone. The same measure is taken of a run with no latency at all, where it must be nothing.
    """

    def __init__(self) -> None:
        self._free: dict[str, int] = defaultdict(lambda: QUEUES_EACH * NOMINAL)
        self._since: dict[tuple[str, int], float] = {}
        self._leaving: dict[str, int] = defaultdict(int)
        self._left: dict[str, float] = defaultdict(float)
        self._arrived: dict[str, float] = {}
        self.gaps: list[float] = []
        self.at_once: dict[str, float] = {}  # when those were admitted that found room

    def arrives(self, key: str, now: float) -> None:
        self._arrived.setdefault(key, now)

    def frees(self, cohort: str, units: int, now: float) -> None:
        self._change(cohort, units, now)

    def evicted(self, cohort: str) -> None:
        self._leaving[cohort] += 1

    def left(self, cohort: str, units: int, now: float) -> None:
        self._leaving[cohort] -= 1
        self._left[cohort] = now
        self._change(cohort, units, now)

    def admitted(self, cohort: str, units: int, key: str, now: float) -> None:
        since = self._since.get((cohort, units), now if self._free[cohort] < units else 0.0)
        if not self._leaving[cohort]:
            free, arrived = max(since, self._left[cohort]), self._arrived[key]
            self.gaps.append(now - max(free, arrived))
            if arrived > free:
                self.at_once.setdefault(key, now)
        self._change(cohort, -units, now)

    def _change(self, cohort: str, units: int, now: float) -> None:
        before = self._free[cohort]
        self._free[cohort] = after = before + units
        for kind in BASELINE:
            if before < kind.units <= after:
                self._since[cohort, kind.units] = now
            elif after < kind.units:
                self._since.pop((cohort, kind.units), None)


@dataclass
class Run:
    """What the driver knows: when each workload came, and when it got its quota."""

    created: dict[str, float] = field(default_factory=dict)
    admitted: dict[str, float] = field(default_factory=dict)
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)  # key -> uid, admitted now
    finished: set[str] = field(default_factory=set)
    room: Room = field(default_factory=Room)
    evictions: int = 0


def queues() -> Iterator[tuple[str, str]]:
    for cohort in range(COHORT_COUNT):
        for queue in range(QUEUES_EACH):
            yield f"cohort-{cohort}", f"queue-{cohort}-{queue}"


async def set_up(client: HttpClient) -> None:
    await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
    for name in sorted({cohort for cohort, _ in queues()}):
        await client.create(COHORTS, {"metadata": {"name": name}, "spec": {}})
    for cohort, queue in queues():
        quota = {"name": "cpu", "nominalQuota": str(NOMINAL), "borrowingLimit": str(BORROWING)}
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
        spec = {
            "cohortName": cohort,
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        }
        await client.create(NAMESPACES, {"metadata": {"name": queue}})
        await client.create(CLUSTER_QUEUES, {"metadata": {"name": queue}, "spec": spec})
        await client.create(LOCAL_QUEUES, {"metadata": {"name": "lq"}, "spec": {"clusterQueue": queue}}, queue)


def workload(kind: Class, number: int) -> Object:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": str(kind.units)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": f"{kind.name}-{number:04d}", "labels": {"class": kind.name}},
        "spec": {
            "queueName": "lq",
            "priority": kind.priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


async def feed(client: HttpClient, queue: str, kind: Class, scale: float, run: Run, start: float) -> None:
    for number in range(round(kind.number * scale)):
        await asyncio.sleep(max(0.0, start + number * kind.every_ms / 1000 - time.monotonic()))
        key = f"{queue}/{kind.name}-{number:04d}"
        run.created[key] = time.monotonic()
        await client.create(WORKLOADS, workload(kind, number), queue)


class Driver:
    """Plays the jobs."""

    def __init__(self, client: HttpClient, run: Run, total: int) -> None:
        self._client = client
        self._run = run
        self._to_finish = total
        self._tasks: set[asyncio.Task[None]] = set()
        self._kinds = {kind.name: kind for kind in BASELINE}
        self.done = asyncio.Event()
        self.failure: BaseException | None = None

    async def watch(self) -> None:
        async for event in self._client.watch(WORKLOADS, timeout_seconds=3600):
            if event.type in ("ADDED", "MODIFIED"):
                self._seen(event.object)

    def _seen(self, obj: Object) -> None:
        meta, run = obj["metadata"], self._run
        key = f"{meta['namespace']}/{meta['name']}"
        conditions = conditions_of(obj)
        if key in run.finished:
            return
        run.room.arrives(key, time.monotonic())
        if is_true(conditions.get("Evicted")) and is_true(conditions.get("QuotaReserved")):
            timer = run.timers.pop(key, None)
            if timer is not None:
                timer.cancel()
                run.evictions += 1
                run.running.pop(key, None)
                run.room.evicted(_cohort(obj))
                self._spawn(self._release(obj))
        elif is_true(conditions.get("Admitted")) and key not in run.running:
            run.running[key] = meta["uid"]
            now = time.monotonic()
            run.admitted.setdefault(key, now)
            kind = self._kinds[meta["labels"]["class"]]
            run.room.admitted(_cohort(obj), kind.units, key, now)
            loop = asyncio.get_running_loop()
            run.timers[key] = loop.call_later(kind.runs_ms / 1000, lambda: self._spawn(self._finish(obj, key)))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()
            self.done.set()

    async def _finish(self, obj: Object, key: str) -> None:
        meta, run = obj["metadata"], self._run
        if key not in run.running or key in run.finished:
            return
        run.timers.pop(key, None)
        run.finished.add(key)
        done = {
            "type": "Finished",
            "status": "True",
            "reason": "Succeeded",
            "message": "Job finished successfully",
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        conditions = [*(each for each in obj["status"]["conditions"]), done]
        await self._client.patch(
            WORKLOADS, meta["name"], {"status": {"conditions": conditions}}, meta["namespace"], subresource="status"
        )
        run.room.frees(_cohort(obj), self._units(obj), time.monotonic())
        self._to_finish -= 1
        if not self._to_finish:
            self.done.set()

    def _units(self, obj: Object) -> int:
        return self._kinds[obj["metadata"]["labels"]["class"]].units

    async def _release(self, obj: Object) -> None:
        meta, run = obj["metadata"], self._run
        while True:
            status = status_with(obj, release(life_of(obj), round(time.time() * 1000)))
            body = {**obj, "status": status}
            try:
                await self._client.update(WORKLOADS, body, meta["namespace"], subresource="status")
                run.room.left(_cohort(obj), self._units(obj), time.monotonic())
                return
            except Conflict:
                obj = await self._client.get(WORKLOADS, meta["name"], meta["namespace"])
            except NotFound:
                return


def _cohort(obj: Object) -> str:
    return str(obj["metadata"]["namespace"].split("-")[1])


def measure(scale: float = 1.0) -> dict[str, Any]:
    gc.disable()  # the driver's own pauses, up to 70 ms when it knows 15,000 workloads, are not what is measured
    with embedded() as kubeconfig:
        found = asyncio.run(drive(kubeconfig, scale))
    report(found, without_latency())
    return found


async def drive(kubeconfig: Path, scale: float) -> dict[str, Any]:
    run = Run()
    total = sum(round(kind.number * scale) for kind in BASELINE) * COHORT_COUNT * QUEUES_EACH
    # Who submits and who runs the jobs are not the same program: neither waits for the other's connections.
    async with from_kubeconfig(kubeconfig) as client, from_kubeconfig(kubeconfig) as submitter:
        await set_up(client)
        driver = Driver(client, run, total)
        watching = asyncio.create_task(driver.watch())
        start = time.monotonic()
        feeds = [feed(submitter, queue, kind, scale, run, start) for _, queue in queues() for kind in BASELINE]
        feeding = asyncio.gather(*feeds)
        progress = asyncio.create_task(_progress(run, total, start))
        try:
            await feeding
            await driver.done.wait()
            if driver.failure is not None:
                raise driver.failure
        except ApiError as error:
            raise SystemExit(f"the server refused: {error}") from None
        elapsed = time.monotonic() - start
        progress.cancel()
        watching.cancel()
        await asyncio.gather(progress, watching, return_exceptions=True)
    return {"workloads": total, "seconds": elapsed, "evictions": run.evictions, **waits(run)}


async def _progress(run: Run, total: int, start: float) -> None:
    while True:
        await asyncio.sleep(1)
        line = (
            f"\r{time.monotonic() - start:5.0f} s  created {len(run.created)}  finished {len(run.finished)} of {total}"
        )
        print(line, end="", file=sys.stderr, flush=True)


def waits(run: Run) -> dict[str, Any]:
    by_class: dict[str, list[float]] = defaultdict(list)
    for key, at in run.admitted.items():
        by_class[key.split("/")[1].split("-")[0]].append(at - run.created[key])
    found: dict[str, Any] = {name: percentiles(values) for name, values in by_class.items()}
    found[GAP] = percentiles(run.room.gaps)
    found[AT_ONCE] = percentiles([at - run.created[key] for key, at in run.room.at_once.items()])
    return found


def without_latency() -> dict[str, Any]:
    """The same policy in virtual time: what a driver would see if nothing took any time."""
    room, units = Room(), {kind.name: kind.units for kind in BASELINE}

    def tell(now: int, what: str, key: str) -> None:
        cohort, _, kind, _ = key.removeprefix("ns/").split("-")
        match what:
            case "arrives":
                room.arrives(key, now / 1000)
            case "frees":
                room.frees(cohort, units[kind], now / 1000)
            case _:
                room.admitted(cohort, units[kind], key, now / 1000)

    _, makespan, _, preemptions, _ = run_virtual(COHORT_COUNT, QUEUES_EACH, BASELINE, tell)
    return {"seconds": makespan / 1000, "evictions": preemptions, GAP: percentiles(room.gaps)}


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {}
    return {name: ordered[int(q * (len(ordered) - 1))] for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}


def report(found: dict[str, Any], ideal: dict[str, Any]) -> None:
    print(f"\n{found['workloads']} workloads in {found['seconds']:.1f} s ({found['evictions']} evictions)")
    print(f"  all 15,000 need 66 s by quota alone, {ideal['seconds']:.0f} s by the same policy with no latency")
    print(f"  {'':40}{'p50':>10}{'p90':>10}{'p99':>10}")
    for name in ("large", "medium", "small"):
        _row(f"admission of {name}", found.get(name) or {})
    _row(GAP, found[GAP])
    _row(f"{GAP}, no latency", ideal[GAP])
    _row(AT_ONCE, found[AT_ONCE])


def _row(name: str, values: dict[str, float]) -> None:
    cells = "".join(f"{values[q] * 1000:>8.0f}ms" if q in values else f"{'-':>10}" for q in ("p50", "p90", "p99"))
    print(f"  {name:40}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the 15,000 workloads")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.scale)
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
