"""MultiKueueClusters: each is a connection, made from the kubeconfig it names and shown in its condition `Active`.

A Secret is read as it is in the API, a file is looked at every few seconds; either one changed means a new connection.
"""

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpuaas.base.clock import rfc3339
from gpuaas.client.kubeconfig import Access, KubeconfigError, from_document
from gpuaas.client.kueue import CONFIGURATION_NAMESPACE, MULTIKUEUE_CLUSTERS
from gpuaas.client.protocol import Object
from gpuaas.client.resources import SECRETS
from gpuaas.fleet.multikueue.workers import Workers
from gpuaas.kueue.multikueue.kubeconfig_rules import MOST_BYTES, BadKubeConfig, InsecureKubeConfig, read_kubeconfig
from gpuaas.kueue.workload_state import conditions_of
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.metadata import Key, is_deleting
from gpuaas.runtime.writes import write_status

_KEY = "kubeconfig"
_LOOK_AT_FILES = 5.0
_LONGEST = 2048


class _State(NamedTuple):
    active: bool
    reason: str
    message: str


class _ProfilesOff(BadKubeConfig):
    reason = "MultiKueueClusterProfileFeatureDisabled"


class MultiKueueClusters(Controller):
    name = "multikueue-clusters"
    component = "multikueue"
    workers = 4

    def __init__(self, deps: Deps, connections: Workers, namespace: str = CONFIGURATION_NAMESPACE) -> None:
        super().__init__(deps)
        self._connections = connections
        self._namespace = namespace
        self._used: dict[str, str] = {}
        """By cluster, a digest of the kubeconfig its connection was made from."""
        of = deps.informers.of
        self._clusters = self.follow(of(MULTIKUEUE_CLUSTERS), by=_wanted)
        self._clusters.add_index("secret", _secret_named)
        self._secrets = self.follow(of(SECRETS), self._users)
        connections.subscribe(change=lambda name: self.queue.add(Key("", name)))

    def _users(self, secret: Mapping[str, Any]) -> list[Key]:
        meta = secret["metadata"]
        if meta.get("namespace") != self._namespace:
            return []
        return [Key("", each["metadata"]["name"]) for each in self._clusters.indexed("secret", meta["name"])]

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self._connections.close()

    async def reconcile(self, key: Key) -> Requeue | None:
        cluster = self._clusters.get("", key.name)
        if cluster is None or is_deleting(cluster):
            self._used.pop(key.name, None)
            self._connections.disconnect(key.name)
            return None
        source = ((cluster.get("spec") or {}).get("clusterSource") or {}).get("kubeConfig") or {}
        by_path = source.get("locationType") == "Path"
        if by_path and key.name not in self._used:
            words = "kubeconfigs by path are deprecated: keep them in a Secret"
            self.recorder.event(MULTIKUEUE_CLUSTERS, cluster, WARNING, "DeprecatedPathUsage", words)
        try:
            self._use(key.name, self._kubeconfig(cluster), own_files=by_path, location=source.get("location", ""))
        except BadKubeConfig as error:
            self._used[key.name] = ""
            self._connections.disconnect(key.name)
            await self._show(cluster, _State(False, error.reason, f"load client config failed: {error}"))
        else:
            await self._show(cluster, self._state(key.name))
        return Requeue(_LOOK_AT_FILES) if by_path else None

    def _use(self, name: str, data: bytes, *, own_files: bool, location: str) -> None:
        digest = hashlib.sha256(data).hexdigest()
        if self._used.get(name) == digest:
            return
        access = _access(data, own_files=own_files, location=location)
        self._used[name] = digest
        self._connections.connect(name, access)

    def _kubeconfig(self, cluster: Object) -> bytes:
        source = (cluster.get("spec") or {}).get("clusterSource") or {}
        if source.get("clusterProfileRef"):
            raise _ProfilesOff("MultiKueueClusterProfile feature gate is disabled")
        ref = source.get("kubeConfig")
        if not ref:
            raise BadKubeConfig("kubeconfig reference is nil")
        location = ref.get("location", "")
        if ref.get("locationType") == "Path":
            return _from_file(location)
        secret = self._secrets.get(self._namespace, location)
        if secret is None:
            raise BadKubeConfig(f'Secret "{location}" not found')
        data = (secret.get("data") or {}).get(_KEY)
        if data is None:
            raise BadKubeConfig(f'key "{_KEY}" not found in secret "{location}"')
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise InsecureKubeConfig("failed to parse kubeconfig: it is not base64") from None

    def _state(self, name: str) -> _State | None:
        """None while the first attempt, or the one after a loss, is under way."""
        worker = self._connections.newest(name)
        if worker is None:
            return None
        if worker.connected:
            return _State(True, "Active", "Connected")
        if worker.attempts:
            return _State(False, "ClientConnectionFailed", worker.problem or "the connection was closed")
        return None

    async def _show(self, cluster: Object, state: _State | None) -> None:
        if state is None:
            return
        known = conditions_of(cluster).get("Active") or {}
        status, message = "True" if state.active else "False", state.message[:_LONGEST]
        generation = cluster["metadata"].get("generation", 1)
        now = status, state.reason, message, generation
        if now == tuple(known.get(part) for part in ("status", "reason", "message", "observedGeneration")):
            return
        condition = {
            "type": "Active",
            "status": status,
            "reason": state.reason,
            "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": known["lastTransitionTime"]
            if known.get("status") == status
            else rfc3339(self.clock.now()),
        }
        others = [each for each in (cluster.get("status") or {}).get("conditions") or () if each["type"] != "Active"]
        shown = {**(cluster.get("status") or {}), "conditions": [*others, condition]}
        await write_status(self.client, MULTIKUEUE_CLUSTERS, cluster, shown)


def _access(data: bytes, *, own_files: bool, location: str) -> Access:
    document = read_kubeconfig(data, own_files=own_files)
    try:
        return from_document(document, Path(location)).access()
    except KubeconfigError as error:
        raise InsecureKubeConfig(f"failed to parse kubeconfig: {error}") from None


def _from_file(location: str) -> bytes:
    try:
        file = os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):  # reading a pipe or a terminal may wait for ever
                raise BadKubeConfig(f"open {location}: not a regular file")
            return opened.read(MOST_BYTES + 1)
    except ValueError as error:  # a NUL in the path
        raise BadKubeConfig(f"open {location}: {error}") from None
    except OSError as error:
        raise BadKubeConfig(f"open {location}: {(error.strerror or str(error)).lower()}") from None


def _wanted(cluster: Mapping[str, Any]) -> Any:
    meta = cluster["metadata"]
    return meta.get("uid"), cluster.get("spec"), meta.get("deletionTimestamp")


def _secret_named(cluster: Mapping[str, Any]) -> list[str]:
    ref = ((cluster.get("spec") or {}).get("clusterSource") or {}).get("kubeConfig") or {}
    return [] if ref.get("locationType") == "Path" else [ref.get("location", "")]
