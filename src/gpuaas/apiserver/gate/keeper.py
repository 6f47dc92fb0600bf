"""The keeper: accepts clients, speaks TLS with them, and passes their bytes on. A program; the server starts it.

It decides nothing. It ends when the server's end of the pair closes, however the server died, and lets the port go with
it. Interrupts are the server's to answer: they reach the whole process group, and streams are to be ended properly.
"""

import asyncio
import json
import signal
import socket
import ssl
import struct
import sys
from typing import cast

import uvloop

from gpuaas.apiserver.gate.frames import (
    ABORT,
    CLOSE,
    COUNT,
    DATA,
    GO_ON,
    GONE,
    HOLD,
    LISTENS,
    LONGEST,
    OPENED,
    SHARED,
    STOP,
    TAKEN,
    TELL_AFTER,
    Frames,
)
from gpuaas.apiserver.tls import Tls


class Client(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, keeper: "Keeper") -> None:
        self._keeper = keeper
        self._untold = 0  # bytes that found room, of which the server does not know
        self._full = False
        self.held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=LONGEST)
        self.number = self._keeper.let_in(self)
        shown = cast("ssl.SSLObject | None", transport.get_extra_info("ssl_object"))
        certificate = shown.getpeercert(binary_form=True) if shown is not None else None
        self._keeper.tell(self.number, OPENED, certificate or b"")

    def data_received(self, data: bytes) -> None:
        self._keeper.tell(self.number, DATA, data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._keeper.let_out(self)

    def give(self, data: bytes) -> None:
        self.transport.write(data)
        self._untold += len(data)
        if self._untold >= TELL_AFTER and not self._full:
            self._tell_taken()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._tell_taken()

    def _tell_taken(self) -> None:
        self._keeper.tell(self.number, TAKEN, COUNT.pack(self._untold))
        self._untold = 0


class Keeper(Frames):
    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.get_running_loop().create_future()
        self._servers: list[asyncio.Server] = []
        self._clients: dict[int, Client] = {}
        self._last = 0
        self._busy = False  # the server does not read as fast as clients write

    async def listen(self, ports: list[socket.socket], tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        for port in ports:
            self._servers.append(await loop.create_server(lambda: Client(self), sock=port, ssl=tls, backlog=1024))
        self.tell(0, LISTENS)

    def let_in(self, client: Client) -> int:
        self._last += 1
        self._clients[self._last] = client
        if self._busy:
            client.transport.pause_reading()
        return self._last

    def let_out(self, client: Client) -> None:
        del self._clients[client.number]
        self.tell(client.number, GONE)

    def frame(self, whose: int, about: int, data: bytes) -> None:
        if about == SHARED:
            self._share(whose, data)
        elif about == STOP:
            for server in self._servers:
                server.close()
        elif (client := self._clients.get(whose)) is not None:  # else it left while this was under way
            self._one(client, about, data)

    def _share(self, count: int, data: bytes) -> None:
        rest = data[count * COUNT.size :]
        for number in struct.unpack_from(f"<{count}I", data):
            client = self._clients.get(number)
            if client is not None:
                client.give(rest)

    def _one(self, client: Client, about: int, data: bytes) -> None:
        if about == DATA:
            client.give(data)
        elif about == CLOSE:
            client.transport.close()
        elif about == ABORT:
            client.transport.abort()
        elif about == HOLD:
            client.held = True
            client.transport.pause_reading()
        elif about == GO_ON:
            client.held = False
            if not self._busy:
                client.transport.resume_reading()

    def pause_writing(self) -> None:
        self._busy = True
        for client in self._clients.values():
            client.transport.pause_reading()

    def resume_writing(self) -> None:
        self._busy = False
        for client in self._clients.values():
            if not client.held:
                client.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


async def keep(pair: socket.socket, ports: list[socket.socket], tls: ssl.SSLContext | None) -> None:
    keeper = Keeper()
    await asyncio.get_running_loop().create_connection(lambda: keeper, sock=pair)
    await keeper.listen(ports, tls)
    await keeper.ended


def main() -> None:
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.SIG_IGN)
    pair = socket.socket(fileno=int(sys.argv[1]))
    said, ports, _, _ = socket.recv_fds(pair, LONGEST, 16)
    if not said:
        return  # the server ended before it had a port
    files = json.loads(said)
    tls = Tls(*files).context() if files else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(keep(pair, [socket.socket(fileno=port) for port in ports], tls))


if __name__ == "__main__":
    main()
