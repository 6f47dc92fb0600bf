"""Every active namespace has a ServiceAccount `default`: pods that name none run as it."""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.errors import AlreadyExists, ApiError
from gpuaas.client.protocol import Object
from gpuaas.client.resources import NAMESPACES, SERVICE_ACCOUNTS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key
from gpuaas.runtime.writes import namespace_is_ending

NAME = "default"


def decide(namespace: Mapping[str, Any] | None, account: Mapping[str, Any] | None) -> Object | None:
    """The account to make, if one is missing."""
    if namespace is None or account is not None:
        return None
    if namespace.get("status", {}).get("phase", "Active") != "Active":
        return None
    name = namespace["metadata"]["name"]
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": name}}


class DefaultServiceAccountController(Controller):
    name = "serviceaccount-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._namespaces = self.follow(deps.informers.of(NAMESPACES))
        self._accounts = self.follow(
            deps.informers.of(SERVICE_ACCOUNTS),
            lambda obj: (Key("", obj["metadata"]["namespace"]),) if obj["metadata"]["name"] == NAME else (),
        )

    async def reconcile(self, key: Key) -> Requeue | None:
        account = decide(self._namespaces.get("", key.name), self._accounts.get(key.name, NAME))
        if account is None:
            return None
        try:
            await self.client.create(SERVICE_ACCOUNTS, account, key.name)
        except AlreadyExists:
            pass
        except ApiError as error:
            if not namespace_is_ending(error):
                raise
        return None
