"""Ports of every node for services: those they bring must be free and in the range, those they lack are given."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuaas.api.kubernetes.rules.services import needs_health_check, ports_without_node_port
from gpuaas.base.errors import Internal, Invalid
from gpuaas.base.fielderrors import invalid

Object = dict[str, Any]
View = Mapping[str, Any]

NODE_PORTS: Final = range(30_000, 32_768)


def allocate_node_ports(service: Object, old: View | None, taken: set[int]) -> None:
    """A free port for each that needs one, and for who asks whether the service is well here. `taken`: by others.

    Ports of a new service that have one number, for two protocols, share their node port.
    """
    spec = service["spec"]
    ports, lacks = spec.get("ports") or (), bool(ports_without_node_port(service))
    had = {port.get("nodePort") for port in ((old or {}).get("spec") or {}).get("ports") or ()}
    given = _Given(service, had, taken)
    by_number: dict[int, int] = {}
    for place, port in enumerate(ports):
        number, wanted = port["port"], port.get("nodePort")
        if old is None and number in by_number:
            wanted = wanted or by_number[number]
        elif old is None and not wanted:
            wanted = next((each["nodePort"] for each in ports if each["port"] == number and each.get("nodePort")), None)
        if not wanted and not lacks:
            continue
        if not wanted:
            wanted = given.next()
        elif wanted != by_number.get(number):
            given.take(place, wanted)
        by_number.setdefault(number, wanted)
        port["nodePort"] = wanted
    if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = given.next()


class _Given:
    """The ports of one service, as they are given out."""

    def __init__(self, service: View, had: set[Any], taken: set[int]) -> None:
        self._name = service["metadata"].get("name", "")
        self._had = had
        self._taken = set(taken)
        spec = service["spec"]
        asked = {spec.get("healthCheckNodePort"), *(port.get("nodePort") for port in spec.get("ports") or ())}
        self._free: Iterator[int] = (port for port in NODE_PORTS if port not in taken and port not in asked)

    def take(self, place: int, port: int) -> None:
        if port in self._had:
            return
        if port not in NODE_PORTS:
            first, last = NODE_PORTS[0], NODE_PORTS[-1]
            why = f"provided port is not in the valid range. The range of valid ports is {first}-{last}"
        elif port in self._taken:
            why = "provided port is already allocated"
        else:
            self._taken.add(port)
            return
        raise Invalid("", "Service", self._name, [invalid(f"spec.ports[{place}].nodePort", port, why)])

    def next(self) -> int:
        found = next(self._free, None)
        if found is None:
            raise Internal("failed to allocate a nodePort: range is full")
        return found
