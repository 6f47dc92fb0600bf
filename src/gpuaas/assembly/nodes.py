"""The nodes of one cluster, put together: who keeps them, who runs their pods, where logs are read, what it begins with.

With a fleet the nodes are simulated; without one there is one node, this machine, whose pods are processes.
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuaas.apiserver.local import LocalClient, LocalDiscovery
from gpuaas.assembly.clusters import ClusterParts
from gpuaas.assembly.fleet import Fleet
from gpuaas.assembly.home import Home
from gpuaas.assembly.identity import identity_of
from gpuaas.assembly.platform import platform_objects
from gpuaas.assembly.runtime_classes import furnish_process_class, has_process_class, withdraw_process_class
from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES
from gpuaas.client.protocol import Client, Resource
from gpuaas.client.resources import NODES, PODS
from gpuaas.executors.nodes import NodeSpec
from gpuaas.nodefit.names import EXECUTOR
from gpuaas.runtime.controller import Controller, Deps, Loop

if TYPE_CHECKING:
    from gpuaas.executors.gpu_guard import GpuGuard
    from gpuaas.executors.machine import Gpus

_log = logging.getLogger("gpuaas")
_QUEUE = "this-machine"
_FOLLOWS_NODES = {"gpuaas.dev/quota-from": "nodes"}  # sharing, faults and others' processes change what there is
_NAMED = 10


def executors(
    parts: ClusterParts, deps: Deps, fleet: Fleet | None, home: Home | None, gpus: "Gpus | None" = None
) -> list[Loop]:
    """Run them together with the controllers of the cluster. Without a fleet, the cluster with a home has this machine."""
    if fleet is not None:
        return _simulated(parts, deps, fleet)
    return _this_machine(parts, deps, home, gpus) if home is not None else []


def _simulated(parts: ClusterParts, deps: Deps, fleet: Fleet) -> list[Loop]:
    from gpuaas.executors.heartbeat import NodeKeeper
    from gpuaas.executors.logs import Logs
    from gpuaas.executors.owners import Owners
    from gpuaas.executors.simulated import SimulatedKubelet
    from gpuaas.executors.simulated_logs import SimulatedLines
    from gpuaas.executors.simulated_streams import SimulatedStreams
    from gpuaas.executors.streams import PodStreams

    nodes = fleet.cluster(parts.cluster.name).nodes
    pods = deps.informers.of(PODS)
    lines = SimulatedLines(Owners(deps.client, deps.discovery), pods, deps.clock, fleet.speed)
    parts.cluster.logs = Logs({"simulated": lines}, deps.informers.of(NODES))
    streams = SimulatedStreams(deps.client, lines)
    parts.cluster.streams = PodStreams({"simulated": streams}, deps.informers.of(NODES))
    made: list[Loop] = [NodeKeeper(deps, nodes, "simulated"), SimulatedKubelet(deps, nodes, fleet.speed)]
    return [*made, *_gpu_nodes(parts, deps, nodes)]


def _this_machine(parts: ClusterParts, deps: Deps, home: Home, gpus: "Gpus | None") -> list[Loop]:
    from gpuaas.assembly.notebooks import asking, machine_paths
    from gpuaas.controllers.notebooks import NotebookActivity
    from gpuaas.executors.claim import claim
    from gpuaas.executors.heartbeat import NodeKeeper
    from gpuaas.executors.logs import Logs
    from gpuaas.executors.machine import NO_GPUS, this_machine
    from gpuaas.executors.process import ProcessKubelet
    from gpuaas.executors.process_logs import ProcessLines
    from gpuaas.executors.process_streams import ProcessStreams
    from gpuaas.executors.streams import PodStreams

    node, folder = this_machine(gpus or NO_GPUS), home.pods(parts.cluster.name)
    foreign = claim(folder, identity_of(parts.cluster.store))
    if foreign:
        named = ", ".join(str(folder / uid) for uid in sorted(foreign)[:_NAMED])
        more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
        _log.warning("pods of another cluster are left as they are, with what runs of them: %s%s", named, more)
    lines = ProcessLines(folder, deps.informers.of(PODS), deps.clock)
    parts.cluster.logs = Logs({"process": lines}, deps.informers.of(NODES))
    places = machine_paths(home, parts.cluster.name)
    guard = _gpu_guard(deps, node, home, folder, gpus or NO_GPUS)
    kubelet = ProcessKubelet(deps, node, folder, foreign, guard, places)
    parts.cluster.streams = PodStreams({"process": ProcessStreams(kubelet, lines)}, deps.informers.of(NODES))
    made: list[Loop] = [NodeKeeper(deps, [node], "process"), kubelet, *_gpu_nodes(parts, deps, [node])]
    if places is not None:
        made.append(NotebookActivity(deps, asking(places)))
    return made if guard is None else [*made, guard]


def _gpu_guard(deps: Deps, node: NodeSpec, home: Home, folder: Path, gpus: "Gpus") -> "GpuGuard | None":
    from gpuaas.executors.gpu_guard import GpuGuard
    from gpuaas.executors.mps import MpsDaemons

    if not node.found:
        return None
    library = Path(gpus.library) if gpus.library else None
    ignores = home.ignores_foreign()
    return GpuGuard(deps, node, folder, MpsDaemons(home.path), library=library, ignore_foreign=ignores)


def _gpu_nodes(parts: ClusterParts, deps: Deps, nodes: Sequence[NodeSpec]) -> list[Controller]:
    """The controller that derives what nodes with cards offer; none where no node has cards."""
    from gpuaas.controllers.gpu_nodes import GpuNodes, NodeCards

    owned = {
        node.name: NodeCards(node.cards, node.driver, node.executor == "simulated", node.labels)
        for node in nodes
        if node.gpu_count or node.found
    }
    return [GpuNodes(deps, owned, strict="nvidia" in parts.strict)] if owned else []


async def furnish(parts: ClusterParts, client: Client, fleet: Fleet) -> None:
    """Make the objects a fleet begins with, where they are missing; what people changed stays changed."""
    if await withdraw_process_class(client):
        with contextlib.suppress(ApiError):  # what was submitted to this machine waits for it to come back
            await client.delete(LOCAL_QUEUES, _QUEUE, "default")
    await _make_all(parts, client, fleet.objects)


async def furnish_platform(parts: ClusterParts, client: Client, platform: str) -> None:
    """Make the objects of a platform, where they are missing."""
    queues = await client.list(CLUSTER_QUEUES, limit=1)
    await _make_all(parts, client, platform_objects(platform, has_queues=bool(queues.items)))


async def furnish_machine(parts: ClusterParts, gpus: "Gpus") -> None:
    """What this machine needs to run what is submitted: once, and never again what people took away since."""
    client = LocalClient(parts.cluster, parts.access.system_user("bootstrap"), "gpuaas")
    if has_process_class(parts.cluster):
        if gpus.cards:
            await _cover_new_cards(client, gpus)
        return
    await _make_all(parts, client, [*_machine_queue(gpus), _machine(parts.cluster.clock.now(), gpus)])
    await furnish_process_class(client)


async def _cover_new_cards(client: Client, gpus: "Gpus") -> None:
    """The queue an earlier start made covers the cards too, once: when the machine's node had none so far."""
    from gpuaas.devices.inventory import ANNOTATION
    from gpuaas.executors.machine import this_machine

    with contextlib.suppress(NotFound):
        node = await client.get(NODES, this_machine().name)
        queue = await client.get(CLUSTER_QUEUES, _QUEUE)
        groups = queue["spec"].get("resourceGroups") or ()
        is_ours = [set(group["coveredResources"]) for group in groups] == [{"cpu", "memory"}]
        if is_ours and ANNOTATION not in (node["metadata"].get("annotations") or {}):
            wanted = next(each for each in _machine_queue(gpus) if each["kind"] == "ClusterQueue")
            groups = {"resourceGroups": wanted["spec"]["resourceGroups"]}
            await client.patch(CLUSTER_QUEUES, _QUEUE, {"metadata": {"annotations": _FOLLOWS_NODES}, "spec": groups})


