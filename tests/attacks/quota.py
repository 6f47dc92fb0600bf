"""Random sequences of what an `edit` user may send to get GPUs without quota, against the whole control plane in process.

`python -m tests.attacks.quota --count 10000 --seed N` runs them. The cluster is the real one (API server with its
webhooks, Kueue, controllers, pod scheduler, simulated nodes) on virtual time. Two teams share a cohort: red attacks,
blue wants its quota. Checked at every commit: a pod gets a node only while the GPUs of all pods of its namespace, also
of those being deleted, stay within what the namespace's admitted workloads hold; no pod of a workload that holds quota
is preempted by the pod scheduler. Checked after every step: what exceeds quota because quota was given back is over
within `PATIENCE`. At the end of every fourth sequence blue's job for all its quota runs.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.attacks.attempts import GPU, KINDS, Attacker, job

from gpuaas.apiserver.local import LocalClient, LocalDiscovery
from gpuaas.assembly.clusters import open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import SystemClock, VirtualClock
from gpuaas.base.errors import ApiError, NotFound
from gpuaas.base.ids import SeededIds
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, PRIORITY_CLASSES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import (
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
)
from gpuaas.controllers import KUEUE, OPERATORS, all_controllers
from gpuaas.controllers.integrations.kinds import JOB_CONTROLLERS
from gpuaas.controllers.integrations.uncovered_pods import PATIENCE
from gpuaas.executors.nodes import NodeSpec, node_object
from gpuaas.executors.simulated import SimulatedKubelet
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.config import MANAGED_NAMESPACE, JobsConfig
from gpuaas.runtime.controller import Controllers, Deps
from gpuaas.runtime.events import EventSink
from gpuaas.store import Event

RUNNING = {
    "garbage-collector-controller", "serviceaccount-controller", "job-controller", "replicaset-controller", "default-scheduler",
    "deployment-controller", "statefulset-controller", "kueue", "kueue-statuses",
    *(kind.name for kind in OPERATORS),
}  # fmt: skip
POD_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
OWN, ALL = {"red": 4, "blue": 12}, 16
STEPS = (4, 8)
WANTS_ALL = 4
"""Of so many sequences one ends with blue's job for all its quota: it costs as much as the rest."""
LONGEST = 700.0
"""Virtual seconds until blue's job has to run: what was deleted may take ten minutes to go."""


class Broken(AssertionError):
    """Quota was exceeded, or a pod was preempted; the text says how."""


class _Silence(EventSink):
    """Nothing depends on events, and they would be half of all writes."""

    def record(self, said: Any) -> None:
        return


