"""What red tries in the quota test: one request, or a few that belong together, drawn at random and seeded."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Client, Object, Propagation, Resource
from gpuaas.client.resources import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.job_set import JOB_SETS
from gpuaas.kueue.integrations.ray import CLUSTERS

GPU = "nvidia.com/gpu"
KINDS = (JOBS, DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, JOB_SETS, CLUSTERS, PODS)


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

    def __init__(self, client: Client, chance: random.Random, seed: int) -> None:
        self._client, self._chance, self._seed = client, chance, seed
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
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self._client.create(resource, whole, obj["metadata"]["namespace"])

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
