"""Clients to the clusters of the fleet, each from the kubeconfig in its agent's Secret on the hub.

Nothing else is known about a worker: the one beside us in the process is reached as one across the world.
"""

from collections.abc import Callable

from gpuaas.client.kubeconfig import Access
from gpuaas.client.ocm import MANAGED_CLUSTERS
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import SECRETS
from gpuaas.fleet.hub.names import AGENT_SECRET, is_local
from gpuaas.fleet.hub.reading import decoded, read_kubeconfig
from gpuaas.runtime.informer import Informers

Connect = Callable[[Access], Client]


class Workers:
    """`of` gives the client of a cluster; one for each text of its kubeconfig."""

    def __init__(self, hub: Client, informers: Informers, connect: Connect) -> None:
        self._hub = hub
        self._clusters = informers.of(MANAGED_CLUSTERS)
        self._secrets = informers.of(SECRETS)
        self._connect = connect
        self._known: dict[str, tuple[str, Client]] = {}

    def secret(self, cluster: str, name: str = AGENT_SECRET) -> Object | None:
        return self._secrets.get(cluster, name)

    def of(self, cluster: str) -> Client | None:
        """None while the cluster has not been joined; raises KubeconfigError where its Secret cannot be used."""
        registered = self._clusters.get("", cluster)
        if registered is not None and is_local(registered):
            return self._hub
        secret = self.secret(cluster)
        if secret is None:
            self._forget(cluster)
            return None
        text = decoded(secret, "kubeconfig")
        known = self._known.get(cluster)
        if known is None or known[0] != text:
            self._forget(cluster)
            known = self._known[cluster] = (text, self.connect(text, f"Secret {cluster}/{AGENT_SECRET}"))
        return known[1]

    def connect(self, text: str, source: str) -> Client:
        return self._connect(read_kubeconfig(text, source))

    def _forget(self, cluster: str) -> None:
        """Requests under way on the old client end by themselves; its idle connections are closed by their server."""
        self._known.pop(cluster, None)
