"""Services: the addresses they hold, as objects, and the ranges these come from."""

from __future__ import annotations

from typing import Any

from tests.real.wire import Wire, case

GROUP = "/apis/networking.k8s.io/v1"
ADDRESSES, RANGES = f"{GROUP}/ipaddresses", f"{GROUP}/servicecidrs"


def service(name: str, address: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}


def is_there(w: Wire, path: str) -> bool:
    return w.prepare("GET", path).status == 200


@case
def addresses_of_services(w: Wire) -> None:
    path, address = w.path("services"), f"{ADDRESSES}/10.96.200.77"
    w.post(path, service("first", "10.96.200.77"))
    w.until(lambda: is_there(w, address))
    w.get(address)
    w.get(ADDRESSES, fieldSelector="metadata.name=10.96.200.77")
    w.post(path, service("second", "10.96.200.77"))
    w.delete(f"{path}/first")
    w.until(lambda: not is_there(w, address))
    w.get(address)
    w.post(path, service("third", "10.96.200.77"))


@case
def addresses_that_others_hold(w: Wire) -> None:
    parent = {"group": "example.com", "resource": "gates", "namespace": w.ns, "name": "g"}
    w.post(ADDRESSES, {"metadata": {"name": "10.96.200.78"}, "spec": {"parentRef": parent}})
    w.post(w.path("services"), service("wanted", "10.96.200.78"))
    w.delete(f"{ADDRESSES}/10.96.200.78")


@case
def ranges_of_services(w: Wire) -> None:
    def ready(name: str) -> bool:
        found = w.prepare("GET", f"{RANGES}/{name}").json()
        told = [each.get("message") for each in found.get("status", {}).get("conditions", ())]
        return told == ["Kubernetes Service CIDR is ready"] and bool(found["metadata"].get("finalizers"))

    w.until(lambda: ready("kubernetes"))
    first = w.prepare("GET", f"{RANGES}/kubernetes").json()  # who wrote it is not compared: that is how a server begins
    told = {"finalizers": first["metadata"]["finalizers"], "spec": first["spec"], "status": first["status"]}
    w.note("the range a server begins with", body=w.normal.value(told))
    own = f"{w.ns}-range"
    w.post(RANGES, {"metadata": {"name": own}, "spec": {"cidrs": ["10.96.128.0/24"]}})
    w.until(lambda: ready(own))
    w.get(f"{RANGES}/{own}")
    w.delete(f"{RANGES}/{own}")
    w.until(lambda: not is_there(w, f"{RANGES}/{own}"))
