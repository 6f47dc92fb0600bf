"""A hub's quota follows its workers', where its MultiKueueConfig asks for that."""

from typing import Any

import pytest
from tests.unit.fleet.test_hub import HUB, queue, with_queue

from gpuaas.base.quantity import parse_quantity
from gpuaas.client.kueue import CLUSTER_QUEUES
from gpuaas.client.ocm import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, PLACEMENTS
from gpuaas.client.resources import NODES
from gpuaas.fleet.hub.quotas import CONDITION, followed
from gpuaas.testing.fleet import GPU, FleetStage, fleet_stage, node_of, said
from gpuaas.testing.time import scenario


def two_flavors() -> dict[str, Any]:
    found = queue("q")
    (group,) = found["spec"]["resourceGroups"]
    group["flavors"] = [*group["flavors"], {**group["flavors"][0], "name": "other"}]
    return found


@pytest.mark.parametrize(
    ("hub", "totals", "reason", "message"),
    [
        (queue("q"), {GPU: "12", "cpu": "8"}, "QuotaAutomated", "The quota follows the workers'"),
        (
            two_flavors(), {GPU: "12"}, "UnsupportedConfiguration",
            "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor",
        ),
        (
            queue("q"), {"amd.com/gpu": "1", GPU: "1"}, "UnsupportedConfiguration",
            "manager-side coveredResources is missing resources configured on workers: [amd.com/gpu]",
        ),
    ],
)  # fmt: skip
def test_what_becomes_of_a_queue(hub: dict[str, Any], totals: dict[str, str], reason: str, message: str) -> None:
    groups, condition = followed(hub, {name: parse_quantity(amount) for name, amount in totals.items()})
    assert (condition["reason"], condition["message"]) == (reason, message)
    assert (groups is None) == (reason != "QuotaAutomated")
    if groups is not None:
        (flavor,) = groups[0]["flavors"]
        assert {each["name"]: each["nominalQuota"] for each in flavor["resources"]} == totals


def gpus_of(found: dict[str, Any]) -> str:
    (group,) = found["spec"]["resourceGroups"]
    return str(group["flavors"][0]["resources"][1]["nominalQuota"])


def connect(on: FleetStage, name: str, status: str = "True") -> None:
    condition = {"type": "Active", "status": status, "reason": "Active", "message": "Connected"}
    on.cluster.set_status(MULTIKUEUE_CLUSTERS, name, conditions=[condition])


@scenario
async def test_the_sum_of_connected_workers_becomes_the_hubs_quota() -> None:
    async with fleet_stage("a", "b") as on:
        for name, gpus in (("a", 4), ("b", 16)):
            await on.join(name, gpus=gpus)
            connect(on, name)
        with_queue(on)
        await on.advance(1)
        assert gpus_of(on.cluster.read(CLUSTER_QUEUES, "cluster-queue")) == "8", "nobody has asked for it"
        note = {"metadata": {"annotations": {"gpuaas.dev/quota-management": "Automated"}}}
        await on.cluster.patch(PLACEMENTS, "default", note, HUB)
        await on.advance(65)
        assert on.cluster.read(MULTIKUEUE_CONFIGS, "default")["spec"]["quotaManagement"] == "Automated"
        hub = on.cluster.read(CLUSTER_QUEUES, "cluster-queue")
        assert gpus_of(hub) == "20"
        assert said(hub, CONDITION)[:2] == ("True", "QuotaAutomated")
        assert gpus_of(on.workers["b"].read(CLUSTER_QUEUES, "cluster-queue")) == "16"
        on.workers["a"].put(NODES, node_of(4, "second"))
        await on.advance(65)
        assert gpus_of(on.cluster.read(CLUSTER_QUEUES, "cluster-queue")) == "24"
        connect(on, "b", "False")
        await on.advance(2)
        assert gpus_of(on.cluster.read(CLUSTER_QUEUES, "cluster-queue")) == "8", "a lost worker drops out at once"
