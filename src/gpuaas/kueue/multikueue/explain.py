"""What a Workload of a hub says about where it went: the cluster that runs it, and the candidates it was weighed against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gpuaas.kueue.multikueue.names import DISPATCH

View = Mapping[str, Any]


def candidates(workload: View) -> list[View]:
    """As the dispatcher noted them; what is not its JSON counts as nothing."""
    text = (workload["metadata"].get("annotations") or {}).get(DISPATCH, "null")
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return []
    listed = found.get("candidates") if isinstance(found, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def dispatch_lines(workload: View) -> Iterator[str]:
    status = workload.get("status") or {}
    cluster, nominated = status.get("clusterName"), status.get("nominatedClusterNames") or ()
    if cluster:
        yield f"it runs on cluster {cluster}"
    elif nominated:
        yield f"it is offered to {', '.join(nominated)}; the first that admits it runs it"
    for each in candidates(workload):
        verb = "was chosen" if each.get("chosen") else "was not chosen"
        yield f"cluster {each.get('cluster')} {verb}: {each.get('reason')}"
