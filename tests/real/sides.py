"""Two servers in one shape: where a side's kubeconfig is, and plain HTTP to it.

`real_side` and `our_side` start a server and stop it; everything above sees only `Side`. The HTTP here is deliberately
bare (the standard library, no retries, no redirects, headers as given), because what a server answers is what is
compared.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from tests.real.plane import RealControlPlane

TIMEOUT_SECONDS = 30.0
SETTLE_SECONDS = 15.0
# As the real side has none: a pod stays where the scheduler leaves it.
NO_NODES = "clusters: [{name: local, nodes: []}]\n"
CONFIGURATION = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
QUIET_SECONDS = 0.4
QUEUES_QUIET_SECONDS = 1.6  # Kueue looks again at what did not fit a second after something has changed
WORKLOADS = (
    ("apis/apps/v1", "deployments"),
    ("apis/apps/v1", "replicasets"),
    ("apis/apps/v1", "statefulsets"),
    ("apis/batch/v1", "cronjobs"),
    ("apis/batch/v1", "jobs"),
    ("api/v1", "pods"),
    ("api/v1", "events"),
    ("api/v1", "endpoints"),
    ("apis/apps/v1", "daemonsets"),
    ("apis/discovery.k8s.io/v1", "endpointslices"),
    ("apis/policy/v1", "poddisruptionbudgets"),
)
# Whatever moves in a queue case shows in one of these; many cases ask at the same time, so they ask for little.
QUEUES = (
    ("apis/kueue.x-k8s.io/v1beta2", "workloads"),
    ("apis/kueue.x-k8s.io/v1beta2", "localqueues"),
    ("apis/batch/v1", "jobs"),
    ("api/v1", "pods"),
    ("api/v1", "events"),
    ("apis/ray.io/v1", "rayclusters"),
)
OUTLINE = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
QUEUES_EVERYWHERE = ("/apis/kueue.x-k8s.io/v1beta2/clusterqueues", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors")


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Side:
    """One of the two servers that are compared."""

    name: str
    kubeconfig: Path
    queues: bool = False  # whether Kueue's work is waited for, too
    url: str = field(init=False)
    _token: str = field(init=False)
    _tls: ssl.SSLContext = field(init=False)
    _connections: dict[int, http.client.HTTPSConnection] = field(default_factory=dict, init=False)  # by thread

    def __post_init__(self) -> None:
        config = yaml.safe_load(self.kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        self.url = cluster["server"].rstrip("/")
        self._token = user["token"]
        if "certificate-authority-data" in cluster:
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        else:
            authority = (self.kubeconfig.parent / cluster["certificate-authority"]).read_text()
        self._tls = ssl.create_default_context(cadata=authority)

    @property
    def addresses(self) -> dict[str, str]:
        """What the side calls itself, for the normaliser; a cluster's path below the root belongs to its address."""
        address = urlsplit(self.url)
        named = dict.fromkeys((self.url, f"{address.netloc}{address.path}", address.netloc), "<server>")
        return named | ({address.path: ""} if address.path else {})

    def kubeconfig_for(self, namespace: str) -> str:
        """The side's kubeconfig with another default namespace, its files named in full."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        _named(config["contexts"], config["current-context"])["context"]["namespace"] = namespace
        return yaml.safe_dump(config)

    def send(
        self, method: str, path: str, body: bytes | str | None = None, headers: dict[str, str] | None = None
    ) -> Response:
        """One request on the thread's kept connection; `Authorization` is added unless `headers` has one."""
        kept = self._connections.get(threading.get_ident()) or self._new_connection()
        try:
            return self._exchange(kept, method, path, body, headers)
        except (http.client.HTTPException, OSError):
            # The server may have closed a kept connection; one new one, and then the failure counts.
            kept.close()
            return self._exchange(self._new_connection(), method, path, body, headers)

    def _new_connection(self) -> http.client.HTTPSConnection:
        made = self._connections[threading.get_ident()] = self.connect()
        return made

    def connect(self) -> http.client.HTTPSConnection:
        address = urlsplit(self.url)
        return http.client.HTTPSConnection(
            address.hostname or "", address.port, context=self._tls, timeout=TIMEOUT_SECONDS
        )

    @contextlib.contextmanager
    def stream(self, path: str, headers: dict[str, str] | None = None) -> Iterator[tuple[HTTPResponse, socket.socket]]:
        """A response to be read piece by piece, on a connection of its own, with the socket under it."""
        connection = self.connect()
        connection.connect()
        under = connection.sock
        try:
            connection.request("GET", self._path(path), headers=self._headers(headers))
            with connection.getresponse() as response:
                yield response, under
        finally:
            under.close()
            connection.close()

    def settle(self, namespace: str) -> None:
        """Until the controllers have nothing left to do here: no workload has changed for a while."""
        seen, since = self._revisions(namespace), time.monotonic()
        quiet, pause = (QUEUES_QUIET_SECONDS, 0.3) if self.queues else (QUIET_SECONDS, 0.05)
        deadline = since + SETTLE_SECONDS
        while time.monotonic() - since < quiet and time.monotonic() < deadline:
            time.sleep(pause)
            if (now := self._revisions(namespace)) != seen:
                seen, since = now, time.monotonic()

    def _revisions(self, namespace: str) -> list[str]:
        kinds, wide = (QUEUES, QUEUES_EVERYWHERE) if self.queues else (WORKLOADS, ("/api/v1/nodes",))
        paths = [f"/{group}/namespaces/{namespace}/{kind}" for group, kind in kinds]
        lists = [self.send("GET", path, headers=OUTLINE).json() for path in (*paths, *wide)]
        return [item["metadata"]["resourceVersion"] for found in lists for item in found.get("items") or ()]

    def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()

    def _exchange(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: bytes | str | None,
        headers: dict[str, str] | None,
    ) -> Response:
        data = body.encode() if isinstance(body, str) else body
        connection.request(method, self._path(path), body=data, headers=self._headers(headers))
        answer = connection.getresponse()
        names = {name.lower() for name in answer.headers}
        given = {name: ", ".join(answer.headers.get_all(name, [])) for name in names}
        return Response(answer.status, given, answer.read())

    def _path(self, path: str) -> str:
        return urlsplit(self.url).path + path

    def _headers(self, headers: dict[str, str] | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Accept": "application/json"} | (headers or {})


@contextlib.contextmanager
def real_side(name: str = "real") -> Iterator[Side]:
    with RealControlPlane(scheduler=True) as plane:
        side = Side(name, plane.kubeconfig)
        try:
            yield side
        finally:
            side.close()


@contextlib.contextmanager
def our_side(
    name: str = "ours", fleet: str = NO_NODES, *, queues: bool = False, told: dict[str, Any] | None = None
) -> Iterator[Side]:
    """Our own control plane, started by the command people use, in a home of its own; `told` is Kueue's configuration."""
    gpuaas = Path(sys.executable).parent / "gpuaas"
    with tempfile.TemporaryDirectory(prefix="gpuaas-home-") as home:
        environment = os.environ | {"GPUAAS_HOME": home}
        file = Path(home) / "nodes.yaml"
        file.write_text(fleet)
        command = [gpuaas, "up", "-d", "--fleet", file]
        if told:
            configuration = Path(home) / "told.yaml"
            configuration.write_text(yaml.safe_dump(CONFIGURATION | told))
            command += ["--kueue-config", configuration]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
        try:
            side = Side(name, Path(home) / "kubeconfig", queues=queues)
            try:
                yield side
            finally:
                side.close()
        finally:
            subprocess.run([gpuaas, "down"], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
