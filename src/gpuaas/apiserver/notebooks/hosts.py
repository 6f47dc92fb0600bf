"""The host name of a notebook's own origin, below `localhost`, which browsers resolve to this machine without set-up.

`NAME--NAMESPACE.localhost`, with the cluster's name behind it where it is not the first. A name that would be ambiguous or
too long for one label of the DNS is replaced by a digest. The cookie says which notebook is meant, the host only keeps the
origins apart, so a name is never read back.
"""

from __future__ import annotations

import hashlib
from typing import Final

SUFFIX: Final = ".localhost"
_LONGEST: Final = 63  # characters of a label


def host_of(cluster: str, namespace: str, name: str, *, is_first: bool) -> str:
    parts = (name, namespace) if is_first else (name, namespace, cluster)
    label = "--".join(parts)
    plain = len(label) <= _LONGEST and not any("--" in part or "." in part or part[-1:] == "-" for part in parts)
    if not plain:
        digest = hashlib.sha256(f"{cluster}/{namespace}/{name}".encode()).hexdigest()
        label = f"nb-{digest[:40]}"
    return f"{label}{SUFFIX}"


def host_name(host: bytes) -> str:
    """Of a Host header or an origin's authority, without the port, in lower case."""
    return host.decode("latin-1").rpartition("@")[2].partition(":")[0].lower().rstrip(".")


def is_notebook_origin(origin: bytes) -> bool:
    """Whether a page of some notebook says this: tenants' code, which no other part of the server listens to."""
    return host_name(origin.partition(b"://")[2]).endswith(SUFFIX)
