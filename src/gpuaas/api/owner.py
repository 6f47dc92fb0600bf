"""The owner of a workload: the user who created it, in the annotation `gpuaas.dev/owner`.

An annotation, not a label: user names such as `system:serviceaccount:team-a:ci` and `ann@example.com` are no label
values. The API server sets it (apiserver's module owners); on a cluster without ours it is read where it is set.
"""

from collections.abc import Mapping
from typing import Any, Final

OWNER: Final = "gpuaas.dev/owner"


def owner_named(obj: Mapping[str, Any]) -> str:
    """The user's name; "" where the object does not say."""
    return (obj["metadata"].get("annotations") or {}).get(OWNER) or ""
