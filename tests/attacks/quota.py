"""Random sequences of what an `edit` user may send to get GPUs without quota, against the whole control plane in process.

`python -m tests.attacks.quota --count 10000 --seed N` runs them. The cluster is the real one (API server with its
webhooks, Kueue, controllers, pod scheduler, simulated nodes) on virtual time. Two teams share a cohort: red attacks,
blue wants its quota. Checked at every commit: a pod gets a node only while the GPUs of all pods of its namespace, also
of those being deleted, stay within what the namespace's admitted workloads hold; no pod of a workload that holds quota
is preempted by the pod scheduler. Checked after every step: what exceeds quota because quota was given back is over
within `PATIENCE`. At the end of each sequence blue's job for all its quota runs.
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
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from gpuaas.apiserver.local import LocalClient, LocalDiscovery
from gpuaas.assembly.clusters import open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import SystemClock, VirtualClock
from gpuaas.base.errors import ApiError, NotFound
from gpuaas.base.ids import SeededIds
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, PRIORITY_CLASSES, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import (
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)
from gpuaas.controllers import KUEUE, all_controllers
from gpuaas.controllers.integrations.kinds import JOB_CONTROLLERS
from gpuaas.controllers.integrations.uncovered_pods import PATIENCE
from gpuaas.executors.nodes import NodeSpec, node_object
from gpuaas.executors.simulated import SimulatedKubelet
from gpuaas.kueue.configuration.settings import Configuration, Configured
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.config import MANAGED_NAMESPACE, JobsConfig
from gpuaas.kueue.integrations.job_set import JOB_SETS
from gpuaas.kueue.integrations.ray import CLUSTERS
from gpuaas.runtime.controller import Controllers, Deps
from gpuaas.store import Event

RUNNING = {
    "garbage-collector-controller", "serviceaccount-controller", "job-controller", "replicaset-controller", "default-scheduler",
    "deployment-controller", "statefulset-controller", "kueue", "kueue-statuses", "raycluster-controller", "jobset-controller",
}  # fmt: skip
GPU = "nvidia.com/gpu"
POD_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
OWN, ALL = {"red": 4, "blue": 12}, 16
KINDS = (JOBS, DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, JOB_SETS, CLUSTERS, PODS)
STEPS = (4, 9)
LONGEST = 700.0
"""Virtual seconds until blue's job has to run: what was deleted may take ten minutes to go."""


class Broken(AssertionError):
    """Quota was exceeded, or somebody preempted; the text says how."""


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
        kueue = [kind(deps.under(KUEUE), configured) for kind in JOB_CONTROLLERS]
        nodes = [NodeSpec(f"node-{i}", cpu="96", memory="1Ti", gpu_product="NVIDIA-H200", gpu_count=8) for i in (0, 1)]
        made = [*all_controllers(deps, RUNNING, configured), *kueue, SimulatedKubelet(deps, nodes)]
        self._controllers = Controllers(deps, made)
        await self._controllers.start()
        self.client = LocalClient(cluster, access.system_user("somebody"), "kubectl")
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
        """Until nobody has anything to do and nothing was written for a while of turns; time stands still."""
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
        """Move time on, stopping wherever somebody wakes, but for wakers within one second together."""
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
            return  # its quota was given back: nobody has to leave it its place
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
        attacker = Attacker(self, chance, seed)
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
                for resource in (Resource("", "v1", "events"), Resource("events.k8s.io", "v1", "events")):
                    await self.client.delete_collection(resource, team)
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


def job(team: str, name: str, gpus: int, queue: str = "lq", **spec: Any) -> Object:
    labels = {keys.QUEUE: queue} if queue else {}
    return {
        "metadata": {"name": name, "namespace": team, "labels": labels},
        "spec": {"template": template(gpus), **spec},
    }


def template(gpus: int, **spec: Any) -> Object:
    amount = {GPU: str(gpus)} if gpus else {}
    container = {
        "name": "c", "image": "busybox", "command": ["sleep", "100000"], "resources": {"requests": amount, "limits": amount},
    }  # fmt: skip
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


Attempt = Callable[[], Awaitable[Any]]


