"""A control plane as users run it: the real command, its own process, its own home; started, killed, started again."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml
from tests.conformance.wire import Answer, Closed, Wire

_LIMIT = 60.0  # for a foreign process on a machine that is busy with other things


class Service:
    """`with Service(folder) as service:` — ready inside, gone after. Clusters and options go to `gpuaas up`."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.token = ""
        self._wire: Wire | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        return self.home.parent / f"{self.home.name}.log"

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpuaas", "up", *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "GPUAAS_HOME": str(self.home), "GPUAAS_DETACHED": "1"},
            )
        eventually(self._ready, lambda: f"the server never got ready: {self.log.read_text()[-2000:]}")

    def _ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}: {self.log.read_text()[-2000:]}")
        try:
            said = json.loads((self.home / "server.json").read_text())
            if said["pid"] != self.process.pid:
                return False
            self.url = said["url"]
            config = yaml.safe_load(self.kubeconfig.read_text())
            self.token = config["users"][0]["user"]["token"]
            return self.ask("GET", "/readyz").status == 200
        except (OSError, ValueError, Closed):
            return False

    def stop(self) -> None:
        self._forget_wire()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(_LIMIT)
        self.process = None

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(_LIMIT)
        self._forget_wire()

    def connect(self, timeout: float = 20.0) -> Wire:
        address = urlsplit(self.url)
        assert address.hostname is not None
        assert address.port is not None
        return Wire(address.hostname, address.port, self.tls(), timeout)

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.home / "pki" / "ca.crt"))

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        token: str | None = None,
        **headers: str,
    ) -> Answer:
        """One request on a connection that is kept; `body` is an object or bytes; headers with _ for -."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        bearer = self.token if token is None else token
        if bearer:
            fields["authorization"] = f"Bearer {bearer}"
        if sent is not None:
            fields["content-type"] = media
        for last in (False, True):
            if self._wire is None:
                self._wire = self.connect()
            try:
                return self._wire.ask(method, path, fields, sent)
            except (Closed, OSError):
                self._forget_wire()
                if last:
                    raise
        raise AssertionError("unreachable")

    def rss(self) -> int:
        """Bytes of memory the server holds."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def _forget_wire(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


def eventually(done: Callable[[], Any], complaint: str | Callable[[], str], limit: float = _LIMIT) -> Any:
    """Polls what another process brings about; the complaint is put together when there is something to complain of."""
    deadline = time.monotonic() + limit
    while not (found := done()):
        if time.monotonic() > deadline:
            raise AssertionError(complaint if isinstance(complaint, str) else complaint())
        time.sleep(0.02)
    return found
