"""Endpoints, the older form: one object for each service, under its name."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import ENDPOINTS, PODS, SERVICES
from gpuaas.controllers.endpoints.addresses import (
    HEADLESS,
    TRIGGER_TIME,
    TriggerTimes,
    addresses_of,
    has_address,
    is_headless,
    is_managed,
    ports_of,
    publishes_not_ready,
    selects,
    services_of,
    sets_hostname,
)
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, is_deleting, labels_of, uid_of
from gpuaas.runtime.pods import is_ready
from gpuaas.runtime.writes import namespace_is_ending

MANAGED_BY, MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"


def wanted_subsets(service: Mapping[str, Any], pods: Sequence[Object]) -> list[Object]:
    """Addresses by the ports they serve, ready and not ready apart."""
    groups: dict[bytes, Object] = {}
    for pod in sorted(pods, key=lambda one: addresses_of(one)[:1]):
        if not has_address(pod) or (is_deleting(pod) and not publishes_not_ready(service)):
            continue
        ports = ports_of(service, pod)
        if not ports and not (is_headless(service) and not service["spec"].get("ports")):
            continue
        subset = groups.setdefault(msgspec.json.encode(ports), {"ports": [_port(port) for port in ports]})
        ready = publishes_not_ready(service) or is_ready(pod)
        subset.setdefault("addresses" if ready else "notReadyAddresses", []).append(_address(service, pod))
    return [_ordered(subset) for subset in groups.values()]


def _address(service: Mapping[str, Any], pod: Object) -> Object:
    address: Object = {"ip": addresses_of(pod)[0]}
    if sets_hostname(service, pod):
        address["hostname"] = pod["spec"]["hostname"]
    if pod["spec"].get("nodeName"):
        address["nodeName"] = pod["spec"]["nodeName"]
    metadata = pod["metadata"]
    address["targetRef"] = {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": uid_of(pod),
    }
    return address


def _port(port: Object) -> Object:
    return {key: value for key, value in port.items() if value != ""}


def _ordered(subset: Object) -> Object:
    parts = ("addresses", "notReadyAddresses", "ports")
    return {part: subset[part] for part in parts if subset.get(part)}


class EndpointsController(Controller):
    name = "endpoints-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._services = self.follow(deps.informers.of(SERVICES))
        self._pods = self.follow(deps.informers.of(PODS), lambda pod: services_of(self._services, pod), delay=0.05)
        self._endpoints = self.follow(deps.informers.of(ENDPOINTS))
        self._times = TriggerTimes(self._services)

    async def reconcile(self, key: Key) -> Requeue | None:
        service = self._services.get(*key)
        known = self._endpoints.get(*key)
        if service is None:
            if known is not None and labels_of(known).get(MANAGED_BY) == MANAGER:
                await self._delete(key)
            return None
        if not is_managed(service) or is_deleting(service):
            return None
        pods = [pod for pod in self._pods.in_namespace(key.namespace) if selects(service, pod)]
        subsets = wanted_subsets(service, pods)
        labels = {**labels_of(service), MANAGED_BY: MANAGER} | ({HEADLESS: ""} if is_headless(service) else {})
        if known is None:
            await self._create(key, labels, subsets, self._times.next(service, pods))
        elif (known.get("subsets") or []) != subsets or labels_of(known) != labels:
            stale = {name: None for name in labels_of(known) if name not in labels}
            metadata = {
                "resourceVersion": known["metadata"]["resourceVersion"],
                "labels": {**stale, **labels},
                "annotations": {TRIGGER_TIME: self._times.next(service, pods)},
            }
            patch = {"metadata": metadata, "subsets": subsets or None}
            await self.client.patch(ENDPOINTS, key.name, patch, key.namespace)
        return None

    async def _create(self, key: Key, labels: dict[str, str], subsets: list[Object], moment: str | None) -> None:
        made: Object = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
        }
        if moment:
            made["metadata"]["annotations"] = {TRIGGER_TIME: moment}
        if subsets:
            made["subsets"] = subsets
        try:
            await self.client.create(ENDPOINTS, made, key.namespace)
        except AlreadyExists:
            raise
        except ApiError as error:
            if not namespace_is_ending(error):
                raise

    async def _delete(self, key: Key) -> None:
        try:
            await self.client.delete(ENDPOINTS, key.name, key.namespace)
        except NotFound:
            return
