"""Random histories of a hub: whatever is cut, deleted, changed by hand or restarted, the same state comes back after it."""

import random
from typing import Any

import pytest
from tests.unit.fleet.test_hub import HUB, clusters_of, states, with_queue, workload

from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from gpuaas.client.ocm import (
    ADD_ONS,
    DECISIONS,
    MANAGED_ACCOUNTS,
    MANAGED_CLUSTERS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    PERMISSIONS,
    SCORES,
)
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CLUSTER_ROLES, LEASES, NODES, SECRETS, SERVICE_ACCOUNTS
from gpuaas.fleet.hub.joining import BINDINGS
from gpuaas.fleet.hub.names import ADD_ON, ADD_ON_NAMESPACE, AGENT_SECRET, AVAILABLE
from gpuaas.fleet.hub.reading import decoded, read_kubeconfig
from gpuaas.testing.fleet import FleetStage, fleet_stage, node_of, said
from gpuaas.testing.time import scenario

NAMES = ("a", "b", "c")
STEPS = 14
# (resource, name, namespace) on the hub; {} is the cluster
ON_HUB: tuple[tuple[Resource, str, str], ...] = (
    (MULTIKUEUE_CLUSTERS, "{}", ""),
    (SECRETS, "multikueue-{}", HUB),
    (SECRETS, "multikueue", "{}"),
    (PERMISSIONS, "multikueue", "{}"),
    (MANAGED_ACCOUNTS, "multikueue", "{}"),
    (SCORES, "resource-usage-score", "{}"),
    (ADD_ONS, ADD_ON, "{}"),
    (LEASES, "managed-cluster-lease", "{}"),
    (DECISIONS, "default-decision-1", HUB),
    (MULTIKUEUE_CONFIGS, "default", ""),
)
ON_WORKER: tuple[tuple[Resource, str, str], ...] = (
    (CLUSTER_QUEUES, "cluster-queue", ""),
    (LOCAL_QUEUES, "user-queue", "team"),
    (RESOURCE_FLAVORS, "default-flavor", ""),
    (CLUSTER_ROLES, "multikueue", ""),
    (BINDINGS, "multikueue", ""),
    (SERVICE_ACCOUNTS, "multikueue", ADD_ON_NAMESPACE),
)


class History:
    def __init__(self, on: FleetStage, seed: int) -> None:
        self.on = on
        self.random = random.Random(seed)
        self.told: list[str] = []

    async def step(self) -> None:
        name = self.random.choice(NAMES)
        action: Any = self.random.choice(
            [
                self.cut,
                self.mend,
                self.lose_on_hub,
                self.lose_on_worker,
                self.drain,
                self.label,
                self.restart,
                self.revoke,
            ]
        )
        self.told.append(f"{action.__name__} {name}")
        await action(name)
        await self.on.advance(self.random.choice((0.01, 1, 12, 70)))

    async def cut(self, name: str) -> None:
        self.on.faults[name] = self.random.choice((ConnectionRefusedError("refused"), TimeoutError()))

    async def mend(self, name: str) -> None:
        self.on.faults.pop(name, None)

    async def lose_on_hub(self, name: str) -> None:
        resource, pattern, namespace = self.random.choice(ON_HUB)
        self._remove(self.on.cluster, resource, pattern.format(name), namespace.format(name))

    async def lose_on_worker(self, name: str) -> None:
        resource, object_name, namespace = self.random.choice(ON_WORKER)
        self._remove(self.on.workers[name], resource, object_name, namespace)

    async def drain(self, name: str) -> None:
        taint = {"key": "gpuaas.dev/drained", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}
        await self.on.cluster.patch(MANAGED_CLUSTERS, name, {"spec": {"taints": [taint]}})

    async def label(self, name: str) -> None:
        labels = {"cluster.open-cluster-management.io/clusterset": self.random.choice(("default", "other", None))}
        await self.on.cluster.patch(MANAGED_CLUSTERS, name, {"metadata": {"labels": labels}})

    async def restart(self, _: str) -> None:
        await self.on.stop()
        await self.on.start()

    async def revoke(self, name: str) -> None:
        """The agent's token is not accepted any more; an admin joins the cluster again at the end."""
        if self.on.cluster.exists(SECRETS, AGENT_SECRET, name):
            text = decoded(self.on.cluster.read(SECRETS, AGENT_SECRET, name), "kubeconfig")
            self.on.refused.add(read_kubeconfig(text, "agent").token)

    def _remove(self, cluster: Any, resource: Resource, name: str, namespace: str) -> None:
        if cluster.exists(resource, name, namespace):
            self.told[-1] += f" {resource.kind} {name}"
            cluster.remove(resource, name, namespace)

    async def heal(self) -> None:
        self.on.faults.clear()
        for name in NAMES:
            self.on.give_credentials(name)
            cluster = self.on.cluster.read(MANAGED_CLUSTERS, name)
            taints = [t for t in cluster["spec"].get("taints") or () if t["key"] != "gpuaas.dev/drained"]
            await self.on.cluster.patch(MANAGED_CLUSTERS, name, {"spec": {"taints": taints or None}})
            self.on.workers[name].put(NODES, node_of(4))
        await self.on.advance(60)
        # What is lost from here on is found without any other news.
        for name in NAMES:
            self.told.append(f"at last {name}")
            await self.lose_on_hub(name)
            await self.lose_on_worker(name)
        await self.on.advance(700)


def wrong(on: FleetStage) -> list[str]:
    """What is not as it should be; empty in the one right state."""
    found = []
    for name in NAMES:
        cluster = on.cluster.read(MANAGED_CLUSTERS, name)
        if on.condition(name, AVAILABLE)[0] != "True":
            found.append(f"{name}: {on.condition(name, AVAILABLE)}")
        found += [f"{name}: {key}: {words}" for key, words in (cluster["metadata"].get("annotations") or {}).items()]
        found += [f"{name}: taint {each['key']}" for each in cluster["spec"].get("taints") or ()]
        found += [
            f"{name}: no {resource.kind} {pattern} on the hub"
            for resource, pattern, namespace in ON_HUB
            if not on.cluster.exists(resource, pattern.format(name), namespace.format(name))
        ]
        found += [
            f"{name}: no {resource.kind} {object_name} on the worker"
            for resource, object_name, namespace in ON_WORKER
            if not on.workers[name].exists(resource, object_name, namespace)
        ]
        if not found:
            text = decoded(on.cluster.read(SECRETS, f"multikueue-{name}", HUB), "kubeconfig")
            if read_kubeconfig(text, name).token != decoded(on.cluster.read(SECRETS, "multikueue", name), "token"):
                found.append(f"{name}: the kubeconfig has an old token")
            if said(on.cluster.read(ADD_ONS, ADD_ON, name), "Available")[0] != "True":
                found.append(f"{name}: its add-on is not available")
    if not found and sorted(clusters_of(on)) != sorted(NAMES):
        found.append(f"the config lists {clusters_of(on)}")
    return found


@pytest.mark.parametrize("seed", range(15))
def test_any_history_ends_in_the_same_state(seed: int) -> None:
    @scenario
    async def run() -> None:
        async with fleet_stage(*NAMES) as on:
            for name in NAMES:
                await on.join(name)
            with_queue(on)
            workload(on, "job", reserved=True)
            await on.advance(1)
            assert wrong(on) == []
            history = History(on, seed)
            for _ in range(STEPS):
                await history.step()
            await history.heal()
            assert wrong(on) == [], history.told
            assert states(on, "job")["place"] == "Ready"

    run()
