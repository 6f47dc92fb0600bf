"""What went wrong last with a cluster, kept as annotations of its ManagedCluster, and what to do about it.

Each part of the hub that talks to workers has a line of its own, written when it changes and removed when the part works
again, so that `gpuaas fleet` and the fleet page show it from any machine.
"""

from typing import Final

from gpuaas.base.errors import ApiError, Forbidden, NotFound, Unauthorized
from gpuaas.client.kubeconfig import KubeconfigError
from gpuaas.client.ocm import MANAGED_CLUSTERS, TROUBLE
from gpuaas.runtime.controller import Deps
from gpuaas.runtime.metadata import annotations_of

_LIMIT: Final = 500


def fix_for(error: Exception, cluster: str) -> str:
    """One sentence: what an admin can do."""
    join = f"gpuaas fleet join {cluster} --from KUBECONFIG"
    match error:
        case KubeconfigError():
            return f"give a kubeconfig with inline certificates and a token: {join}"
        case Unauthorized():
            return f"its token is not accepted any more: {join}"
        case Forbidden():
            return f"the agent's role on the cluster was changed; joining again restores it: {join}"
        case NotFound():
            return "a kind is missing there: install Kueue 0.16 or newer on the cluster"
        case OSError() | TimeoutError():
            return "check that the cluster runs and that the hub may reach its API server (firewall, control-plane ACL)"
        case _:
            return f"see gpuaas fleet describe {cluster}"


class Trouble:
    def __init__(self, deps: Deps, part: str) -> None:
        self._client = deps.client
        self._clusters = deps.informers.of(MANAGED_CLUSTERS)
        self._key = f"{TROUBLE}{part}"

    async def note(self, cluster: str, error: Exception) -> None:
        words = str(error) or type(error).__name__
        await self.say(cluster, f"{' '.join(words.split())[:_LIMIT]}; fix: {fix_for(error, cluster)}")

    async def clear(self, cluster: str) -> None:
        await self.say(cluster, None)

    async def say(self, cluster: str, words: str | None) -> None:
        known = self._clusters.get("", cluster)
        if known is None or annotations_of(known).get(self._key) == words:
            return
        try:
            await self._client.patch(MANAGED_CLUSTERS, cluster, {"metadata": {"annotations": {self._key: words}}})
        except ApiError:
            return  # said again at the next try
