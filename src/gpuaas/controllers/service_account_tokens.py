"""Secrets of type kubernetes.io/service-account-token: filled with a token, gone with their account.

`Deps.secret_token` signs the token; short-lived tokens are asked of the API server and
are not kept in secrets at all.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.base.errors import Conflict, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import SECRETS, SERVICE_ACCOUNTS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, annotations_of, key_of, uid_of

TYPE = "kubernetes.io/service-account-token"
ACCOUNT, ACCOUNT_UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
BY_ACCOUNT = "account"  # index of secrets


def is_token(secret: Mapping[str, Any]) -> bool:
    return secret.get("type") == TYPE and bool(annotations_of(secret).get(ACCOUNT))


def decide(secret: Mapping[str, Any], namespace: str, root_ca: str) -> dict[str, str]:
    """The data that is missing or wrong, but for the token itself; `token` maps to "" where one is needed."""
    data = secret.get("data") or {}
    wanted: dict[str, str] = {}
    if root_ca and data.get("ca.crt") != _encode(root_ca):
        wanted["ca.crt"] = _encode(root_ca)
    if not data.get("namespace"):
        wanted["namespace"] = _encode(namespace)
    if not data.get("token"):
        wanted["token"] = ""
    return wanted


class ServiceAccountTokenController(Controller):
    name = "serviceaccount-token-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._root_ca = deps.root_ca
        self._sign = deps.secret_token
        secrets = deps.informers.of(SECRETS)
        secrets.add_index(BY_ACCOUNT, _account)
        self._secrets = self.follow(secrets, lambda secret: (key_of(secret),) if is_token(secret) else ())
        self._accounts = self.follow(deps.informers.of(SERVICE_ACCOUNTS), self._concerned)

    def _concerned(self, account: Mapping[str, Any]) -> Iterable[Key]:
        return [key_of(secret) for secret in self._secrets.indexed(BY_ACCOUNT, str(key_of(account)))]

    async def reconcile(self, key: Key) -> Requeue | None:
        secret = self._secrets.get(*key)
        if secret is None or not is_token(secret) or self._sign is None:
            return None
        account = await self._account_of(secret, key.namespace)
        try:
            if account is None:
                await self.client.delete(SECRETS, key.name, key.namespace, uid=uid_of(secret))
            else:
                await self._fill(secret, account, key)
        except (NotFound, Conflict):
            pass  # another version of it is on its way here
        return None

    async def _account_of(self, secret: Object, namespace: str) -> Object | None:
        """The account, if it is still the one the secret was made for."""
        name, uid = annotations_of(secret)[ACCOUNT], annotations_of(secret).get(ACCOUNT_UID, "")
        account = self._accounts.get(namespace, name)
        if account is None:
            try:
                account = await self.client.get(SERVICE_ACCOUNTS, name, namespace)
            except NotFound:
                return None
        return account if not uid or uid == uid_of(account) else None

    async def _fill(self, secret: Object, account: Object, key: Key) -> None:
        data = decide(secret, key.namespace, self._root_ca)
        if not data or self._sign is None:
            return
        if "token" in data:
            data["token"] = _encode(self._sign(account, secret))
        annotations = {ACCOUNT: account["metadata"]["name"], ACCOUNT_UID: uid_of(account)}
        metadata = {"resourceVersion": secret["metadata"]["resourceVersion"], "annotations": annotations}
        await self.client.patch(SECRETS, key.name, {"metadata": metadata, "data": data}, key.namespace)


def _account(secret: Mapping[str, Any]) -> Iterable[str]:
    if not is_token(secret):
        return ()
    return (f"{secret['metadata']['namespace']}/{annotations_of(secret)[ACCOUNT]}",)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
