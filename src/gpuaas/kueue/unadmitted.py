"""Why a workload is not admitted, in finer words than upstream's own: behind the gate UnadmittedWorkloadsObservability.

With it the reason of the condition QuotaReserved says what stands in the way, and Admitted says False from the start;
with UnadmittedWorkloadsExplicitStatus both are there before anybody has looked at the workload. Without the gates
nothing here is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuaas.engine.lifecycle import Flag, WorkloadState
from gpuaas.engine.lifecycle import is_true as holds
from gpuaas.engine.reasons import Token
from gpuaas.engine.values import Millis
from gpuaas.kueue.workload_state import conditions_of, is_true

View = Mapping[str, Any]
Said = tuple[str, str]
"""Reason and message."""

MISCONFIGURED, SUSPENDED, NOT_LOOKED_AT = "Misconfigured", "Suspended", "PendingEvaluation"
DEACTIVATED = ("Deactivated", "The workload is deactivated")
WAITS_FOR_A_LOOK = (NOT_LOOKED_AT, "Workload is pending evaluation in the scheduling queue")
_PASSED_OVER = "Bypassed scheduling evaluation because an equivalent workload recently failed"
_FINER = {Token.NAMESPACE_MISMATCH: MISCONFIGURED}
_OF_THE_SCHEDULER = frozenset(
    {"WaitingForQuota", "NoMatchingFlavor", "ExceedsMaxQuota", "TopologyPlacementFailed",
     "WaitingForPreemptedWorkloads", "WaitingForPodsReady", NOT_LOOKED_AT}
)  # fmt: skip
_ASKS_FOR_ALIKE = frozenset({"Deactivated", NOT_LOOKED_AT, SUSPENDED, "Pending", ""})


def reason_of(token: Token) -> str:
    """Upstream's name for a token."""
    return _FINER.get(token, token.value)


def why_unreserved(workload: View, blocked: Said | None, alike: str, *, explicit: bool) -> Said | None:
    """What QuotaReserved should say; None: nothing yet. `blocked` is what keeps it from being looked at at all, `alike`
    the reason for which one just like it was passed over."""
    said = conditions_of(workload).get("QuotaReserved")
    reason = None if said is None else str(said.get("reason", ""))
    if not (workload.get("spec") or {}).get("active", True):
        return DEACTIVATED
    if said is not None and reason in ("OnHold", "AdmissionGated"):
        return str(reason), str(said.get("message", ""))
    if blocked is not None:
        return blocked
    if alike and (explicit if reason is None else reason in _ASKS_FOR_ALIKE):
        return alike, _PASSED_OVER
    if said is not None and reason in _OF_THE_SCHEDULER:
        return str(reason), str(said.get("message", ""))
    return None if said is None and not explicit else WAITS_FOR_A_LOOK


def explained(state: WorkloadState, now: Millis, *, explicit: bool) -> WorkloadState:
    """With an Admitted condition that says why not."""
    if holds(state.admitted) or (state.reserved is None and state.admitted is None and not explicit):
        return state
    if not holds(state.reserved):
        reason, message = "NoReservation", "The workload has no reservation"
    elif any(check.state != "Ready" for check in state.checks):
        reason, message = "UnsatisfiedAdmissionChecks", "The workload has not all checks ready"
    elif state.topology_pending:
        reason, message = "PendingDelayedTopologyRequests", "There are pending delayed topology requests"
    else:
        return state  # it will be admitted in a moment
    known = state.admitted
    if known is not None and (known.reason, known.message) == (reason, message):
        return state
    return replace(state, admitted=Flag(False, reason, message, now if known is None else known.since))


def standing(workload: View) -> Said | None:
    """Reason and cause by which one that is not admitted counts; None for one that is, is done, or is going."""
    conditions = conditions_of(workload)
    if is_true(conditions.get("Admitted")) or is_true(conditions.get("Finished")):
        return None
    if workload["metadata"].get("deletionTimestamp"):
        return None
    admitted, reserved = conditions.get("Admitted"), conditions.get("QuotaReserved")
    reason = "NoReservation" if admitted is None else str(admitted.get("reason", ""))
    if reserved is None:
        return reason, NOT_LOOKED_AT
    return reason, "" if is_true(reserved) else str(reserved.get("reason", ""))
