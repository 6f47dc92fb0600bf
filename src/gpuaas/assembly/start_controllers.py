"""Who works behind the API server of a cluster: controllers, admission, the nodes. Loaded beside the first requests.

Importing all of it takes as long as the API server needs to be ready, so it is done after, in a thread.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from gpuaas.apiserver.local import LocalClient, LocalDiscovery
from gpuaas.assembly.clusters import ClusterParts
from gpuaas.assembly.configuration import show_configuration
from gpuaas.assembly.fleet import Fleet
from gpuaas.assembly.home import Home
from gpuaas.assembly.multikueue import multikueue_loops
from gpuaas.assembly.nodes import executors, furnish, furnish_platform
from gpuaas.assembly.trust import Trust
from gpuaas.assembly.views import ViewsServer
from gpuaas.assembly.visibility import mount_visibility
from gpuaas.base.clock import Clock
from gpuaas.client.http import HttpClient
from gpuaas.client.kubeconfig import Access
from gpuaas.controllers import all_controllers
from gpuaas.controllers.hardware_profiles import ConvertedProfiles, DefaultProfiles, ProfileReaders
from gpuaas.controllers.kueue import KueueCore, QueueStatuses
from gpuaas.executors.machine import Gpus
from gpuaas.fleet.hub.hub import Hub
from gpuaas.runtime.controller import Controllers, Deps

_log = logging.getLogger("gpuaas")
FLEET = "gpuaas-fleet"  # whom the hub's controllers call themselves when they write


async def start_controllers(
    parts: ClusterParts,
    trust: Trust,
    clock: Clock,
    fleet: Fleet | None,
    home: Home | None,
    turn: Callable[[], Awaitable[None]] | None = None,
    kueue: str = "",
    gpus: Gpus | None = None,
    platform: str = "",
) -> Controllers:
    """Starts them all. `home`: where this machine's own processes are kept; None where it is not a node. `kueue`: the
    text of Kueue's configuration, where there is one. `gpus`: what the driver of this machine said. `platform`: whose
    objects are made, if not the fleet's."""
    client = LocalClient(parts.cluster, parts.access.system_user("controllers"), "gpuaas")
    deps = Deps.over(
        client,
        clock,
        LocalDiscovery(parts.cluster),
        root_ca=trust.authority_pem,
        secret_token=parts.access.secret_token,
        sign_request=partial(trust.sign, parts.cluster.name),
        turn=turn,
        aside=parts.cluster.aside,
        quota=parts.quota,
    )
    made = all_controllers(deps, configured=parts.configured)
    core = next(each for each in made if isinstance(each, KueueCore))
    statuses = next(each for each in made if isinstance(each, QueueStatuses))
    mount_visibility(parts.cluster, core)
    parts.cluster.metrics.append(core.collector(statuses).lines)
    views = ViewsServer(parts, deps, core)
    made += (views, *executors(parts, deps, fleet, home, gpus))
    made += multikueue_loops(parts, deps, core.counts.series, views)
    if "odh" not in parts.strict:
        made += (ConvertedProfiles(deps), DefaultProfiles(deps), ProfileReaders(deps))
    made.append(Hub(deps.under(FLEET), partial(_to_worker, clock), strict="multikueue" in parts.strict))
    controllers = Controllers(deps, made)
    await controllers.start()
    if fleet is not None:
        with _unimportant("the fleet's objects were not all made"):
            await furnish(parts, client, fleet)
    if platform := platform or (fleet.platform if fleet is not None else ""):
        with _unimportant("the platform's objects were not all made"):
            await furnish_platform(parts, client, platform)
    with _unimportant("Kueue's configuration is not shown"):
        await show_configuration(parts.cluster, client, kueue)
    return controllers


def _to_worker(clock: Clock, access: Access) -> HttpClient:
    """Also a worker beside us in the process is reached through its kubeconfig, as one across the world."""
    return HttpClient(access, clock, "gpuaas-hub")


@contextlib.contextmanager
def _unimportant(words: str) -> Iterator[None]:
    """Objects written at a start: one that is refused, because of what is stored beside it say, must not stop it."""
    try:
        yield
    except Exception:
        _log.exception("%s", words)
