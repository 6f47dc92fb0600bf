"""What the server and the keeper of its gate tell each other: frames over one pair of sockets.

A frame says whose connection it is about, what, and carries bytes. Nothing here of HTTP; the keeper (`keeper.py`) has the
sockets and TLS, the server's end (`inside.py`) makes transports of the frames.
"""

import asyncio
import struct
from typing import Final, cast

HEAD: Final = struct.Struct("<IBI")  # whose, what about, how many bytes follow

DATA: Final = 0  # both ways: what the client sent, or is to get

# From the keeper.
LISTENS: Final = 1
OPENED: Final = 2  # a new connection; the bytes are the certificate its client showed
TAKEN: Final = 3  # how many bytes of the connection's data have found room
GONE: Final = 4

# From the server.
SHARED: Final = 5  # data for several connections: "whose" is how many, their numbers come before the data
CLOSE: Final = 6  # once all data is out
ABORT: Final = 7
HOLD: Final = 8  # read no more from it
GO_ON: Final = 9
STOP: Final = 10  # let nobody in any more

COUNT: Final = struct.Struct("<I")
LONGEST: Final = 64 * 1024  # data for a client in one frame, and what may wait for it in the keeper's buffer
_ROOM: Final = 4 * LONGEST  # for a frame, and more of them at once
TELL_AFTER: Final = 32 * 1024  # bytes that found room before the server is told


class Frames(asyncio.BufferedProtocol):
    """One end of the pair."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(_ROOM))  # read into, without a copy for every reading
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._filled = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        buffer, head = self._buffer, HEAD.size
        at, end = 0, self._filled + nbytes
        while at + head <= end:
            whose, about, size = HEAD.unpack_from(buffer, at)
            begin = at + head
            if begin + size > end:
                break
            at = begin + size
            self.frame(whose, about, bytes(buffer[begin:at]))
        self._filled = end - at
        if self._filled and at:
            buffer[: self._filled] = buffer[at:end]

    def tell(self, whose: int, about: int, data: bytes = b"") -> None:
        """Data may be longer than one frame can be."""
        if len(data) <= LONGEST:
            self.transport.write(HEAD.pack(whose, about, len(data)) + data)
            return
        for begin in range(0, len(data), LONGEST):
            self.tell(whose, about, data[begin : begin + LONGEST])

    def frame(self, whose: int, about: int, data: bytes) -> None:
        raise NotImplementedError
