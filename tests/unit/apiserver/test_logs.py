"""Logs are sent no faster than the client takes them."""

import asyncio
from collections.abc import AsyncIterator

from gpuaas.apiserver.http import StreamWriter
from gpuaas.apiserver.logs import _pump
from gpuaas.testing.time import scenario


class Slow(StreamWriter):
    """A client whose buffers are full after each piece."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.taken.append(data)
        assert self.on_pause is not None
        self.on_pause()

    def close(self) -> None:
        self.closed = True


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@scenario
async def test_no_piece_is_made_while_the_clients_buffers_are_full() -> None:
    made = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal made
        while made < 3:
            made += 1
            yield b"piece"

    writer = Slow()
    _pump(writer, pieces())
    for expected in (1, 2, 3):
        await settle()
        assert (made, len(writer.taken)) == (expected, expected)
        assert not writer.closed
        assert writer.on_resume is not None
        writer.on_resume()
    await settle()
    assert writer.closed


@scenario
async def test_a_client_that_has_gone_while_its_buffers_were_full_ends_the_reading() -> None:
    ended = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"piece"
        finally:
            ended.set()

    gone = _pump(Slow(), pieces())
    await settle()
    gone()
    await asyncio.wait_for(ended.wait(), 5)
