"""The lease between a hub and a worker, by which no workload runs on two clusters at once.

The worker writes a token, its own time, into a Lease; the hub reads it and writes it back as an echo, again and again. What
was sent with that Lease may run until the echoed time and the Lease's duration have passed on the worker's clock; then the
worker stops it. The hub sends the work elsewhere only after the longer `workerLostTimeout`, counted from a loss that lies
after the last token it read. Neither a skewed clock nor a message that arrives late makes the two overlap: a late echo
carries an old token. Only the clocks' rates are assumed to agree, and pods to end within `MARGIN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.kueue.multikueue.names import HUB

Object = dict[str, Any]
View = Mapping[str, Any]

LABEL: Final = "gpuaas.dev/hub-lease"
TOKEN: Final = "gpuaas.dev/lease-token"
ECHO: Final = "gpuaas.dev/lease-echo"
MARGIN: Final = 30.0
"""Seconds that pods may take to end: Kubernetes' default grace period."""
EXPIRED: Final = "HubLeaseExpired"


def lease_name(origin: str, hub: str) -> str:
    return f"gpuaas-hub-{origin.lower()}-{hub[:8]}".rstrip("-")


def duration_of(lost_timeout: float) -> int:
    """How long a worker runs on its own: so that pods have ended before the hub sends the work elsewhere."""
    return max(1, int(lost_timeout - min(MARGIN, lost_timeout / 3)))


def every(lost_timeout: float) -> float:
    """How often the hub renews."""
    return min(10.0, max(0.2, lost_timeout / 10))


def new_lease(name: str, namespace: str, hub: str, duration: int) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, "labels": {LABEL: "true"}, "annotations": {HUB: hub}},
        "spec": {"holderIdentity": hub or name, "leaseDurationSeconds": duration},
    }


def is_lease(lease: View) -> bool:
    return (lease["metadata"].get("labels") or {}).get(LABEL) == "true"


def token_of(lease: View) -> str:
    return str((lease["metadata"].get("annotations") or {}).get(TOKEN, ""))


def echo_of(lease: View) -> str:
    return str((lease["metadata"].get("annotations") or {}).get(ECHO, ""))


def valid_until(lease: View) -> float:
    """On the worker's clock; 0 where nothing valid was ever echoed."""
    try:
        echoed, issued = float(echo_of(lease)), float(token_of(lease))
    except ValueError:
        return 0.0
    if echoed > issued:
        return 0.0  # not one of ours
    return echoed + float((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)
