"""Endpoints that somebody wrote by hand, for a service without a selector, told again as EndpointSlices."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuaas.client.protocol import Object
from gpuaas.client.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from gpuaas.controllers.endpoints.addresses import TRIGGER_TIME
from gpuaas.controllers.endpoints.slices import MANAGED_BY, SERVICE_NAME, Content, SliceWriter
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.metadata import Key, annotations_of, is_controlled_by, is_deleting, labels_of, uid_of

MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP, LEADER = "endpointslice.kubernetes.io/skip-mirror", "control-plane.alpha.kubernetes.io/leader"
LARGEST = 1000


def mirrored(endpoints: Mapping[str, Any]) -> list[Content]:
    """What the slices hold: a slice for each kind of address and set of ports."""
    groups: dict[bytes, Content] = {}
    for subset in endpoints.get("subsets") or ():
        ports = [_port(one) for one in subset.get("ports") or ()]
        for key, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(key) or ():
                family = "IPv6" if ":" in address["ip"] else "IPv4"
                mark = msgspec.json.encode((family, ports))
                groups.setdefault(mark, (family, ports, []))[2].append(_endpoint(address, ready=ready))
    return [(family, ports, found[:LARGEST]) for family, ports, found in groups.values()]


def _port(port: Mapping[str, Any]) -> Object:
    made = {"name": port.get("name", ""), "port": port["port"], "protocol": port.get("protocol", "TCP")}
    return {**made, "appProtocol": port["appProtocol"]} if port.get("appProtocol") else made


def _endpoint(address: Mapping[str, Any], *, ready: bool) -> Object:
    made: Object = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
    return made | {key: address[key] for key in ("hostname", "targetRef", "nodeName") if address.get(key)}


def is_mirrored(endpoints: Mapping[str, Any], service: Mapping[str, Any] | None) -> bool:
    if service is None or service["spec"].get("selector") or is_deleting(endpoints):
        return False
    return labels_of(endpoints).get(SKIP) != "true" and LEADER not in annotations_of(endpoints)


def mirror_labels(endpoints: Mapping[str, Any]) -> dict[str, str]:
    return {**labels_of(endpoints), SERVICE_NAME: endpoints["metadata"]["name"], MANAGED_BY: MANAGER}


class EndpointSliceMirroringController(Controller):
    name = "endpointslicemirroring-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._endpoints = self.follow(deps.informers.of(ENDPOINTS))
        self._services = self.follow(deps.informers.of(SERVICES))
        self._slices = self.follow(deps.informers.of(ENDPOINT_SLICES), owner_key("Endpoints"))
        self._writer = SliceWriter(self.client, ENDPOINTS, mirror_labels)

    async def reconcile(self, key: Key) -> Requeue | None:
        endpoints = self._endpoints.get(*key)
        if endpoints is None:
            return None
        mine: Sequence[Object] = [
            one
            for one in self._slices.owned_by(uid_of(endpoints))
            if labels_of(one).get(MANAGED_BY) == MANAGER and is_controlled_by(one, endpoints)
        ]
        content = mirrored(endpoints) if is_mirrored(endpoints, self._services.get(*key)) else []
        if not self._writer.is_right(endpoints, mine, content):
            await self._writer.write(endpoints, mine, content, annotations_of(endpoints).get(TRIGGER_TIME))
        return None
