"""The hub's side of its Lease on one worker: made, agreed on when a connection stands, renewed while it does."""

from gpuaas.base.clock import Clock, rfc3339_micro
from gpuaas.base.errors import AlreadyExists, Forbidden, MethodNotAllowed, NotFound
from gpuaas.client.protocol import Client, Object
from gpuaas.client.resources import LEASES
from gpuaas.kueue.multikueue import leases

_LOOKS, _BETWEEN = 15, 0.2
_TWICE = 2


class LeaseRenewal:
    def __init__(self, client: Client, clock: Clock, namespace: str, name: str, hub: str, lost_timeout: float) -> None:
        self.name = name
        self.every = leases.every(lost_timeout)
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._hub = hub
        self._duration = leases.duration_of(lost_timeout)

    async def agree(self) -> bool:
        """Whether the worker watches the Lease, and what depends on it may run from now on. A worker that issues no token
        (upstream Kueue, or a role without leases) is not one that stops anything."""
        try:
            lease = await self._made()
            for _ in range(_TWICE):  # a token from before a long silence is answered by a new one
                token = await self._token(lease)
                if not token:
                    return False
                lease = await self._echo(token)
        except (Forbidden, NotFound, MethodNotAllowed):
            return False
        return True

    async def renew(self) -> None:
        lease = await self._client.get(LEASES, self.name, self._namespace)
        await self._echo(leases.token_of(lease))

    async def _made(self) -> Object:
        try:
            return await self._client.get(LEASES, self.name, self._namespace)
        except NotFound:
            pass
        made = leases.new_lease(self.name, self._namespace, self._hub, self._duration)
        try:
            return await self._client.create(LEASES, made, self._namespace)
        except AlreadyExists:
            return await self._client.get(LEASES, self.name, self._namespace)

    async def _token(self, lease: Object) -> str:
        """One that was not echoed yet; empty if none comes."""
        for _ in range(_LOOKS):
            token = leases.token_of(lease)
            if token and token != leases.echo_of(lease):
                return token
            await self._clock.sleep(_BETWEEN)
            lease = await self._client.get(LEASES, self.name, self._namespace)
        return ""

    async def _echo(self, token: str) -> Object:
        patch = {
            "metadata": {"annotations": {leases.ECHO: token}},
            "spec": {
                "leaseDurationSeconds": self._duration,
                "renewTime": rfc3339_micro(self._clock.now()),
            },
        }
        return await self._client.patch(LEASES, self.name, patch, self._namespace)
