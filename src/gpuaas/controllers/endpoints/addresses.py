"""Which pods stand behind a service, at which addresses and ports."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.client.protocol import Object
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import Key, key_of, labels_of
from gpuaas.runtime.pods import condition_of, is_finished

HEADLESS = "service.kubernetes.io/headless"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"

Service = Mapping[str, Any]
Pod = Mapping[str, Any]


def is_managed(service: Service) -> bool:
    """Services without a selector have their endpoints written by others."""
    spec = service.get("spec") or {}
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def selects(service: Service, pod: Pod) -> bool:
    wanted = service["spec"].get("selector") or {}
    return bool(wanted) and wanted.items() <= labels_of(pod).items()


def services_of(services: Informer, pod: Pod) -> Iterable[Key]:
    candidates = services.in_namespace(pod["metadata"].get("namespace") or "")
    return [key_of(service) for service in candidates if _concerns(service, pod)]


def _concerns(service: Service, pod: Pod) -> bool:
    """A service that cannot be read concerns no pod: its own reconcile sets it aside."""
    try:
        return is_managed(service) and selects(service, pod)
    except (AttributeError, LookupError, TypeError):
        return False


def is_headless(service: Service) -> bool:
    address: str = service["spec"].get("clusterIP") or ""
    return address in ("", "None")


def has_address(pod: Pod) -> bool:
    return not is_finished(pod) and bool(addresses_of(pod))


def addresses_of(pod: Pod) -> list[str]:
    status = pod.get("status") or {}
    listed = [one["ip"] for one in status.get("podIPs") or () if one.get("ip")]
    return listed or ([status["podIP"]] if status.get("podIP") else [])


def ports_of(service: Service, pod: Pod) -> list[Object]:
    """The service's ports as this pod serves them; a named port the pod lacks is left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _target(port, pod)
        if number is None:
            continue
        made: Object = {"name": port.get("name") or "", "port": number, "protocol": port.get("protocol") or "TCP"}
        if port.get("appProtocol"):
            made["appProtocol"] = port["appProtocol"]
        found.append(made)
    return found


def sets_hostname(service: Service, pod: Pod) -> bool:
    return bool(pod["spec"].get("hostname")) and pod["spec"].get("subdomain") == service["metadata"]["name"]


def publishes_not_ready(service: Service) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses"))


class TriggerTimes:
    """For each service, when what changed its endpoints happened: readers measure from it how late news reach them."""

    def __init__(self, services: Informer) -> None:
        self._last: dict[str, str] = {}
        services.subscribe(self._forget)

    def next(self, service: Service, pods: Iterable[Pod]) -> str | None:
        """The newest such moment, once; None when nothing newer has happened."""
        moments = [service["metadata"]["creationTimestamp"]]
        for pod in pods:
            ready = condition_of(pod, "Ready")
            if ready is not None and ready.get("lastTransitionTime"):
                moments.append(ready["lastTransitionTime"])
        newest: str = max(moments)
        known = self._last.get(service["metadata"]["uid"], "")
        self._last[service["metadata"]["uid"]] = max(newest, known)
        return newest if newest > known else None

    def _forget(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._last.pop(old["metadata"]["uid"], None)


def _target(port: Mapping[str, Any], pod: Pod) -> int | None:
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    protocol = port.get("protocol") or "TCP"
    for container in pod["spec"].get("containers") or ():
        for offered in container.get("ports") or ():
            if offered.get("name") == target and (offered.get("protocol") or "TCP") == protocol:
                return int(offered["containerPort"])
    return None
