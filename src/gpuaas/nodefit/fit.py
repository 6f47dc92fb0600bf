"""Whether one node takes one pod, and if not, why, in kube-scheduler's words.

The questions are asked in kube-scheduler's order and the first that says no speaks for the node; only missing
resources are all reported. `helped` says whether pods leaving the node could change the answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuaas.nodefit.book import Ask, Place, Port
from gpuaas.nodefit.constraints import UNSCHEDULABLE, tolerated, untolerated
from gpuaas.nodefit.names import PROCESS_CLASS, PROCESS_TAINT
from gpuaas.nodefit.neighbours import Neighbourhood

UNSCHEDULABLE_NODE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
NO_PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"

ONLY_PROCESSES = f"node(s) run only pods of runtime class {PROCESS_CLASS}"


@dataclass(frozen=True, slots=True)
class Refusal:
    reasons: tuple[str, ...]
    helped: bool = False
    detail: str = ""  # the taint that is in the way, for who explains more than kube-scheduler does


def refusal(ask: Ask, place: Place, neighbourhood: Neighbourhood | None) -> Refusal | None:
    tolerations = ask.tolerations
    if place.unschedulable and not tolerated({"key": UNSCHEDULABLE, "effect": "NoSchedule"}, tolerations):
        return Refusal((UNSCHEDULABLE_NODE,))
    taint = untolerated(place.taints, tolerations)
    if taint is not None:
        reason = ONLY_PROCESSES if taint["key"] == PROCESS_TAINT else TAINTED
        return Refusal((reason,), detail=f"{{{taint['key']}: {taint.get('value') or ''}}}")
    if not ask.affinity.selects(place.labels, place.name):
        return Refusal((NOT_SELECTED,))
    if ask.ports and ports_clash(ask.ports, [port for other in place.pods.values() for port in other.ports]):
        return Refusal((NO_PORTS,), helped=True)
    missing = _missing(ask, place)
    if missing is not None:
        return missing
    if neighbourhood is not None:
        found = neighbourhood.refusal(place)
        if found is not None:
            return Refusal((found[0],), helped=found[1])
    return None


def _missing(ask: Ask, place: Place) -> Refusal | None:
    reasons: list[str] = []
    helped = True
    if len(place.pods) + 1 > place.most_pods:
        reasons.append(TOO_MANY_PODS)
    for name, amount in ask.requests.items():
        if amount > place.free(name):
            reasons.append(f"Insufficient {name}")
            helped = helped and amount <= place.allocatable.get(name, 0)
    return Refusal(tuple(reasons), helped) if reasons else None


def ports_clash(wanted: Iterable[Port], taken: Sequence[Port]) -> bool:
    return any(
        number == other
        and protocol == other_protocol
        and (address == other_address or "0.0.0.0" in (address, other_address))
        for address, protocol, number in wanted
        for other_address, other_protocol, other in taken
    )
