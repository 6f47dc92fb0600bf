"""Cluster IPs as objects, and the ranges they come from."""

from typing import Any

import pytest

from gpuaas.client.resources import IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from gpuaas.controllers.service_addresses import (
    FINALIZER,
    ServiceAddressController,
    ServiceRangeController,
    address_object,
    is_needed,
)
from gpuaas.testing.objects import metadata
from gpuaas.testing.time import Stage, scenario, stage

LABELS = {
    "ipaddress.kubernetes.io/ip-family": "IPv4",
    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
}


def service(name: str, *addresses: str) -> Any:
    return {"metadata": metadata(name), "spec": {"clusterIPs": list(addresses)}}


def service_range(name: str, *ranges: str) -> Any:
    return {"metadata": metadata(name, ""), "spec": {"cidrs": list(ranges)}}


def held(on: Stage) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"]["parentRef"]["name"] for one in on.cluster.all(IP_ADDRESSES)}


@scenario
async def test_each_address_of_a_service_is_an_object_as_long_as_it_is_held() -> None:
    async with stage(ServiceAddressController) as on:
        on.cluster.put(SERVICES, service("a", "10.96.0.7", "fd00::7"))
        on.cluster.put(SERVICES, service("headless", "None"))
        await on.settle()
        assert held(on) == {"10.96.0.7": "a", "fd00::7": "a"}
        made = on.cluster.read(IP_ADDRESSES, "10.96.0.7")
        assert made["metadata"]["labels"] == LABELS
        assert made["spec"]["parentRef"] == {"resource": "services", "namespace": "default", "name": "a"}
        await on.cluster.delete(IP_ADDRESSES, "10.96.0.7")
        await on.settle()
        assert held(on) == {"10.96.0.7": "a", "fd00::7": "a"}, "who takes one away does not free it"
        await on.cluster.delete(SERVICES, "a", "default")
        on.cluster.put(SERVICES, service("b", "10.96.0.7"))
        await on.settle()
        assert held(on) == {"10.96.0.7": "b"}


@scenario
async def test_an_address_held_for_something_else_stays() -> None:
    async with stage(ServiceAddressController) as on:
        parent = {"group": "example.com", "resource": "gates", "name": "g"}
        on.cluster.put(IP_ADDRESSES, {"metadata": metadata("10.96.0.9", ""), "spec": {"parentRef": parent}})
        await on.settle()
        assert held(on) == {"10.96.0.9": "g"}


@scenario
async def test_a_range_says_that_it_is_ready_and_stays_while_addresses_come_from_it() -> None:
    async with stage(ServiceAddressController, ServiceRangeController) as on:
        on.cluster.put(SERVICE_CIDRS, service_range("main", "10.96.0.0/16"))
        on.cluster.put(SERVICES, service("a", "10.96.0.7"))
        await on.settle()
        found = on.cluster.read(SERVICE_CIDRS, "main")
        assert found["metadata"]["finalizers"] == [FINALIZER]
        assert _ready(found) == ("True", "", "Kubernetes Service CIDR is ready")
        await on.cluster.delete(SERVICE_CIDRS, "main")
        await on.advance(60)
        words = (
            "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
        )
        assert _ready(on.cluster.read(SERVICE_CIDRS, "main")) == ("False", "Terminating", words)
        await on.cluster.delete(SERVICES, "a", "default")
        await on.advance(1)
        assert on.cluster.all(SERVICE_CIDRS) == []


@scenario
async def test_a_range_that_nobody_needs_goes_after_a_grace_period() -> None:
    async with stage(ServiceRangeController) as on:
        on.cluster.put(SERVICE_CIDRS, service_range("spare", "10.97.0.0/24"))
        await on.settle()
        await on.cluster.delete(SERVICE_CIDRS, "spare")
        await on.advance(8)
        assert len(on.cluster.all(SERVICE_CIDRS)) == 1, "somebody may just be taking an address of it"
        await on.advance(4)
        assert on.cluster.all(SERVICE_CIDRS) == []


@pytest.mark.parametrize(
    ("others", "needed"),
    [
        ([], True),
        ([service_range("wider", "10.0.0.0/8")], False),
        ([service_range("beside", "10.97.0.0/16")], True),
        ([service_range("later", "fd00::/64")], True),
    ],
)
def test_a_range_is_needed_for_addresses_no_other_has(others: list[Any], needed: bool) -> None:
    own, address = service_range("own", "10.96.0.0/16"), address_object("10.96.0.7", service("a", "10.96.0.7"))
    for obj in (own, *others):
        obj["metadata"]["uid"] = obj["metadata"]["name"]
    assert is_needed(own, [own, *others], [address]) is needed


def _ready(obj: Any) -> tuple[str, str, str]:
    (condition,) = obj["status"]["conditions"]
    return condition["status"], condition["reason"], condition["message"]