class Attacker:
    """Draws attempts; each is one request, or a few that belong together."""

    def __init__(self, arena: Arena, chance: random.Random, seed: int) -> None:
        self._arena, self._chance, self._seed = arena, chance, seed
        self._client = arena.client
        self._number = 0

    def draw(self) -> tuple[str, Attempt]:
        attempts: list[tuple[int, Attempt]] = [
            (5, self.job), (5, self.pod), (3, self.copy), (3, self.set), (2, self.child), (2, self.group), (2, self.elastic),
            (4, self.change_pod), (4, self.change_job), (2, self.scale), (3, self.delete), (2, self.bind), (1, self.resize),
            (1, self.finish), (2, self.blue),
        ]  # fmt: skip
        found = self._chance.choices([each for _, each in attempts], [weight for weight, _ in attempts])[0]
        return found.__name__, found

    # Drawing.

    def _name(self) -> str:
        self._number += 1
        return f"x{self._seed}-{self._number}"

    def _gpus(self) -> int:
        return self._chance.choice((1, 1, 2, 4, 8, 0))

    def _maybe(self, share: float) -> bool:
        return self._chance.random() < share

    async def _some(self, *resources: Resource) -> Object | None:
        found = [obj for each in resources for obj in (await self._client.list(each, "red")).items]
        return self._chance.choice(found) if found else None

    async def _owner(self) -> list[Object]:
        found = await self._some(*KINDS, WORKLOADS)
        if found is None:
            return []
        resource = next((each for each in (*KINDS, WORKLOADS) if each.kind == found["kind"]), JOBS)
        return [
            {
                "apiVersion": resource.api_version, "kind": resource.kind, "name": found["metadata"]["name"],
                "uid": found["metadata"]["uid"] if self._maybe(0.9) else "no-such-uid", "controller": self._maybe(0.9),
            }
        ]  # fmt: skip

    async def _metadata(self, **labels: str) -> Object:
        """With whatever labels, notes and owners others have, or might have."""
        meta: Object = {"name": self._name(), "namespace": "red", "labels": dict(labels), "annotations": {}}
        if self._maybe(0.7):
            meta["ownerReferences"] = await self._owner()
        model = await self._some(PODS) if self._maybe(0.5) else None
        if model is not None:
            meta["labels"] |= model["metadata"].get("labels") or {}
            meta["annotations"] |= model["metadata"].get("annotations") or {}
        for key in (keys.QUEUE, keys.MANAGED, keys.POD_SET, keys.PREBUILT, keys.GROUP_NAME):
            if self._maybe(0.12):
                meta["labels"][key] = await self._value(key)
        for key in (
            keys.WORKLOAD,
            keys.SLICE_NAME,
            keys.SUSPENDING_PARENT,
            keys.GROUP_TOTAL,
            keys.ELASTIC,
            keys.ROLE_HASH,
        ):
            if self._maybe(0.12):
                meta["annotations"][key] = await self._value(key)
        return meta

    async def _value(self, key: str) -> str:
        workload = await self._some(WORKLOADS)
        name = workload["metadata"]["name"] if workload is not None else "nothing"
        return {
            keys.QUEUE: self._chance.choice(("lq", "held", "")), keys.MANAGED: self._chance.choice(("true", "false")),
            keys.POD_SET: "main", keys.GROUP_TOTAL: self._chance.choice(("1", "2", "0", "x")), keys.ELASTIC: "true",
            keys.SUSPENDING_PARENT: self._chance.choice(("deployment", "statefulset")), keys.ROLE_HASH: "0" * 8,
        }.get(key, name)  # fmt: skip

    def _pod_spec(self, gpus: int) -> Object:
        spec: Object = template(gpus)["spec"]
        if self._maybe(0.15):
            spec["priorityClassName"] = self._chance.choice(
                ("high", "low", "system-node-critical", "system-cluster-critical")
            )
        if self._maybe(0.15):
            spec["tolerations"] = [{"operator": "Exists"}]
        if self._maybe(0.1):
            spec["runtimeClassName"] = "heavy"
        if self._maybe(0.15):
            spec["nodeName"] = self._chance.choice(("node-0", "node-1"))
        if self._maybe(0.15):
            spec["schedulingGates"] = [
                {"name": self._chance.choice((keys.ADMISSION_GATE, keys.ELASTIC, keys.TOPOLOGY_GATE))}
            ]
        if self._maybe(0.2):
            spec["terminationGracePeriodSeconds"] = self._chance.choice((0, 5, 100_000))
            spec["containers"][0]["command"] = ["sh", "-c", "trap '' TERM; sleep 100000"]
        if self._maybe(0.1):
            amount = {GPU: "8"}
            spec["initContainers"] = [
                {**spec["containers"][0], "name": "i", "resources": {"limits": amount, "requests": amount}}
            ]
        return spec

    async def _create(self, resource: Resource, obj: Object) -> Object:
        return await self._arena._make(resource, obj)

    # Making.

    async def job(self) -> None:
        spec: Object = {"template": {"spec": self._pod_spec(self._gpus())}, "suspend": self._maybe(0.3)}
        spec["parallelism"] = spec["completions"] = self._chance.choice((1, 1, 2, 4))
        if self._maybe(0.2):
            spec["podReplacementPolicy"] = "Failed"
        made = job("red", self._name(), 0, self._chance.choice(("lq", "lq", "lq", "held", "")))
        if self._maybe(0.2):
            made["metadata"]["annotations"] = {keys.MIN_PARALLELISM: "1"}
        await self._create(JOBS, {**made, "spec": spec})

    async def pod(self) -> None:
        await self._create(PODS, {"metadata": await self._metadata(), "spec": self._pod_spec(self._gpus())})

    async def copy(self) -> None:
        """A running pod once more, as it is."""
        model = await self._some(PODS)
        if model is None:
            return
        kept = {
            key: model["metadata"][key]
            for key in ("labels", "annotations", "ownerReferences")
            if key in model["metadata"]
        }
        spec = {key: value for key, value in model["spec"].items() if key != "nodeName" or self._maybe(0.5)}
        await self._create(PODS, {"metadata": {**kept, "name": self._name(), "namespace": "red"}, "spec": spec})

    async def set(self) -> None:
        resource, name = self._chance.choice((DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)), self._name()
        pods = {
            "metadata": {"labels": {"app": name}},
            "spec": {**self._pod_spec(self._gpus()), "restartPolicy": "Always"},
        }
        metadata = await self._metadata()
        metadata["name"] = name
        spec: Object = {
            "replicas": self._chance.choice((1, 2)),
            "selector": {"matchLabels": {"app": name}},
            "template": pods,
        }
        if resource is STATEFUL_SETS:
            spec["serviceName"] = name
        await self._create(resource, {"metadata": metadata, "spec": spec})

    async def child(self) -> None:
        """A job, or a set of jobs, that says it belongs to another."""
        metadata = await self._metadata()
        metadata["ownerReferences"] = await self._owner()
        spec = {"template": {"spec": self._pod_spec(self._gpus())}, "parallelism": 2, "suspend": False}
        if self._maybe(0.3):
            one = {"name": "a", "template": {"spec": spec}}
            await self._create(JOB_SETS, {"metadata": metadata, "spec": {"replicatedJobs": [one]}})
        else:
            await self._create(JOBS, {"metadata": metadata, "spec": spec})

    async def group(self) -> None:
        """Pods of a group that say how many they are, rightly or not; perhaps of one that is there already."""
        known = await self._some(PODS) if self._maybe(0.4) else None
        name = (known["metadata"].get("labels") or {}).get(keys.GROUP_NAME, "") if known is not None else ""
        name, total = name or self._name(), self._chance.choice((1, 2, 3))
        for _ in range(self._chance.choice((1, 2, 3))):
            metadata = {
                "name": self._name(), "namespace": "red", "annotations": {keys.GROUP_TOTAL: str(total)},
                "labels": {keys.GROUP_NAME: name, keys.QUEUE: "lq"},
            }  # fmt: skip
            await self._create(PODS, {"metadata": metadata, "spec": self._pod_spec(self._gpus())})

    async def elastic(self) -> None:
        made = job("red", self._name(), 1, parallelism=self._chance.choice((1, 2)), completions=8)
        made["metadata"]["annotations"] = {keys.ELASTIC: "true"}
        await self._create(JOBS, made)

    # Changing.

    async def change_pod(self) -> None:
        pod = await self._some(PODS)
        if pod is None:
            return
        patches: list[Object] = [
            {"metadata": {"ownerReferences": None}},
            {"metadata": {"ownerReferences": await self._owner() or None}},
            {"metadata": {"labels": dict.fromkeys(pod["metadata"].get("labels") or {})}},
            {"metadata": {"annotations": dict.fromkeys(pod["metadata"].get("annotations") or {})}},
            {"metadata": {"annotations": {keys.WORKLOAD: await self._value(keys.WORKLOAD)}}},
            {"metadata": {"labels": {keys.MANAGED: None, keys.GROUP_NAME: None}}},
            {"metadata": {"finalizers": self._chance.choice((None, ["example.com/stays"]))}},
            {"spec": {"schedulingGates": None}},
            {"spec": {"nodeName": "node-0"}},
            {"spec": {"tolerations": [*(pod["spec"].get("tolerations") or ()), {"operator": "Exists"}]}},
        ]
        await self._client.patch(PODS, pod["metadata"]["name"], self._chance.choice(patches), "red")

    async def change_job(self) -> None:
        found = await self._some(JOBS)
        if found is None:
            return
        patches: list[Object] = [
            {"spec": {"suspend": False}},
            {"spec": {"suspend": False}},
            {"spec": {"suspend": True}},
            {"spec": {"parallelism": self._chance.choice((0, 1, 4, 8, 16))}},
            {"spec": {"suspend": False, "template": template(8)}},
            {"metadata": {"labels": {keys.QUEUE: self._chance.choice((None, "lq", "held"))}}},
            {"metadata": {"labels": {keys.PREBUILT: await self._value(keys.PREBUILT)}}},
            {"metadata": {"annotations": {keys.ELASTIC: "true"}}},
            {"metadata": {"ownerReferences": await self._owner() or None}},
        ]
        await self._client.patch(JOBS, found["metadata"]["name"], self._chance.choice(patches), "red")

    async def scale(self) -> None:
        found = await self._some(DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)
        if found is None:
            return
        resource = next(each for each in KINDS if each.kind == found["kind"])
        patch = {"spec": {"replicas": self._chance.choice((0, 1, 3, 8))}}
        await self._client.patch(resource, found["metadata"]["name"], patch, "red")

    async def delete(self) -> None:
        found = await self._some(*KINDS)
        if found is None:
            return
        resource = next(each for each in KINDS if each.kind == found["kind"])
        grace = self._chance.choice((None, None, 1, 90_000)) if resource is PODS else None
        how = self._chance.choice(
            (Propagation.BACKGROUND, Propagation.FOREGROUND, Propagation.ORPHAN, Propagation.ORPHAN)
        )
        await self._client.delete(resource, found["metadata"]["name"], "red", propagation=how, grace=grace)

    async def bind(self) -> None:
        """What a scheduler of one's own does; `edit` alone may not."""
        pod = await self._some(PODS)
        if pod is None:
            return
        name = pod["metadata"]["name"]
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                   "target": {"kind": "Node", "name": self._chance.choice(("node-0", "node-1"))}}  # fmt: skip
        await self._client.create(PODS, binding, "red", name=name, subresource="binding")

    async def resize(self) -> None:
        pod = await self._some(PODS)
        if pod is None:
            return
        amount = self._chance.choice(({}, {GPU: "8"}, {"cpu": "4"}))
        container = {**pod["spec"]["containers"][0], "resources": {"requests": amount, "limits": amount}}
        patch = {"spec": {"containers": [container]}}
        await self._client.patch(PODS, pod["metadata"]["name"], patch, "red", subresource="resize")

    async def finish(self) -> None:
        """A pod ends, as one that ran to its end."""
        pod = await self._some(PODS)
        if pod is not None and pod["spec"].get("nodeName"):
            patch = {"status": {"phase": self._chance.choice(("Succeeded", "Failed"))}}
            await self._client.patch(PODS, pod["metadata"]["name"], patch, "red", subresource="status")

    async def blue(self) -> None:
        """Others work meanwhile, and reclaim what is theirs."""
        count = self._chance.choice((1, 4, 12))
        await self._create(JOBS, job("blue", self._name(), 1, parallelism=count, completions=count))


async def run(count: int, seed: int, everywhere: bool, report: Callable[[int], None]) -> Arena:
    arena = Arena(everywhere)
    with tempfile.TemporaryDirectory() as folder:
        await arena.open(Path(folder))
        try:
            for number in range(seed, seed + count):
                try:
                    await arena.sequence(number)
                except Exception as error:
                    mode = "everywhere" if everywhere else "managed namespace"
                    raise Broken(f"sequence {number} ({mode}): {error}") from error
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
    began = time.monotonic()

    def report(number: int) -> None:
        if number % 250 == 249:
            print(f"{number + 1 - options.seed} sequences, {time.monotonic() - began:.0f} s", flush=True)

    for everywhere in modes:
        share = options.count // len(modes)
        try:
            arena = asyncio.run(run(share, options.seed, everywhere, report))
        except Broken as error:
            print(error)
            return 1
        done, refused = sum(arena.done.values()), sum(arena.refusals.values())
        print(f"{'everywhere' if everywhere else 'managed namespace'}: {share} sequences, {done} requests done, {refused} "
              f"refused, {arena.bindings} pods got a node, quota never exceeded; {time.monotonic() - began:.0f} s")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
