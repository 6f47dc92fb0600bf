"""Whether a certificate and its key look like ones: what Go's TLS says of the two texts before it reads them closely.

Only the PEM around them is looked at. Whether the certificate is well made, and whether the key is its own, is not.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from typing import Final

_BLOCK: Final = re.compile(
    rb"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)^-----END \1-----[ \t\r]*$", re.MULTILINE | re.DOTALL
)
_HEADERS: Final = re.compile(rb"\A(?:[^\n:]+:[^\n]*\n)+\r?\n?")


def key_pair_problem(certificate: bytes, key: bytes) -> str:
    """What is wrong with them, in Go's words; nothing if they pass."""
    certificates, keys = list(_types(certificate)), list(_types(key))
    if "CERTIFICATE" not in certificates:
        return _no_certificate(certificates)
    if not any(kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY") for kind in keys):
        return _no_key(keys)
    return ""


def _no_certificate(found: list[str]) -> str:
    if not found:
        return "tls: failed to find any PEM data in certificate input"
    if len(found) == 1 and found[0].endswith("PRIVATE KEY"):
        missing = "tls: failed to find certificate PEM data in certificate input"
        return f"{missing}, but did find a private key; PEM inputs may have been switched"
    return f'tls: failed to find "CERTIFICATE" PEM block in certificate input after {_skipping(found)}'


def _no_key(found: list[str]) -> str:
    if not found:
        return "tls: failed to find any PEM data in key input"
    if found == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after {_skipping(found)}'


def _skipping(found: list[str]) -> str:
    return f"skipping PEM blocks of the following types: [{' '.join(found)}]"


def _types(text: bytes) -> Iterator[str]:
    """Of the blocks that can be read."""
    for block in _BLOCK.finditer(text):
        try:
            b64decode(b"".join(_HEADERS.sub(b"", block[2]).split()), validate=True)
        except Error:
            continue
        yield block[1].decode(errors="replace")
