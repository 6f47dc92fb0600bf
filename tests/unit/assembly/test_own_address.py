"""Who looks for the API in the cluster itself finds where it is, after each start."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpuaas.apiserver.local import LocalClient
from gpuaas.assembly import own_address
from gpuaas.assembly.clusters import open_cluster
from gpuaas.assembly.own_address import advertised, tell_address
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import VirtualClock
from gpuaas.base.ids import SeededIds
from gpuaas.client.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES


@pytest.mark.parametrize(
    ("host", "own", "address"),
    [
        ("10.1.2.3", "10.9.9.9", "10.1.2.3"),
        ("127.0.0.1", "10.9.9.9", "10.9.9.9"),
        ("localhost", "10.9.9.9", "10.9.9.9"),
        ("0.0.0.0", "10.9.9.9", "10.9.9.9"),
        ("::", "10.9.9.9", "10.9.9.9"),
        ("fd00::1", "10.9.9.9", "fd00::1"),
        ("127.0.0.1", "0.0.0.0", None),
        ("127.0.0.1", "169.254.1.1", None),
    ],
)
def test_the_address_given_to_others(host: str, own: str, address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_address, "_own_address", lambda: own)
    assert advertised(host) == address


def test_the_service_of_the_api_has_endpoints_and_they_follow_it(tmp_path: Path) -> None:
    async def story() -> None:
        clock = VirtualClock(1_700_000_000.0)
        trust = Trust(tmp_path / "certificates", tmp_path / "users.json", clock)
        parts = await open_cluster("local", tmp_path / "store.db", trust, clock, SeededIds(), fsync=False)
        client = LocalClient(parts.cluster, parts.access.system_user("x"), "gpuaas")

        async def found() -> list[Any]:
            return [await client.get(each, "kubernetes", "default") for each in (SERVICES, ENDPOINTS, ENDPOINT_SLICES)]

        for port in (6443, 7443):
            await tell_address(client, "10.1.2.3", port)
            service, endpoints, piece = await found()
            there = {"name": "https", "port": port, "protocol": "TCP"}
            assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
            assert endpoints["subsets"] == [{"addresses": [{"ip": "10.1.2.3"}], "ports": [there]}]
            assert piece["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
            assert (piece["addressType"], piece["ports"]) == ("IPv4", [there])
        before = [each["metadata"]["resourceVersion"] for each in await found()]
        await tell_address(client, "10.1.2.3", 7443)
        assert [each["metadata"]["resourceVersion"] for each in await found()] == before, "nothing new, nothing written"
        await parts.close()

    asyncio.run(story())
