"""What the jobs of the story wrote, read and summed up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text()
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # half written
    return found


def first(said: Iterable[dict[str, Any]], key: str) -> Any:
    return next((one[key] for one in said if key in one), None)


def last(said: Sequence[dict[str, Any]], key: str) -> Any:
    return first(reversed(said), key)


def step_times(path: Path, since: float = 0.0, until: float = float("inf")) -> dict[str, Any]:
    """Milliseconds of the steps that were reported in the window."""
    found = sorted(
        time for one in lines(path) if "steps" in one and since <= one["at"] <= until for time in one["steps"]
    )
    if not found:
        return {"steps": 0}
    return {
        "steps": len(found),
        "p50_ms": round(found[len(found) // 2], 3),
        "p99_ms": round(found[min(len(found) - 1, len(found) * 99 // 100)], 3),
        "worst_ms": round(found[-1], 3),
    }
