"""The nodes of one cluster, put together: who keeps them, who runs their pods, where logs are read, what it begins with.

With a fleet the nodes are simulated; without one there is one node, this machine, whose pods are processes.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuaas.assembly.clusters import ClusterParts
from gpuaas.assembly.fleet import Fleet
from gpuaas.base.errors import AlreadyExists, ApiError
from gpuaas.client.protocol import Client, Resource
from gpuaas.client.resources import NODES, PODS
from gpuaas.runtime.controller import Controller, Deps

_log = logging.getLogger("gpuaas")


def executors(parts: ClusterParts, deps: Deps, fleet: Fleet | None, home: Path) -> list[Controller]:
    """Run them together with the controllers of the cluster."""
    return _simulated(parts, deps, fleet) if fleet is not None else _this_machine(parts, deps, home)


def _simulated(parts: ClusterParts, deps: Deps, fleet: Fleet) -> list[Controller]:
    from gpuaas.executors.heartbeat import NodeKeeper
    from gpuaas.executors.logs import Logs
    from gpuaas.executors.owners import Owners
    from gpuaas.executors.simulated import SimulatedKubelet
    from gpuaas.executors.simulated_logs import SimulatedLines

    nodes = fleet.cluster(parts.cluster.name).nodes
    pods = deps.informers.of(PODS)
    lines = SimulatedLines(Owners(deps.client, deps.discovery), pods, deps.clock, fleet.speed)
    parts.cluster.logs = Logs({"simulated": lines}, deps.informers.of(NODES))
    return [NodeKeeper(deps, nodes, "simulated"), SimulatedKubelet(deps, nodes, fleet.speed)]


def _this_machine(_parts: ClusterParts, _deps: Deps, _home: Path) -> list[Controller]:
    return []


async def furnish(parts: ClusterParts, deps: Deps, fleet: Fleet) -> None:
    """Make the objects a fleet begins with, where they are missing; what people changed stays changed."""
    served = {(one.resource.group, one.resource.kind): one.resource for one in await deps.discovery.resources()}
    for obj in fleet.objects:
        group, _, version = obj.get("apiVersion", "").rpartition("/")
        known = served.get((group, obj["kind"]))
        if known is None:
            _log.warning("fleet: cluster %s has no kind %s %s", parts.cluster.name, obj.get("apiVersion"), obj["kind"])
            continue
        await _make(deps.client, Resource(group, version, known.plural, known.namespaced, known.kind), obj)


async def _make(client: Client, resource: Resource, obj: Mapping[str, Any]) -> None:
    namespace = (obj["metadata"].get("namespace") or "default") if resource.namespaced else ""
    try:
        await client.create(resource, dict(obj), namespace, field_manager="gpuaas-fleet")
    except AlreadyExists:
        return
    except ApiError as error:
        _log.warning("fleet: %s %s: %s", obj["kind"], obj["metadata"]["name"], error.message)
