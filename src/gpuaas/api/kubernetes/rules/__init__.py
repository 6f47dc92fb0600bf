"""What built-in kinds default, prepare and refuse: one behaviour for each kind that has rules of its own."""

from collections.abc import Mapping
from typing import Final

from gpuaas.api.kinds import Behaviour

_BEHAVIOURS: Final[Mapping[tuple[str, str], Behaviour]] = {}


def behaviour_of(group: str, kind: str) -> Behaviour | None:
    """The rules of a kind; None when it has none of its own."""
    return _BEHAVIOURS.get((group, kind))
