"""Whose pods a folder holds: each cluster ends and removes only what belongs to pods of its own.

The folder of this machine's pods is named after the cluster, and a home may get another cluster of the same name (a
lost store, a restored backup). A file beside the folder says which cluster (by uid) keeps its pods there, and which of
the pods found there are another cluster's. A pod folder that no pod is known for is removed only if it is not one of
these.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import NamedTuple

_UNKNOWN = "unknown"


class _Claim(NamedTuple):
    cluster: str  # that keeps its pods here; "" where none has yet
    others: dict[str, str]  # pod uid -> the cluster it belongs to


def claim(folder: Path, cluster: str) -> frozenset[str]:
    """Takes the folder for a cluster; the names of the pod folders in it that belong to other clusters."""
    file = folder.with_name(folder.name + ".json")
    before = _read(file)
    present = {one.name for one in folder.iterdir()} if folder.is_dir() else set()
    others = {pod: owner for pod, owner in before.others.items() if pod in present and owner != cluster}
    if before.cluster not in ("", cluster):
        theirs = present - before.others.keys()
        others |= dict.fromkeys(theirs, before.cluster)
    after = _Claim(cluster, others)
    if after != before:
        with contextlib.suppress(OSError):  # a full disk: the claim before stays, by which more belongs to others
            _write(file, after)
    return frozenset(others)


def _read(file: Path) -> _Claim:
    try:
        said = json.loads(file.read_bytes())
        return _Claim(str(said["cluster"]), {str(pod): str(owner) for pod, owner in said["others"].items()})
    except FileNotFoundError:
        return _Claim("", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _Claim(_UNKNOWN, {})  # damaged: the pods that are present may belong to any cluster


def _write(file: Path, made: _Claim) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(file.name + ".new")
    with draft.open("w") as out:
        json.dump(made._asdict(), out)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
