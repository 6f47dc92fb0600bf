"""The addresses of services as objects: each cluster IP has its IPAddress, and the ranges they come from are kept while
they are needed.

The real server makes and removes an IPAddress with its Service; here that happens a moment later. Which address a service
gets is the API server's question.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any, Final

from gpuaas.api.kubernetes.rules.ranges import ALLOCATOR, FAMILY, MANAGED_BY
from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.protocol import Object, PatchKind
from gpuaas.client.resources import IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, finalizers_of, is_deleting, key_of, labels_of, uid_of

FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
READY: Final = ("True", "", "Kubernetes Service CIDR is ready")
NEEDED: Final = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)
_GRACE: Final = 10.0  # seconds after its deletion in which somebody may still have taken an address of it
_HELD: Final = "address"  # index of services


def address_object(address: str, service: Mapping[str, Any]) -> Object:
    metadata = service["metadata"]
    parent = {"resource": SERVICES.plural, "namespace": metadata["namespace"], "name": metadata["name"]}
    return {
        "apiVersion": IP_ADDRESSES.api_version,
        "kind": IP_ADDRESSES.kind,
        "metadata": {
            "name": address,
            "labels": {FAMILY: f"IPv{ip_address(address).version}", MANAGED_BY: ALLOCATOR},
        },
        "spec": {"parentRef": parent},
    }


def is_needed(obj: Mapping[str, Any], ranges: Sequence[Object], addresses: Iterable[Object]) -> bool:
    """Whether an address would belong to no range any more without this one."""
    own = [ip_network(text) for text in obj["spec"]["cidrs"]]
    others = [ip_network(text) for one in ranges if uid_of(one) != uid_of(obj) for text in one["spec"]["cidrs"]]
    held = [ip_address(one["metadata"]["name"]) for one in addresses if labels_of(one).get(MANAGED_BY) == ALLOCATOR]
    return any(any(address in each for each in own) and not any(address in each for each in others) for address in held)


class ServiceAddressController(Controller):
    """A key is an address."""

    name = "service-address-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        services = deps.informers.of(SERVICES)
        services.add_index(_HELD, _held_by)
        self._services = self.follow(services, _held_by)
        self._addresses = self.follow(deps.informers.of(IP_ADDRESSES), lambda obj: (obj["metadata"]["name"],))

    async def reconcile(self, key: str) -> Requeue | None:
        known, holders = self._addresses.get("", key), self._services.indexed(_HELD, key)
        wanted = address_object(key, min(holders, key=key_of)) if holders else None
        if known is not None and not _is_as(known, wanted):
            if wanted is None and labels_of(known).get(MANAGED_BY) != ALLOCATOR:
                return None  # somebody else's, for something else
            with contextlib.suppress(NotFound):
                await self.client.delete(IP_ADDRESSES, key, uid=uid_of(known))
            known = None
        if known is None and wanted is not None:
            with contextlib.suppress(AlreadyExists):
                await self.client.create(IP_ADDRESSES, wanted, field_manager="kube-apiserver")
        return None


class ServiceRangeController(Controller):
    name = "service-cidr-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._ranges = self.follow(deps.informers.of(SERVICE_CIDRS), lambda obj: [key_of(obj), *self._leaving()])
        self._addresses = self.follow(deps.informers.of(IP_ADDRESSES), lambda _: self._leaving())

    def _leaving(self) -> list[Key]:
        return [key_of(obj) for obj in self._ranges.all() if is_deleting(obj)]

    async def reconcile(self, key: Key) -> Requeue | None:
        obj = self._ranges.get(*key)
        if obj is None:
            return None
        if not is_deleting(obj):
            if FINALIZER not in finalizers_of(obj):
                await self._set_finalizers(obj, [*finalizers_of(obj), FINALIZER])
            await self._tell(obj, *READY)
        elif FINALIZER in finalizers_of(obj):
            return await self._let_go(obj)
        return None

    async def _let_go(self, obj: Object) -> Requeue | None:
        if is_needed(obj, self._ranges.all(), self._addresses.all()):
            await self._tell(obj, *NEEDED)
            return None
        left = parse_rfc3339(obj["metadata"]["deletionTimestamp"]) + _GRACE - self.clock.now()
        if left > 0:
            return Requeue(left)
        await self._set_finalizers(obj, [name for name in finalizers_of(obj) if name != FINALIZER])
        return None

    async def _set_finalizers(self, obj: Object, names: list[str]) -> None:
        patch = {"metadata": {"uid": uid_of(obj), "finalizers": names or None}}
        await self.client.patch(SERVICE_CIDRS, obj["metadata"]["name"], patch)

    async def _tell(self, obj: Object, status: str, reason: str, message: str) -> None:
        wanted = {"type": "Ready", "status": status, "reason": reason, "message": message}
        known = (obj.get("status") or {}).get("conditions") or ()
        if any(wanted.items() <= {"reason": "", **one}.items() for one in known):
            return
        applied = {
            "apiVersion": SERVICE_CIDRS.api_version,
            "kind": SERVICE_CIDRS.kind,
            "metadata": {"name": obj["metadata"]["name"]},
            "status": {"conditions": [{**wanted, "lastTransitionTime": rfc3339(self.clock.now())}]},
        }
        await self.client.patch(
            SERVICE_CIDRS,
            obj["metadata"]["name"],
            applied,
            kind=PatchKind.APPLY,
            subresource="status",
            field_manager=self.name,
            force=True,
        )


def _held_by(service: Mapping[str, Any]) -> list[str]:
    return [address for address in service["spec"].get("clusterIPs") or () if address != "None"]


def _is_as(known: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    if wanted is None:
        return False
    if known["spec"].get("parentRef") != wanted["spec"]["parentRef"]:
        return False
    return bool(wanted["metadata"]["labels"].items() <= labels_of(known).items())
