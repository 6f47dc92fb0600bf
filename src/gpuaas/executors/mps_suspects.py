"""Who may have caused faults of MPS cards: nothing names the right process, so it is found by running alone. Pure.

A fault ends all pods of its card. After a second one within an hour, those that both faults ended run alone on their
cards, until one of them faults alone: that one was it, and the others are free again. The pod that is alone on a card when it
faults needs no second fault. Pods are known by their controllers, so that the pod made after an eviction is known again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.runtime.metadata import controller_of, uid_of

_HOUR: Final = 3600.0


def suspect_of(pod: Mapping[str, Any]) -> str:
    owner = controller_of(pod)
    return str(owner["uid"]) if owner is not None else uid_of(pod)


class Suspects:
    def __init__(self) -> None:
        self._faults: dict[str, tuple[float, frozenset[str]]] = {}  # by card: when it last faulted, and whom that ended
        self._alone: dict[str, float] = {}  # who runs alone, and until when

    def runs_alone(self, pod: Mapping[str, Any], now: float) -> bool:
        return self._alone.get(suspect_of(pod), 0.0) > now

    def on_fault(self, card: str, ended: Iterable[str], now: float) -> bool:
        """Whether the culprit is known: it was alone on the card."""
        now_ended = frozenset(ended)
        before, those = self._faults.get(card, (-_HOUR, frozenset[str]()))
        if len(now_ended) == 1:
            self._alone.clear()
            self._faults.pop(card, None)
            return True
        if now - before < _HOUR:
            self._alone |= dict.fromkeys(now_ended & those or now_ended, now + _HOUR)
        self._faults[card] = (now, now_ended)
        return False
