"""EndpointSlices: at most a hundred endpoints each, one kind of address and one set of ports each."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gpuaas.base.errors import ApiError, NotFound
from gpuaas.client.protocol import Client, Object, Resource
from gpuaas.client.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
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
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.metadata import Key, controller_reference, is_controlled_by, is_deleting, labels_of, uid_of
from gpuaas.runtime.pods import is_ready, name_prefix
from gpuaas.runtime.writes import namespace_is_ending

MANAGER = "endpointslice-controller.k8s.io"
MANAGED_BY, SERVICE_NAME = "endpointslice.kubernetes.io/managed-by", "kubernetes.io/service-name"
LARGEST = 100

Content = tuple[str, list[Object], list[Object]]  # address type, ports, endpoints


def wanted_content(service: Mapping[str, Any], pods: Sequence[Object], zones: Mapping[str, str]) -> list[Content]:
    """What the slices of a service hold, in a stable order; an empty one for each family that has nothing."""
    families = [_family(name) for name in service["spec"].get("ipFamilies") or ("IPv4",)]
    contents: list[Content] = []
    for family in families:
        groups: dict[bytes, tuple[list[Object], list[Object]]] = {}
        for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
            matching = [address for address in addresses_of(pod) if (":" in address) == (family == "IPv6")]
            if not has_address(pod) or not matching:
                continue
            ports = ports_of(service, pod)
            group = groups.setdefault(msgspec.json.encode(ports), (ports, []))
            group[1].append(_endpoint(service, pod, matching[:1], zones))
        for ports, endpoints in groups.values():
            contents += [
                (family, ports, endpoints[start : start + LARGEST]) for start in range(0, len(endpoints), LARGEST)
            ]
        if not groups:
            contents.append((family, [], []))
    return contents


def _endpoint(service: Mapping[str, Any], pod: Object, addresses: list[str], zones: Mapping[str, str]) -> Object:
    serving, terminating = is_ready(pod), is_deleting(pod)
    metadata = pod["metadata"]
    endpoint: Object = {
        "addresses": addresses,
        "conditions": {
            "ready": publishes_not_ready(service) or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    if sets_hostname(service, pod):
        endpoint["hostname"] = pod["spec"]["hostname"]
    node = pod["spec"].get("nodeName")
    if node:
        endpoint["nodeName"] = node
        if zones.get(node):
            endpoint["zone"] = zones[node]
    return endpoint


def slice_labels(service: Mapping[str, Any]) -> dict[str, str]:
    reserved = {SERVICE_NAME, MANAGED_BY, HEADLESS}
    labels = {key: value for key, value in labels_of(service).items() if key not in reserved}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}


class EndpointSliceController(Controller):
    name = "endpointslice-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._services = self.follow(deps.informers.of(SERVICES))
        self._pods = self.follow(deps.informers.of(PODS), lambda pod: services_of(self._services, pod), delay=0.05)
        self._slices = self.follow(deps.informers.of(ENDPOINT_SLICES), owner_key("Service"))
        self._nodes = self.follow(deps.informers.of(NODES), lambda _: ())
        self._times = TriggerTimes(self._services)
        self._writer = SliceWriter(self.client, SERVICES, slice_labels)

    async def reconcile(self, key: Key) -> Requeue | None:
        service = self._services.get(*key)
        if service is None or not is_managed(service) or is_deleting(service):
            return None
        pods = [pod for pod in self._pods.in_namespace(key.namespace) if selects(service, pod)]
        mine = [
            one
            for one in self._slices.owned_by(uid_of(service))
            if labels_of(one).get(MANAGED_BY) == MANAGER and is_controlled_by(one, service)
        ]
        content = wanted_content(service, pods, self._zones())
        if self._writer.is_right(service, mine, content):
            return None
        await self._writer.write(service, mine, content, self._times.next(service, pods))
        return None

    def _zones(self) -> dict[str, str]:
        return {
            node["metadata"]["name"]: labels_of(node).get("topology.kubernetes.io/zone", "")
            for node in self._nodes.all()
        }


class SliceWriter:
    """Makes the slices of an owner hold what they should."""

    def __init__(self, client: Client, owner: Resource, labels: Callable[[Mapping[str, Any]], dict[str, str]]) -> None:
        self._client = client
        self._owner = owner
        self._labels = labels

    def is_right(self, owner: Mapping[str, Any], known: Sequence[Object], wanted: Sequence[Content]) -> bool:
        same = sorted(map(_ordered, wanted)) == sorted(_ordered(content_of(one)) for one in known)
        return same and all(labels_of(one) == self._labels(owner) for one in known)

    async def write(
        self, owner: Object, known: Sequence[Object], wanted: Sequence[Content], moment: str | None
    ) -> None:
        """Slices that fit are kept, others of the same address type are rewritten, the rest come and go."""
        free = sorted(known, key=lambda one: str(one["metadata"]["name"]))
        missing: list[Content] = []
        for content in wanted:
            same = next((one for one in free if content_of(one) == content), None)
            if same is None:
                missing.append(content)
                continue
            free.remove(same)
            if labels_of(same) != self._labels(owner):
                await self._patch(same, owner, content, moment)
        for content in missing:
            spare = next((one for one in free if one["addressType"] == content[0]), None)
            if spare is None:
                await self._create(owner, content, moment)
            else:
                free.remove(spare)
                await self._patch(spare, owner, content, moment)
        for one in free:
            with contextlib.suppress(NotFound):
                await self._client.delete(ENDPOINT_SLICES, one["metadata"]["name"], one["metadata"]["namespace"])

    async def _create(self, owner: Object, content: Content, moment: str | None) -> None:
        address_type, ports, endpoints = content
        made: Object = {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": {
                "generateName": name_prefix(owner["metadata"]["name"]),
                "namespace": owner["metadata"]["namespace"],
                "labels": self._labels(owner),
                "ownerReferences": [controller_reference(owner, self._owner)],
            },
            "addressType": address_type,
            "endpoints": endpoints,
            "ports": ports,
        }
        if moment:
            made["metadata"]["annotations"] = {TRIGGER_TIME: moment}
        try:
            await self._client.create(ENDPOINT_SLICES, made, owner["metadata"]["namespace"])
        except ApiError as error:
            if not namespace_is_ending(error):
                raise

    async def _patch(self, one: Object, owner: Object, content: Content, moment: str | None) -> None:
        stale = {key: None for key in labels_of(one) if key not in self._labels(owner)}
        metadata = {
            "resourceVersion": one["metadata"]["resourceVersion"],
            "labels": {**stale, **self._labels(owner)},
            "annotations": {TRIGGER_TIME: moment},
        }
        patch = {"metadata": metadata, "ports": content[1], "endpoints": content[2]}
        await self._client.patch(ENDPOINT_SLICES, one["metadata"]["name"], patch, one["metadata"]["namespace"])


def content_of(one: Mapping[str, Any]) -> Content:
    return one["addressType"], list(one.get("ports") or ()), list(one.get("endpoints") or ())


def _ordered(content: Content) -> bytes:
    return msgspec.json.encode(content, order="deterministic")


def _family(name: str) -> str:
    return "IPv6" if name == "IPv6" else "IPv4"
