"""SPDY sessions: the client opens streams, each with headers that say what it is for; every one is answered.

`Opened` decides what a stream is for, and may refuse it. PING is answered, GOAWAY and resets are heeded, and what asks
for nothing is paid for. A client opens streams by rising odd numbers; a connection has `MAX_STREAMS` at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

from gpuaas.apiserver.streaming import spdy_frames as spdy
from gpuaas.apiserver.streaming.duplex import Carried, Link, Stream
from gpuaas.apiserver.streaming.spdy_frames import Data, GoAway, Ping, Reset, SpdyFault, SynStream
from gpuaas.base import websocket_frames as ws
from gpuaas.base.websocket_frames import Piece, SocketFault

MAX_STREAMS: Final = 256


class SpdyStream(Stream):
    def __init__(self, session: SpdySession, link: Link, number: int, headers: Mapping[str, str]) -> None:
        super().__init__(link)
        self._session = session
        self.number = number
        self.headers = headers
        self.is_gone = False  # was reset by the client, or has ended both ways
        self._sent_fin = False

    def send(self, data: bytes) -> None:
        if not self.is_gone and not self._sent_fin:
            self.link.send(spdy.data(self.number, data))

    def end(self) -> None:
        if not self.is_gone and not self._sent_fin:
            self._sent_fin = True
            self.link.send(spdy.data(self.number, b"", fin=True))

    def forget(self) -> None:
        """Nothing more is read of it, and it does not count any more."""
        self.inbox.discard()
        self.is_gone = True
        self._session.drop(self.number)


class SpdySession(Carried):
    def __init__(self) -> None:
        self._decoder = spdy.Decoder()
        self._encoder = spdy.Encoder()
        self._streams: dict[int, SpdyStream] = {}
        self._latest = 0

    def began(self, link: Link) -> None:
        self.link = link

    def received(self, piece: Piece) -> None:
        try:
            for frame in self._decoder.feed(piece.data):
                self._hear(frame)
        except SpdyFault as fault:
            self.link.send(spdy.goaway(self._latest))
            raise SocketFault(ws.PROTOCOL_ERROR, str(fault)) from None

    def _hear(self, frame: spdy.Frame) -> None:
        match frame:
            case Data(number, data, fin):
                self._data(number, data, fin)
            case SynStream(number, headers, fin):
                self._open(number, headers, fin)
            case Ping(number):
                self.link.spend()
                if number % 2:  # even ones would be answers to ours
                    self.link.send(spdy.ping(number))
            case Reset(number):
                self.link.spend()
                stream = self._streams.get(number)
                if stream is not None:
                    stream.forget()
            case GoAway():
                self.link.spend()
            case _:
                self.link.spend()

    def _data(self, number: int, data: bytes, fin: bool) -> None:
        stream = self._streams.get(number)
        if stream is None:
            if number > self._latest or not number % 2:
                raise SpdyFault(f"data for stream {number}, which was never opened")
            self.link.spend()  # of one that is gone, and was on its way
            return
        if len(data) < 2:
            self.link.spend()
        stream.inbox.put(data)
        if fin:
            stream.inbox.end()

    def _open(self, number: int, headers: Mapping[str, str], fin: bool) -> None:
        if number <= self._latest or not number % 2:
            raise SpdyFault(f"stream {number} after stream {self._latest}: a client's are odd, and rise")
        self._latest = number
        self.link.spend()
        stream = SpdyStream(self, self.link, number, headers)
        if len(self._streams) >= MAX_STREAMS or not self.opened(stream):
            self.link.send(spdy.reset(number, spdy.REFUSED_STREAM))
            return
        self._streams[number] = stream
        self.link.send(self._encoder.syn_reply(number))
        if fin:
            stream.inbox.end()
        self.ready(stream)

    def drop(self, number: int) -> None:
        self._streams.pop(number, None)

    @abstractmethod
    def opened(self, stream: SpdyStream) -> bool:
        """Whether it is taken."""

    def ready(self, stream: SpdyStream) -> None:
        """It has been taken, and the client knows that."""

    def probe(self) -> bytes:
        return spdy.ping(2)  # a server's are even

    def lost(self) -> None:
        for stream in tuple(self._streams.values()):
            stream.inbox.end()
