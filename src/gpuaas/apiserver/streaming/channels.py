"""Channels over one WebSocket: the first byte of a message is its channel (`v4.channel.k8s.io`, `v5.channel.k8s.io`).

For a remote command the channels are stdin, stdout, stderr, errors and sizes of the terminal; in version 5 channel 255
closes the channel that its next byte names. For port-forward each port has two, data and errors, which begin with the
port's number.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from gpuaas.apiserver.streaming.duplex import Carried, Link, Stream
from gpuaas.apiserver.streaming.tasks import Work
from gpuaas.base import websocket_frames as ws
from gpuaas.base.websocket_frames import Piece, SocketFault

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
REMOTE_COMMAND: Final = ("stdin", "stdout", "stderr", "error", "resize")
_CLOSE: Final = 255

Serve = Callable[[Mapping[str, Stream]], Coroutine[Any, Any, None]]
"""What is done with the streams; the connection ends when it returns, and it is cancelled when the connection ends."""


class ChannelStream(Stream):
    def __init__(self, link: Link, channel: int) -> None:
        super().__init__(link)
        self._channel = bytes((channel,))

    def send(self, data: bytes) -> None:
        self.link.send(self._channel + data)

    def end(self) -> None:
        """Only the connection as a whole can end."""


class Channels(Carried):
    def __init__(self, names: Sequence[str], serve: Serve, *, closes: bool, greeting: str = "") -> None:
        """`closes`: whether channel 255 closes others. `greeting`: the channel of an empty message at the beginning, from
        which clients know that the streams are open."""
        self._names = names
        self._serve = serve
        self._closes = closes
        self._greeting = greeting
        self._streams: dict[str, ChannelStream] = {}
        self._channel = -1
        self._work = Work()

    def began(self, link: Link) -> None:
        self._link = link
        self._streams = {name: ChannelStream(link, number) for number, name in enumerate(self._names) if name}
        if self._greeting:
            self._streams[self._greeting].send(b"")
        self._work.begin(self._serve(self._streams), link.close)

    def received(self, piece: Piece) -> None:
        data = piece.data
        if piece.first:
            if not data:
                if not piece.last:
                    raise SocketFault(ws.PROTOCOL_ERROR, "a message whose first part is empty")
                return
            self._channel, data = data[0], data[1:]
        if self._channel == _CLOSE and self._closes:
            for number in data:
                self._named(number).inbox.end()
        else:
            self._named(self._channel).inbox.put(data)

    def _named(self, channel: int) -> Stream:
        if channel < len(self._names) and self._names[channel]:
            return self._streams[self._names[channel]]
        raise SocketFault(ws.POLICY, f"there is no channel {channel} here")

    def lost(self) -> None:
        for stream in self._streams.values():
            stream.inbox.end()
        self._work.cancel()
