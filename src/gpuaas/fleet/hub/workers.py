"""Clients to the clusters of the fleet, each from the kubeconfig in its agent's Secret on the hub.

Nothing else is known about a worker: the one beside us in the process is reached as one across the world. A kubeconfig
that comes in a Secret may not read files of the hub or start programs there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gpuaas.client.kubeconfig import Access, Kubeconfig, KubeconfigError, from_document
from gpuaas.client.ocm import MANAGED_CLUSTERS
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import SECRETS
from gpuaas.fleet.hub.connections import decoded
from gpuaas.fleet.hub.names import AGENT_SECRET, is_local
from gpuaas.machinery.yamltext import YamlError, load_yaml
from gpuaas.runtime.informer import Informers

Connect = Callable[[Access], Client]
_LONGEST: Final = 1 << 20  # characters of a kubeconfig: as much as a Secret holds
_ELSEWHERE: Final = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile", "exec", "auth-provider")),
}


def read_kubeconfig(text: str, source: str) -> Access:
    """What the current context of a kubeconfig leads to; raises KubeconfigError. `source` names it in messages."""
    if not text:
        raise KubeconfigError(f'{source} has no key "kubeconfig"')
    try:
        content = load_yaml(text[:_LONGEST])
        if not isinstance(content, dict):
            raise KubeconfigError(f"{source} is not a kubeconfig: it must be a map with clusters, users and contexts")
        _refuse_references(content, source)
        found: Kubeconfig = from_document(content, Path(source))
        return found.access()
    except (YamlError, AttributeError, TypeError) as error:
        raise KubeconfigError(f"{source} is not a kubeconfig: {error}") from None


def _refuse_references(content: Any, source: str) -> None:
    for section, (key, fields) in _ELSEWHERE.items():
        for entry in content.get(section) or ():
            for field in fields:
                if (entry.get(key) or {}).get(field):
                    raise KubeconfigError(
                        f'{source}: {key} "{entry.get("name")}" has {field}; a kubeconfig in a Secret must carry its data'
                    )


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
