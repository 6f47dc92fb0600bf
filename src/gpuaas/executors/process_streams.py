"""exec, attach and port-forward for the processes of this machine.

A forwarded port is one on which a process of the pod itself listens: any other port of this machine is another tenant's,
or the control plane's own, and is not reached through a pod.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuaas.base.errors import BadRequest
from gpuaas.executors import supervisor
from gpuaas.executors.beside import Beside
from gpuaas.executors.process_logs import ProcessLines
from gpuaas.executors.processes import NotRecorded, Process
from gpuaas.executors.streams import FromNow, Written

if TYPE_CHECKING:
    from gpuaas.executors.process import ProcessKubelet

View = Mapping[str, Any]
_LISTENS: Final = "0A"  # the state of a listening socket in /proc/net/tcp
_HERE: Final = {"tcp": ("0100007F", "00000000"), "tcp6": ("0" * 24 + "01000000", "0" * 32)}
_SOCKET: Final = re.compile(r"socket:\[([0-9]+)\]")
_CONNECT: Final = 5.0  # seconds
_PIECE: Final = 64 * 1024


class ProcessStreams:
    def __init__(self, kubelet: ProcessKubelet, lines: ProcessLines) -> None:
        self._kubelet = kubelet
        self._lines = lines

    async def exec(self, pod: View, container: str, words: Sequence[str], *, tty: bool, stdin: bool) -> Beside:
        from gpuaas.executors.process import Refused

        spec = next(each for each in pod["spec"]["containers"] if each["name"] == container)
        folder = self._kubelet.folder_of(pod) / container
        if not Process(folder).is_alive():
            raise BadRequest(f'container "{container}" of pod "{pod["metadata"]["name"]}" has ended')
        try:
            command = await self._kubelet.surroundings(dict(pod), spec, words)
        except (Refused, NotRecorded) as error:
            raise BadRequest(str(error)) from None
        return Beside(command, folder, terminal=tty, stdin=stdin)

    async def attach(self, pod: View, container: str, *, tty: bool, stdin: bool) -> Written:
        said = ""
        if stdin:
            said = f"gpuaas: the standard input of container {container} is closed, so nothing can be typed into it; "
            said += "this shows its output from now on\n"
        return Written(_first(said if tty else "", self._lines.read(pod, container, FromNow(container))), said.encode())

    async def dial(self, pod: View, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        folder = self._kubelet.folder_of(pod)
        roots = [pid for one in pod["spec"]["containers"] if (pid := Process(folder / one["name"]).pid())]
        host = await asyncio.to_thread(_listens, roots, port)
        if not host:
            raise BadRequest(f'no process of pod "{pod["metadata"]["name"]}" listens on this port of 127.0.0.1')
        async with asyncio.timeout(_CONNECT):
            return await asyncio.open_connection(host, port, limit=_PIECE)


async def _first(words: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if words:
        yield words.encode()
    async for piece in pieces:
        yield piece


def _listens(roots: Sequence[int], port: int) -> str:
    """The loopback address at which one of these processes, or one below them, listens on the port; "" where none does."""
    addresses = _listeners(port)
    if not addresses:
        return ""
    for pid in {*roots, *supervisor.below(roots, supervisor.parents())}:
        try:
            descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                found = _SOCKET.fullmatch(str(descriptor.readlink()))
            except OSError:
                continue
            if found is not None and found[1] in addresses:
                return addresses[found[1]]
    return ""


def _listeners(port: int) -> dict[str, str]:
    """The sockets that listen on a port of this machine: inode to loopback address."""
    found: dict[str, str] = {}
    for table, hosts in _HERE.items():
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            parts = line.split()
            host, _, number = parts[1].partition(":")
            if parts[3] == _LISTENS and int(number, 16) == port and host in hosts:
                found[parts[9]] = "127.0.0.1" if table == "tcp" else "::1"
    return found
