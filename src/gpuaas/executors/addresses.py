"""Addresses of pods: each has one of its own, from 10.128.0.0/9, for as long as it exists."""

from gpuaas.client.protocol import Object
from gpuaas.runtime.metadata import uid_of

_FIRST = 10 << 24 | 128 << 16
_SIZE = 1 << 23


class Addresses:
    def __init__(self) -> None:
        self._next = 2
        self._taken: dict[str, str] = {}  # address -> uid

    def follow(self, old: Object | None, new: Object | None) -> None:
        """For an informer: what pods already have is not given again."""
        for pod, there in ((old, False), (new, True)):
            address = (pod.get("status") or {}).get("podIP") if pod is not None else None
            if pod is None or not address:
                continue
            if there:
                self._taken[address] = uid_of(pod)
            elif new is None and self._taken.get(address) == uid_of(pod):
                del self._taken[address]

    def take(self, uid: str) -> str:
        while True:
            number = _FIRST + self._next % _SIZE
            self._next += 1
            address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
            if address not in self._taken and number & 255 not in (0, 255):
                self._taken[address] = uid
                return address
