"""The change of a node's cards that is under way, kept on the node so that it can be completed or rolled back. Pure.

The annotation `gpuaas.dev/card-change` holds a record for each kind of change (`mig`, `sharing`): its goal, its step, since
when, and what the layouts of the cards were before. It is written together with the cards (one patch), so a control plane
that is killed at any moment finds both as they belong together:

- draining: the cards are closed and the pods on them asked to leave; nothing has changed yet.
- applying: the cards change one after the other, each with a write; `before` has the old layout of those that did.
- reverting: a card could not be changed; those of `before` get their old layouts back, one after the other.
- failed: the cards are open again, as they were; it is not tried again until the goal changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.base.jsontext import read_json

ANNOTATION: Final = "gpuaas.dev/card-change"
DRAINING, APPLYING, REVERTING, FAILED = "draining", "applying", "reverting", "failed"
_STEPS: Final = (DRAINING, APPLYING, REVERTING, FAILED)
_LONGEST: Final = 1 << 18
_LATEST: Final = 253_402_300_799  # the last second of the year 9999
Layout = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    goal: str
    step: str = DRAINING
    since: float = 0.0  # seconds of the wall clock
    before: Mapping[str, Layout | None] = field(default_factory=dict)  # by card; None: MIG was off
    message: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    mig: Change | None = None
    sharing: Change | None = None


NONE: Final = Changes()


def encode(changes: Changes) -> str | None:
    """The text of the annotation; None where nothing is under way."""
    shown = {kind: _shown(one) for kind, one in (("mig", changes.mig), ("sharing", changes.sharing)) if one is not None}
    return json.dumps(shown, separators=(",", ":"), sort_keys=True) if shown else None


def _shown(change: Change) -> dict[str, Any]:
    shown: dict[str, Any] = {"goal": change.goal, "step": change.step, "since": round(change.since, 3)}
    if change.before:
        shown["before"] = {card: None if layout is None else dict(layout) for card, layout in change.before.items()}
    return shown | ({"message": change.message} if change.message else {})


def decode(text: str) -> Changes:
    """What is under way; what cannot be read counts as nothing: the change then begins again."""
    try:
        found = read_json(text, _LONGEST)
    except ValueError:
        return NONE
    if not isinstance(found, dict):
        return NONE
    return Changes(_read(found.get("mig")), _read(found.get("sharing")))


def _read(one: Any) -> Change | None:
    if not isinstance(one, dict) or not isinstance(one.get("goal"), str) or one.get("step") not in _STEPS:
        return None
    since, before = one.get("since"), one.get("before")
    return Change(
        one["goal"],
        one["step"],
        float(since) if isinstance(since, int | float) and 0 <= since <= _LATEST else 0.0,
        {str(card): _layout(layout) for card, layout in before.items()} if isinstance(before, dict) else {},
        str(one.get("message") or ""),
    )


def _layout(found: Any) -> Layout | None:
    if not isinstance(found, dict):
        return None
    return {str(name): count for name, count in found.items() if isinstance(count, int) and 0 < count <= 64}
