"""What `gpuaas fleet join`, `leave` and `drain` write on the hub, and what they wait for."""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, NotFound
from gpuaas.client.kubeconfig import KubeconfigError, load
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.ocm import DRAINED, MANAGED_CLUSTERS, PLACEMENTS
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import NAMESPACES, SECRETS
from gpuaas.fleet.hub.applying import keep
from gpuaas.fleet.hub.names import CLUSTER_NAMESPACE_LABEL, IMPORT_SECRET, LOCAL
from gpuaas.fleet.hub.reading import encoded, kubeconfig

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.views.fleet import FleetRow

LEASE_SECONDS = 10
_SAYS_SO = 3.0  # seconds until a hub whose Kueue has no MultiKueue is not waited for
_HUB_LABELS = {LOCAL: "true", "vendor": "gpuaas"}


async def admit(client: "HttpClient", name: str, source: Path, context: str, labels: dict[str, str]) -> None:
    """The ManagedCluster, accepted, and the `auto-import-secret` with the credentials of the file."""
    access = load([source]).access(context)
    if not access.token:
        raise KubeconfigError(
            f"{source}: user of context {access.context} has no token; make one: kubectl create token"
        )
    if access.server == client.access.server:
        raise KubeconfigError(f"{source} leads to the hub itself ({access.server})")
    await register_hub(client)
    await _namespace(client, name)
    text = kubeconfig(name, access.server, access.certificate_authority, "import", access.token)
    metadata = {"name": IMPORT_SECRET, "namespace": name}
    await keep(client, SECRETS, {"metadata": metadata, "type": "Opaque", "data": {"kubeconfig": encoded(text)}})
    spec = {"hubAcceptsClient": True, "leaseDurationSeconds": LEASE_SECONDS}
    await keep(client, MANAGED_CLUSTERS, {"metadata": {"name": name, "labels": labels}, "spec": spec})


async def register_hub(client: "HttpClient") -> None:
    """The hub among its clusters, as `local-cluster`."""
    await _namespace(client, LOCAL)
    server = client.access.server
    config: Object = {"url": server}
    if client.access.certificate_authority:
        config["caBundle"] = encoded(client.access.certificate_authority)
    spec = {"hubAcceptsClient": True, "managedClusterClientConfigs": [config]}
    obj = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    try:
        await client.create(MANAGED_CLUSTERS, {**obj, "metadata": {"name": LOCAL, "labels": _HUB_LABELS}, "spec": spec})
    except AlreadyExists:
        return


async def _namespace(client: "HttpClient", name: str) -> None:
    metadata = {"name": name, "labels": {CLUSTER_NAMESPACE_LABEL: name}}
    try:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    except AlreadyExists:
        return


async def rows(client: "HttpClient") -> "list[FleetRow]":
    from gpuaas.client.ocm import DECISIONS, MULTIKUEUE_CLUSTERS, SCORES
    from gpuaas.views.fleet import fleet_rows

    async def every(resource: Resource) -> list[Object]:
        return (await client.list(resource)).items

    found = [await every(each) for each in (MANAGED_CLUSTERS, SCORES, MULTIKUEUE_CLUSTERS, DECISIONS)]
    return fleet_rows(*found)


async def cluster_named(client: "HttpClient", name: str, verb: str, patience: float) -> None:
    """Waits until it is available, with a connection of MultiKueue; fails with what the hub says about it."""
    deadline, row = time.monotonic() + patience, None
    while time.monotonic() < deadline:
        row = next((each for each in await rows(client) if each.name == name), None)
        unsaid = row is not None and row.connected == "Unknown" and time.monotonic() > deadline - patience + _SAYS_SO
        if row is not None and row.available == "True" and (row.connected == "True" or unsaid):
            click.echo(f"cluster {name} has {verb}: available, MultiKueue connected={row.connected}")
            return
        await asyncio.sleep(0.1)
    said = f"{row.problem}; fix: {row.fix}" if row is not None and row.problem else "no answer yet"
    raise click.ClickException(f"cluster {name} has not {verb} within {patience:.0f} s: {said}")


async def known(client: "HttpClient", name: str) -> Object:
    """The ManagedCluster; fails with the names of those there are."""
    try:
        return await client.get(MANAGED_CLUSTERS, name)
    except NotFound:
        names = sorted(each["metadata"]["name"] for each in (await client.list(MANAGED_CLUSTERS)).items)
        others = f"there are: {', '.join(names)}" if names else "none has joined"
        raise click.ClickException(f"there is no cluster {name}; {others}") from None


async def gone(client: "HttpClient", name: str, patience: float) -> None:
    await known(client, name)
    await client.delete(MANAGED_CLUSTERS, name)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            await client.get(MANAGED_CLUSTERS, name)
        except NotFound:
            return
        await asyncio.sleep(0.1)
    if patience:
        raise click.ClickException(f"cluster {name} has not gone within {patience:.0f} s: gpuaas fleet describe {name}")


async def running_on(client: "HttpClient", name: str) -> list[str]:
    """`namespace/name` of the hub's workloads that run there."""
    found = []
    for each in (await client.list(WORKLOADS)).items:
        status = each.get("status") or {}
        finished = any(c["type"] == "Finished" and c["status"] == "True" for c in status.get("conditions") or ())
        if status.get("clusterName") == name and not finished:
            found.append(f"{each['metadata']['namespace']}/{each['metadata']['name']}")
    return sorted(found)


async def drained(client: "HttpClient", name: str, *, on: bool) -> None:
    cluster = await known(client, name)
    taints = [each for each in (cluster.get("spec") or {}).get("taints") or () if each.get("key") != DRAINED]
    if on:
        taints.append({"key": DRAINED, "effect": "NoSelect", "timeAdded": rfc3339(time.time())})  # noqa: TID251
    version = cluster["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
    await client.patch(MANAGED_CLUSTERS, name, patch)


async def tolerating(client: "HttpClient") -> list[str]:
    """Placements that tolerate every taint, this one too."""
    return [
        f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in (await client.list(PLACEMENTS)).items
        if any(
            t.get("operator") == "Exists" and t.get("key", "") in ("", DRAINED)
            for t in (each.get("spec") or {}).get("tolerations") or ()
        )
    ]
