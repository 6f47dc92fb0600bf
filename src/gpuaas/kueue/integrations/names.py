"""Names of workloads, as upstream makes them: kind, job name, and a hash that tells jobs of one name apart."""

import hashlib

_HASH = 5
_LONGEST = 253 - 1 - _HASH


def workload_name(kind: str, group: str, name: str, uid: str, extra: str = "") -> str:
    """`extra` tells several of one job apart."""
    parts = (kind, group, name, uid, extra) if extra else (kind, group, name, uid)
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    return f"{kind.lower()}-{name}"[:_LONGEST] + f"-{digest[:_HASH]}"
