"""A server under attack: bounded memory, a deadline for every request, and a second client that measures how long it waits.

Each attack runs against a real `gpuaas up` in a child process. `bounded` starts one with an address-space limit, so that a
memory bomb kills the child and not the machine. `Bystander` polls a cheap GET on its own connection while the attack
runs: its worst latency is the longest time the event loop was held (plus scheduling noise of the machine).
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.conformance.service import Service
from tests.conformance.wire import Closed

MEMORY = 3 << 30  # address space of the server: an idle one maps less than 1 GiB
DEADLINE = 20.0  # seconds until an attack counts as a hang


@contextmanager
def bounded(home: Path, *options: str, memory: int = MEMORY) -> Iterator[Service]:
    """A running server that cannot map more than `memory` bytes; the limit is set again after `restart`."""
    service = Service(home, *options)
    service.start()
    limit(service, memory)
    try:
        yield service
    finally:
        if service.process is not None and service.process.poll() is None:
            service.process.kill()
            service.process.wait()
        service.stop()


def limit(service: Service, memory: int = MEMORY) -> None:
    resource.prlimit(service.pid, resource.RLIMIT_AS, (memory, memory))


def restart(service: Service, memory: int = MEMORY) -> float:
    """Kills the server, starts it again and returns the seconds until it was ready."""
    service.kill()
    began = time.monotonic()
    service.start()
    limit(service, memory)
    return time.monotonic() - began


class Bystander:
    """`with Bystander(service) as other:` — asks for one object over and over; latencies in seconds."""

    def __init__(self, service: Service, path: str = "/api/v1/namespaces/default") -> None:
        self._service = service
        self._path = path
        self._stop = threading.Event()
        self._asked = threading.Event()  # once: before that, its connection would wait and not be measured
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self.latencies: list[float] = []
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._asked.wait(DEADLINE)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE + 5)

    @property
    def worst(self) -> float:
        return max(self.latencies, default=0.0)

    @property
    def p99(self) -> float:
        ordered = sorted(self.latencies)
        return ordered[int(len(ordered) * 0.99)] if ordered else 0.0

    def _poll(self) -> None:
        wire = self._service.connect(DEADLINE)
        fields = {"authorization": f"Bearer {self._service.token}"}
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                if (status := wire.ask("GET", self._path, fields, None).status) != 200:
                    self.failures.append(f"status {status}")
            except (Closed, OSError) as error:
                self.failures.append(repr(error))
                self.latencies.append(time.monotonic() - began)
                return
            self.latencies.append(time.monotonic() - began)
            self._asked.set()
            self._stop.wait(0.002)
        wire.close()
