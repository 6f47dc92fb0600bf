"""Why processes of a pod were ended from outside, kept in the pod's folder from before they are ended.

The exit code of a killed process says nothing. The verdict is written first, so that the pod's status has the reason also
where the control plane is killed in between.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_FILE: Final = "verdict"
_LONGEST: Final = 8192


@dataclass(frozen=True, slots=True)
class Verdict:
    reason: str  # of the container's state and of the pod
    message: str
    returns: bool = False  # the pod is not to blame: its workload is evicted and queues again


def pronounce(folder: Path, verdict: Verdict) -> bool:
    """Whether this is the first for the pod: it stands."""
    if read_verdict(folder) is not None:
        return False
    try:
        draft = folder / f"{_FILE}.new"
        draft.write_text(json.dumps(asdict(verdict)))
        draft.replace(folder / _FILE)
    except OSError:
        return True  # a full disk: it is ended all the same, and its status says less
    return True


def read_verdict(folder: Path) -> Verdict | None:
    try:
        with (folder / _FILE).open("rb") as file:
            said = json.loads(file.read(_LONGEST))
        return Verdict(str(said["reason"]), str(said["message"]), bool(said["returns"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def withdraw(folder: Path) -> None:
    """Before the containers run again."""
    (folder / _FILE).unlink(missing_ok=True)
