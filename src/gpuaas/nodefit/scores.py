"""Which of the nodes that could take a pod it should get.

The wishes of the pod come first (preferred affinity, taints it would rather avoid). Then cards are packed: a pod that
asks for devices goes where the fewest stay free, so that whole nodes remain for large pods; one that asks for none
stays away from nodes with devices and goes to the emptiest. Equal scores: the first by name.
"""

from gpuaas.nodefit.amounts import CPU, MEMORY, extended, is_extended
from gpuaas.nodefit.book import Ask, Place
from gpuaas.nodefit.constraints import tolerated
from gpuaas.nodefit.neighbours import Neighbourhood

_SCALE = 100


def score(ask: Ask, place: Place, neighbourhood: Neighbourhood | None) -> tuple[int, ...]:
    """Compared from left to right, higher is better."""
    wishes = 3 * -_avoided(ask, place) + 2 * ask.affinity.preference(place.labels, place.name)
    if neighbourhood is not None:
        wishes += 2 * neighbourhood.preference(place)
    siblings = sum(bool(ask.owner) and other.owner == ask.owner for other in place.pods.values())
    if any(map(is_extended, ask.requests)):
        return wishes, _packed(ask, place), _emptiness(ask, place)
    return wishes, -len(extended(place.allocatable)), _emptiness(ask, place) - siblings


def _avoided(ask: Ask, place: Place) -> int:
    tolerations = ask.tolerations
    return sum(
        taint.get("effect") == "PreferNoSchedule" and not tolerated(taint, tolerations) for taint in place.taints
    )


def _packed(ask: Ask, place: Place) -> int:
    """How full the devices asked for would be."""
    shares = [
        (place.used.get(name, 0) + amount) * _SCALE // place.allocatable[name]
        for name, amount in ask.requests.items()
        if is_extended(name) and place.allocatable.get(name)
    ]
    return sum(shares) // len(shares) if shares else 0


def _emptiness(ask: Ask, place: Place) -> int:
    """The mean share of cpu and memory that would stay free."""
    shares = [
        max(place.free(name) - ask.requests.get(name, 0), 0) * _SCALE // place.allocatable[name]
        for name in (CPU, MEMORY)
        if place.allocatable.get(name)
    ]
    return sum(shares) // len(shares) if shares else 0
