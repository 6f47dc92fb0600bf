"""Calls of webhooks by their URL: one POST, its answer as bytes, and what went wrong in the words of Go programs.

What is asked, and what an answer means, is decided in module webhook_retry.
"""

import base64
import ssl
from functools import lru_cache
from typing import Final

from gpuaas.client.connection import Pool

_HEADERS: Final = (("Content-Type", "application/json"), ("Accept", "application/json, */*"))
_LONGEST: Final = 3 * 1024 * 1024  # bytes of an answer


class Refused(Exception):
    """An answer that is none."""


async def post(url: str, authority: str, target: str, body: bytes) -> bytes:
    """`authority`: who vouches for the server, as its definition holds it; raises OSError, ValueError or Refused."""
    response = await _pool(url, authority).request("POST", target, _HEADERS, body)
    read = bytearray()  # it may come in many small pieces
    async for piece in response.chunks():
        read += piece
        if len(read) > _LONGEST:
            raise Refused("the answer is too long")
    if not 200 <= response.status <= 206:
        words = read[:2048].decode(errors="replace").strip() or "unknown"
        if response.status == 404:
            raise Refused("the server could not find the requested resource")
        raise Refused(f'an error on the server ("{words}") has prevented the request from succeeding')
    return bytes(read)


def words(url: str, authority: str, error: Exception) -> str:
    """As a Go program says it, where that can be known: people search for these."""
    match error:
        case TimeoutError():
            return "context deadline exceeded"
        case ConnectionRefusedError():
            return f"dial tcp {_pool(url, authority).address}: connect: connection refused"
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: {error.verify_message}"
    return str(error)


@lru_cache(maxsize=256)
def _pool(url: str, authority: str) -> Pool:
    async def context() -> ssl.SSLContext:
        trusted = base64.b64decode(authority).decode("latin-1") if authority else None
        return ssl.create_default_context(cadata=trusted)

    return Pool(url, context)
