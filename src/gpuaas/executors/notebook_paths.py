"""Where a notebook on this machine keeps its files, and the socket its server listens on.

A notebook's pod is replaced at every start, its folder is not: without a working directory of its own it works in a folder
named after the notebook, which stays when the notebook stops, or is deleted. Its server listens on a Unix socket, which
needs no free port, is reached by the owner of the folder alone, and has the same name after a restart of gpuaas.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpuaas.base.names import is_dns1123_label, is_dns1123_subdomain

LABEL: Final = "notebook-name"
_LONGEST: Final = 107  # bytes of a socket's address on Linux, without its NUL
_HEX: Final = 24  # letters that name a pod's socket


class NoPlace(Exception):
    """No folder for sockets can be had; the text says why."""


@dataclass(frozen=True, slots=True)
class NotebookPaths:
    folder: Path
    sockets: Path

    def variables(self, pod: Mapping[str, Any]) -> dict[str, str]:
        """Variables of a notebook's process: its socket, and the Python that runs gpuaas, which may have Jupyter."""
        if not _name(pod):
            return {}
        return {"NB_SOCKET": str(self.socket(pod["metadata"]["uid"])), "NB_PYTHON": sys.executable}

    def work_folder(self, pod: Mapping[str, Any]) -> Path | None:
        """None for a pod that is no notebook's."""
        name = _name(pod)
        if not name:
            return None
        with contextlib.suppress(OSError):  # who uses it finds out
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.parent.chmod(0o700)
        namespace: str = pod["metadata"]["namespace"]
        return self.folder / namespace / name

    def forget(self, pod_uid: str) -> None:
        """The pod is gone: nothing listens on its socket any more."""
        with contextlib.suppress(OSError):
            self.socket(pod_uid).unlink(missing_ok=True)

    def socket(self, pod_uid: str) -> Path:
        return self.sockets / f"{hashlib.sha256(pod_uid.encode()).hexdigest()[:_HEX]}.sock"


def paths_in(home: Path, cluster: str) -> NotebookPaths:
    """Makes the folder of sockets: in the home, or where its path is too long for a socket, in the one for temporary
    files, as long as that belongs to this user alone."""
    sockets = home / "sockets"
    if len(os.fsencode(sockets)) + _HEX + len("/.sock") > _LONGEST:
        mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
        sockets = Path(tempfile.gettempdir()) / f"gpuaas-{os.getuid()}-{mark}"
    try:
        sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = sockets.lstat()
    except OSError as error:
        raise NoPlace(f"{sockets}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NoPlace(f"{sockets} is not a folder of this user alone")
    return NotebookPaths(home / "notebooks" / cluster, sockets)


def _name(pod: Mapping[str, Any]) -> str:
    name = str((pod["metadata"].get("labels") or {}).get(LABEL) or "")
    namespace = pod["metadata"].get("namespace") or ""
    return name if name and not is_dns1123_subdomain(name) and not is_dns1123_label(namespace) else ""
