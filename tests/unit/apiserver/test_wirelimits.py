from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpuaas.apiserver.wirelimits import MAX_BODY, UNKNOWN_BODY, Body, FrameAllowance, admit, is_field, is_host


def known() -> bool:
    return True


@pytest.mark.parametrize("pieces", [[], [b"ab"], [b"a", b"b"], [b"x"] * 1000, [b"", b"a", b"", b"b"]])
def test_a_body_is_what_its_pieces_are(pieces: list[bytes]) -> None:
    body = Body()
    for piece in pieces:
        body.add(piece, known)
    assert (body.size, body.kept) == (len(b"".join(pieces)),) * 2
    assert body.take() == b"".join(pieces)


@pytest.mark.parametrize(
    ("size", "is_known", "kept"),
    [
        (UNKNOWN_BODY, False, True),
        (UNKNOWN_BODY + 1, False, False),
        (UNKNOWN_BODY + 1, True, True),
        (MAX_BODY, True, True),
        (MAX_BODY + 1, True, False),
    ],
)
def test_a_long_body_is_kept_of_those_who_are_known(size: int, is_known: bool, kept: bool) -> None:
    asked: list[None] = []

    def authenticates() -> bool:
        asked.append(None)
        return is_known

    for pieces in ([size], [1, size - 1], [size - 1, 1]):
        body = Body()
        asked.clear()
        for each in pieces:
            body.add(b"x" * each, authenticates)
        assert (body.size, len(body.take())) == (size, size if kept else 0)
        assert len(asked) <= 1, "authentication is asked for once"


def test_many_short_bodies_of_one_unknown_client_are_not_kept_either() -> None:
    body = Body()
    body.add(b"x" * 100, lambda: False, others=UNKNOWN_BODY)
    assert (body.size, body.take()) == (100, b"")


def test_frames_that_ask_for_nothing_come_out_of_an_allowance() -> None:
    allowance = FrameAllowance(0.0)
    assert all(allowance.spend(0.0, 0) for _ in range(2000))
    assert not allowance.spend(0.0, 0)
    allowance = FrameAllowance(0.0)
    assert all(allowance.spend(n / 500, 0) for n in range(100_000)), "500 a second are always allowed"
    allowance = FrameAllowance(0.0)
    assert all(allowance.spend(0.0, n * 1024) for n in range(100_000)), "and some for what was sent"


@dataclass(eq=False)
class Connection:
    waits_since: float
    replaceable: bool = True
    aborted: bool = False

    def abort(self) -> None:
        self.aborted = True


def test_a_connection_that_is_silent_for_longest_makes_room() -> None:
    old, older, busy, new = Connection(2), Connection(1), Connection(0, replaceable=False), Connection(9)
    connections = {old, older, busy}
    assert admit(connections, new, 3)
    assert connections == {old, busy, new}
    assert [each.aborted for each in (old, older, busy)] == [False, True, False]


def test_where_all_are_in_use_no_more_are_taken() -> None:
    connections = {Connection(0, replaceable=False), Connection(1, replaceable=False)}
    assert not admit(connections, Connection(9), 2)
    assert len(connections) == 2


@pytest.mark.parametrize("value", [b"localhost", b"a.b:6443", b"[::1]:80", b"", b"10.0.0.1"])
def test_a_host(value: bytes) -> None:
    assert is_host(value)


@pytest.mark.parametrize("value", [b"a\nb", b"a b", b"a/b", b"a,b", b"a@b", b"a\tb"])
def test_no_host(value: bytes) -> None:
    assert not is_host(value)


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [(b"x-y", b"a b\tc\xff", True), (b"X", b"", False), (b"", b"", False), (b"x\n", b"", False), (b"x", b"a\n", False), (b"x", b"\x7f", False)],
)  # fmt: skip
def test_a_field(name: bytes, value: bytes, good: bool) -> None:
    assert is_field(name, value) is good
