"""Gzip for long answers, where the client takes it: level 1, because lists shrink tenfold even so."""

import zlib
from collections.abc import Mapping

_WORTH_IT = 128 * 1024
_GZIP = 16 + zlib.MAX_WBITS


def compressed(body: bytes, headers: Mapping[bytes, bytes]) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    if len(body) < _WORTH_IT or b"gzip" not in headers.get(b"accept-encoding", b""):
        return body, ()
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush(), ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