def _machine(now: float, gpus: "Gpus") -> Mapping[str, Any]:
    from gpuaas.executors.machine import this_machine
    from gpuaas.executors.nodes import node_object

    return node_object(this_machine(gpus), now)


def _machine_queue(gpus: "Gpus") -> list[Mapping[str, Any]]:
    """A queue for this machine, as large as it is with what its cards offer, so that what is submitted here waits for
    room and then runs."""
    from gpuaas.executors.machine import this_machine
    from gpuaas.executors.nodes import as_born

    node, name, api = this_machine(gpus), _QUEUE, "kueue.x-k8s.io/v1beta2"
    quotas = [{"name": "cpu", "nominalQuota": node.cpu}, {"name": "memory", "nominalQuota": node.memory}]
    offered = as_born(node, node.cards()).capacity
    quotas += [{"name": resource, "nominalQuota": amount} for resource, amount in sorted(offered.items())]
    group = {"coveredResources": [each["name"] for each in quotas], "flavors": [{"name": name, "resources": quotas}]}
    return [
        {
            "apiVersion": api,
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {EXECUTOR: node.executor}},
        },
        {
            "apiVersion": api,
            "kind": "ClusterQueue",
            "metadata": {"name": name, **({"annotations": _FOLLOWS_NODES} if offered else {})},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": api,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterQueue": name},
        },
    ]


async def _make_all(parts: ClusterParts, client: Client, objects: Sequence[Mapping[str, Any]]) -> None:
    found = await LocalDiscovery(parts.cluster).resources()
    served = {(one.resource.group, one.resource.kind): one.resource for one in found}
    for obj in objects:
        group, _, version = obj.get("apiVersion", "").rpartition("/")
        known = served.get((group, obj["kind"]))
        if known is None:
            _log.warning("cluster %s has no kind %s %s", parts.cluster.name, obj.get("apiVersion"), obj["kind"])
            continue
        await _make(client, Resource(group, version, known.plural, known.namespaced, known.kind), obj)


async def _make(client: Client, resource: Resource, obj: Mapping[str, Any]) -> None:
    namespace = (obj["metadata"].get("namespace") or "default") if resource.namespaced else ""
    try:
        await client.create(resource, dict(obj), namespace, field_manager="gpuaas-fleet")
    except AlreadyExists:
        return
    except ApiError as error:
        _log.warning("fleet: %s %s: %s", obj["kind"], obj["metadata"]["name"], error.message)