class Arena:
    def __init__(self, everywhere: bool) -> None:
        self.everywhere = everywhere
        self.refusals: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.bindings = 0
        self.broken: list[str] = []
        self._used: dict[str, dict[str, int]] = {"red": {}, "blue": {}}  # GPUs by pod; of all that have a node
        self._leaving: set[str] = set()
        self._held: dict[str, dict[str, int]] = {"red": {}, "blue": {}}  # by workload
        self._over_since: dict[str, float] = {}

    async def open(self, home: Path) -> None:
        self.clock = VirtualClock()
        configured = Configured(Configuration(jobs=JobsConfig(manage_without_queue=self.everywhere)))
        trust = Trust(home / "certificates", home / "users.json", SystemClock())
        self._parts = await open_cluster(
            "local", home / "store.db", trust, self.clock, SeededIds(), fsync=False, configured=configured
        )
        cluster, access = self._parts.cluster, self._parts.access
        self.store = cluster.store
        system = LocalClient(cluster, access.system_user("controllers"), "gpuaas")
        deps = Deps.over(system, self.clock, LocalDiscovery(cluster), quota=self._parts.quota)
        deps = replace(deps, events=_Silence(system, self.clock))
        kueue = [kind(deps.under(KUEUE), configured) for kind in JOB_CONTROLLERS]
        nodes = [NodeSpec(f"node-{i}", cpu="96", memory="1Ti", gpu_product="NVIDIA-H200", gpu_count=8) for i in (0, 1)]
        made = [*all_controllers(deps, RUNNING, configured), *kueue, SimulatedKubelet(deps, nodes)]
        self._controllers = Controllers(deps, made)
        await self._controllers.start()
        self.client = LocalClient(cluster, access.system_user("user"), "kubectl")
        await self._furnish(nodes)
        for prefix, seen in ((f"/{PODS.plural}/", self._pods_changed), (WORKLOAD_PREFIX, self._workloads_changed)):
            self.store.watch(prefix, self.store.revision, seen).resume()
        await self.settle()

    async def close(self) -> None:
        await self._controllers.stop()
        await self._parts.close()

    async def _furnish(self, nodes: Sequence[NodeSpec]) -> None:
        for spec in nodes:
            obj = node_object(spec, self.clock.now())
            await self._make(NODES, {**obj, "metadata": {**obj["metadata"]}})
            await self.client.patch(NODES, spec.name, {"status": obj["status"]}, subresource="status")
            await self.client.patch(NODES, spec.name, {"spec": {"taints": None}})
        await self._make(RESOURCE_FLAVORS, {"metadata": {"name": "any"}, "spec": {}})
        for name, value in (("high", 1000), ("low", -5)):
            await self._make(POD_CLASSES, {"metadata": {"name": name}, "value": value})
            await self._make(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        overhead = {"podFixed": {GPU: "1"}}
        await self._make(RUNTIME_CLASSES, {"metadata": {"name": "heavy"}, "handler": "x", "overhead": overhead})
        for team, gpus in OWN.items():
            labels = {} if self.everywhere else {MANAGED_NAMESPACE: "true"}
            await self._make(NAMESPACES, {"metadata": {"name": team, "labels": labels}})
            quota = {"name": GPU, "nominalQuota": str(gpus)}
            group = {"coveredResources": [GPU], "flavors": [{"name": "any", "resources": [quota]}]}
            spec = {
                "namespaceSelector": {}, "resourceGroups": [group], "cohortName": "both",
                "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
            }  # fmt: skip
            await self._make(CLUSTER_QUEUES, {"metadata": {"name": team}, "spec": spec})
            await self._make(
                LOCAL_QUEUES, {"metadata": {"name": "lq", "namespace": team}, "spec": {"clusterQueue": team}}
            )
            held = {"clusterQueue": team, "stopPolicy": "Hold"}
            await self._make(LOCAL_QUEUES, {"metadata": {"name": "held", "namespace": team}, "spec": held})
        for _ in range(100):
            await self.settle()
            if all([await self._there(SERVICE_ACCOUNTS, team, "default") for team in OWN]):
                return
        raise AssertionError("no service accounts")

    async def _there(self, resource: Resource, namespace: str, name: str) -> bool:
        try:
            await self.client.get(resource, name, namespace)
        except NotFound:
            return False
        return True

    async def _make(self, resource: Resource, obj: Object) -> Object:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self.client.create(resource, whole, obj["metadata"].get("namespace", ""))

    # Time.

    async def settle(self) -> None:
        """Until no controller has anything to do and nothing was written for a while of turns; time stands still."""
        quiet, seen = 0, -1
        for _ in range(100_000):
            self.store.hasten()
            await asyncio.sleep(0)
            idle = self._controllers.idle and self.store.revision == seen
            quiet, seen = (quiet + 1 if idle else 0), self.store.revision
            if quiet >= 10:
                return
        events, _ = self.store.events_after("", max(self.store.compacted, self.store.revision - 30), -1)
        lately = Counter(event.key for event in events)
        raise Broken(f"the controllers do not come to rest; written lately: {dict(lately)}")

    async def advance(self, seconds: float) -> None:
        """Move time on, stopping at every deadline, but for those within one second together."""
        target = self.clock.now() + seconds
        while True:
            await self.settle()
            self._check_over()
            deadline = self.clock.next_deadline()
            if deadline is None or deadline > target:
                break
            self.clock.advance(min(target, deadline + 1.0) - self.clock.now())
        self.clock.advance(max(0.0, target - self.clock.now()))
        await self.settle()
        self._check_over()

    # What must hold.

    def _pods_changed(self, events: Sequence[Event]) -> None:
        for event in events:
            pod = event.entry.obj
            team, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
            if team not in self._used:
                continue
            uses = event.type != "DELETED" and pod["spec"].get("nodeName") and not _ended(pod)
            if not uses:
                self._used[team].pop(uid, None)
                self._leaving.discard(uid)
                continue
            is_new = uid not in self._used[team]
            self._used[team][uid] = gpus_of(pod["spec"])
            if pod["metadata"].get("deletionTimestamp"):
                self._leaving.add(uid)
            if is_new:
                self._bound(team, pod)
            self._check_preempted(team, pod)

    def _bound(self, team: str, pod: Object) -> None:
        self.bindings += 1
        used, held = sum(self._used[team].values()), self._holds(team)
        if used > held and gpus_of(pod["spec"]):
            self.broken.append(f"{pod['metadata']['name']} got a node: {used} GPUs in use in {team}, {held} held")

    def _check_preempted(self, team: str, pod: Object) -> None:
        name = (pod["metadata"].get("annotations") or {}).get(keys.WORKLOAD, "")
        if not self._held[team].get(name):
            return  # its quota was given back: it has no claim to its place
        for each in (pod.get("status") or {}).get("conditions") or ():
            if each["type"] == "DisruptionTarget" and each.get("reason") == "PreemptionByScheduler":
                self.broken.append(f"{team}/{pod['metadata']['name']} was preempted by the pod scheduler")

    def _workloads_changed(self, events: Sequence[Event]) -> None:
        for event in events:
            obj = event.entry.obj
            team, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
            if event.type == "DELETED":
                self._held[team].pop(name, None)
            else:
                self._held[team][name] = held_gpus(obj)

    def _holds(self, team: str) -> int:
        """As committed: what is admitted at this commit is among it."""
        return sum(self._held[team].values())

    def _check_over(self) -> None:
        now = self.clock.now()
        for team, used in self._used.items():
            staying = sum(gpus for uid, gpus in used.items() if uid not in self._leaving)
            if staying <= self._holds(team):
                self._over_since.pop(team, None)
            elif now - self._over_since.setdefault(team, now) > PATIENCE + 5:
                self.broken.append(f"{staying} GPUs stay in use in {team} for {now - self._over_since[team]:.0f} s, "
                                   f"{self._holds(team)} are held")  # fmt: skip

    # One sequence.

    async def sequence(self, seed: int) -> None:
        chance = random.Random(seed)
        attacker = Attacker(self.client, chance, seed)
        for _ in range(chance.randint(*STEPS)):
            name, attempt = attacker.draw()
            try:
                await attempt()
                self.done[name] += 1
            except ApiError as error:
                self.refusals[f"{name}: {error.reason}"] += 1
            await self.advance(chance.choice((0, 0, 0, 0.5, 2, 12, 40)))
            if self.broken:
                raise Broken("; ".join(dict.fromkeys(self.broken)))
        if seed % WANTS_ALL == 0:
            await self._blue_runs(f"blue-{seed}")
        if self.broken:
            raise Broken("; ".join(dict.fromkeys(self.broken)))
        await self._clear()

    async def _blue_runs(self, name: str) -> None:
        """Whatever red did: blue reclaims what is its own, and runs."""
        for each in (await self.client.list(JOBS, "blue")).items:
            await self._remove(JOBS, each)
        await self._make(JOBS, job("blue", name, 1, parallelism=OWN["blue"], completions=OWN["blue"]))
        until = self.clock.now() + LONGEST
        while self.clock.now() < until:
            await self.advance(10)
            found = await self.client.get(JOBS, name, "blue")
            if (found.get("status") or {}).get("ready") == OWN["blue"]:
                return
        used = {team: sum(each.values()) for team, each in self._used.items()}
        held = {team: self._holds(team) for team in OWN}
        raise Broken(f"blue's job does not run after {LONGEST:.0f} s: in use {used}, held {held}")

    async def _clear(self) -> None:
        for _ in range(40):
            left = 0
            for team in OWN:
                for resource in (*KINDS, WORKLOADS):
                    for obj in (await self.client.list(resource, team)).items:
                        left += 1
                        await self._remove(resource, obj)
            if not left:
                break
            await self.advance(2)
        else:
            raise Broken("something cannot be deleted")
        await self.settle()
        self.broken.clear()
        self._over_since.clear()
        await self.store.compact(self.store.revision)

    async def _remove(self, resource: Resource, obj: Object) -> None:
        metadata = obj["metadata"]
        try:
            if metadata.get("finalizers"):
                await self.client.patch(
                    resource, metadata["name"], {"metadata": {"finalizers": None}}, metadata["namespace"]
                )
            await self.client.delete(
                resource, metadata["name"], metadata["namespace"], propagation=Propagation.BACKGROUND, grace=0
            )
        except ApiError:
            return


WORKLOAD_PREFIX = f"{WORKLOADS.group}/{WORKLOADS.plural}/"


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def gpus_of(spec: Object) -> int:
    """Counted by the test's own rule: containers together or the largest init container, and the overhead."""
    each = [int((one.get("resources") or {}).get("limits", {}).get(GPU, 0)) for one in spec.get("containers") or ()]
    first = [
        int((one.get("resources") or {}).get("limits", {}).get(GPU, 0)) for one in spec.get("initContainers") or ()
    ]
    return max(sum(each), max(first, default=0)) + int((spec.get("overhead") or {}).get(GPU, 0))


def held_gpus(workload: Object) -> int:
    """As the API shows it: reserved, not finished, less what was given back."""
    status = workload.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    if conditions.get("QuotaReserved") != "True" or conditions.get("Finished") == "True" or not status.get("admission"):
        return 0
    taken = {each["name"]: each["count"] for each in status.get("reclaimablePods") or ()}
    sizes = {each["name"]: each["count"] for each in workload["spec"]["podSets"]}
    total = 0
    for each in status["admission"]["podSetAssignments"]:
        count = each.get("count", 1)
        left = min(count, max(0, sizes.get(each["name"], count) - taken.get(each["name"], 0)))
        total += int((each.get("resourceUsage") or {}).get(GPU, 0)) // max(count, 1) * left
    return total


async def run(
    numbers: Sequence[int], everywhere: bool, report: Callable[[int], None] = lambda _: None, arena: Arena | None = None
) -> Arena:
    """All of these sequences in one cluster; raises Broken with the number of the first that shows a way around."""
    arena = arena or Arena(everywhere)
    with tempfile.TemporaryDirectory() as folder:
        await arena.open(Path(folder))
        try:
            for number in numbers:
                try:
                    await arena.sequence(number)
                except Exception as error:
                    mode = "everywhere" if everywhere else "managed"
                    raise Broken(f"--seed {number} --mode {mode}: {error}") from error
                report(number)
        finally:
            await arena.close()
    return arena


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.quota", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=("both", "managed", "everywhere"), default="both")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # controllers tell what they are refused for, which is what red brings about
    modes = {"both": (False, True), "managed": (False,), "everywhere": (True,)}[options.mode]
    began, broken = time.monotonic(), 0
    for everywhere in modes:
        tally = Tally(began)
        left = range(options.seed, options.seed + options.count // len(modes))
        while left:
            arena = Arena(everywhere)
            try:
                asyncio.run(run(left, everywhere, tally.report, arena))
            except Broken as error:  # the cluster is as the sequence left it: the next ones get another
                broken += 1
                print(f"broken: {error}", flush=True)
                tally.reached = max(tally.reached, left.start) + 1
            tally.add(arena)
            left = range(max(tally.reached, left.start), left.stop)
        print(f"{'everywhere' if everywhere else 'managed'}: {tally.text()}", flush=True)
    print(f"{broken} ways around quota")
    return 1 if broken else 0


@dataclass
class Tally:
    began: float
    reached: int = 0
    done: Counter[str] = field(default_factory=Counter)

    def report(self, number: int) -> None:
        self.reached = number + 1
        self.done["sequences"] += 1
        if self.done["sequences"] % 250 == 0:
            print(f"{self.done['sequences']} sequences, {time.monotonic() - self.began:.0f} s", flush=True)

    def add(self, arena: Arena) -> None:
        self.done["requests"] += sum(arena.done.values())
        self.done["refused"] += sum(arena.refusals.values())
        self.done["bound"] += arena.bindings

    def text(self) -> str:
        found = self.done
        return (
            f"{found['sequences']} sequences, {found['requests']} requests done, {found['refused']} refused, "
            f"{found['bound']} pods got a node; {time.monotonic() - self.began:.0f} s"
        )


if __name__ == "__main__":
    sys.exit(main())
