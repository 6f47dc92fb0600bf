"""Notebooks, put together: the proxy that opens them, and where this machine keeps them."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuaas.apiserver.notebooks.proxy import NotebookProxy
from gpuaas.apiserver.notebooks.sessions import Sessions
from gpuaas.apiserver.notebooks.upstream import NotThere, fetch
from gpuaas.apiserver.security.files import write_private
from gpuaas.assembly.clusters import ClusterParts
from gpuaas.assembly.home import Home
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import Clock
from gpuaas.executors.notebook_paths import NoPlace, NotebookPaths, paths_in

if TYPE_CHECKING:
    from gpuaas.controllers.notebooks.activity import Ask

_log = logging.getLogger("gpuaas")
_KEY_BYTES: Final = 32
_ASK_WITHIN: Final = 10.0  # seconds a notebook's server has to say what it does
_ANSWER_LIMIT: Final = 1024 * 1024  # bytes of that


def machine_paths(home: Home, cluster: str) -> NotebookPaths | None:
    try:
        return paths_in(home.path, cluster)
    except NoPlace as problem:
        _log.warning("notebooks of this machine cannot be opened: %s", problem)
        return None


def make_proxy(
    home: Home, parts: Mapping[str, ClusterParts], trust: Trust, clock: Clock, machine: str
) -> NotebookProxy:
    """`machine`: the cluster whose pods are processes here; "" where there is none."""
    places = machine_paths(home, machine) if machine else None

    def socket_of(cluster: str, uid: str) -> Path | None:
        return places.socket(uid) if places is not None and cluster == machine else None

    clusters = {name: one.cluster for name, one in parts.items()}
    access = {name: one.access for name, one in parts.items()}
    sessions = Sessions(_key(home.path / "notebook-sessions.key"), clock)
    return NotebookProxy(clusters, access, trust.users, sessions, socket_of)


def asking(places: NotebookPaths) -> Ask:
    """Asks a notebook's server for its kernels and terminals, over its socket."""

    async def ask(pod_uid: str, namespace: str, name: str) -> tuple[Any, Any] | None:
        answers = []
        for part in ("kernels", "terminals"):
            try:
                target = f"/notebook/{namespace}/{name}/api/{part}"
                status, body = await fetch(places.socket(pod_uid), target, within=_ASK_WITHIN, limit=_ANSWER_LIMIT)
                if status != 200:
                    return None
                answers.append(json.loads(body))
            except (NotThere, OSError, ValueError, RecursionError):
                return None
        return answers[0], answers[1]

    return ask


def _key(path: Path) -> bytes:
    """Kept, so that notebooks that are open stay open over a restart."""
    try:
        found = path.read_bytes()
    except OSError:
        found = b""
    if len(found) != _KEY_BYTES:
        found = secrets.token_bytes(_KEY_BYTES)
        write_private(path, found)
    return found
