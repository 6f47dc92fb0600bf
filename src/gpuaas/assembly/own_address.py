"""Where the API itself is found: the endpoints of the service `kubernetes`, as API servers write them for who looks there.

Told at each start, for the port may be another, and of the cluster that paths without a name mean: the others have no
address of their own.
"""

import asyncio
import socket
from ipaddress import ip_address
from typing import Any

from gpuaas.client.protocol import Client, PatchKind, Resource
from gpuaas.client.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES

_NAME, _NAMESPACE, _MANAGER = "kubernetes", "default", "kube-apiserver"
_ELSEWHERE = "192.0.2.1"  # for documentation: it is asked only by which of our addresses one would go there


async def tell_address(client: Client, host: str, port: int) -> None:
    address = advertised(host)
    if address is None:
        return
    told = (
        client.patch(resource, _NAME, obj, _NAMESPACE, kind=PatchKind.APPLY, field_manager=_MANAGER, force=True)
        for resource, obj in _objects(address, port)
    )
    await asyncio.gather(*told)  # the store commits what comes together together


def advertised(host: str) -> str | None:
    """The address that is given to others: one served only to this machine, or to all, is told by the machine's own."""
    try:
        said = ip_address(host)
    except ValueError:
        said = None  # a name
    if said is None or said.is_loopback or said.is_unspecified:
        said = ip_address(_own_address())
    return None if said.is_loopback or said.is_unspecified or said.is_link_local else str(said)


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((_ELSEWHERE, 9))  # nothing is sent
        except OSError:
            return "0.0.0.0"
        return str(asking.getsockname()[0])


def _objects(address: str, port: int) -> list[tuple[Resource, dict[str, Any]]]:
    there = {"name": "https", "port": port, "protocol": "TCP"}
    return [
        (
            SERVICES,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": _NAME},
                "spec": {"ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]},
            },
        ),
        (
            ENDPOINTS,
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {"name": _NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
                "subsets": [{"addresses": [{"ip": address}], "ports": [there]}],
            },
        ),
        (
            ENDPOINT_SLICES,
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
                "addressType": "IPv6" if ":" in address else "IPv4",
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                "ports": [there],
            },
        ),
    ]
