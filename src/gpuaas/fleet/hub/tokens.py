"""Tokens of accounts on workers: asked of the worker itself, for a time, and renewed before four fifths of it are over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.clock import parse_rfc3339
from gpuaas.client.protocol import Client
from gpuaas.client.resources import SERVICE_ACCOUNTS
from gpuaas.kueue.configuration.fields import parse_duration

SECONDS: Final = 8640 * 3600
_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    expires: str  # RFC 3339; some servers shorten what was asked for


async def request_token(client: Client, name: str, namespace: str, seconds: int = SECONDS) -> Token:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {},
        "spec": {"expirationSeconds": seconds},
    }
    answer = await client.create(SERVICE_ACCOUNTS, body, namespace, name=name, subresource="token")
    return Token(answer["status"]["token"], answer["status"]["expirationTimestamp"])


def seconds_left(refreshed: str, expires: str, now: float) -> float:
    """Until the token is due to be renewed; 0 where it is due, or its times cannot be read."""
    try:
        start, end = parse_rfc3339(refreshed), parse_rfc3339(expires)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, start + (end - start) * _SHARE - now)


def validity_of(account: Mapping[str, Any]) -> int:
    """The seconds that a ManagedServiceAccount asks for."""
    text = str((((account.get("spec") or {}).get("rotation")) or {}).get("validity") or "")
    found = parse_duration(text)
    return max(600, int(found)) if found else SECONDS
