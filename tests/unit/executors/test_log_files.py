"""Logs of processes: pieces of a file that grows, cut as asked, of which only what a kubelet would keep is kept."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from gpuaas.apiserver.logs import LogOptions
from gpuaas.base.clock import VirtualClock
from gpuaas.executors import log_files
from gpuaas.executors.files import NotRegular, open_log, open_regular
from gpuaas.executors.limits import LogLimits
from gpuaas.executors.log_files import Asked, begin, first_kept, is_too_large, note_size, read_piece, thin_times, trim
from gpuaas.executors.process_logs import LogKeeper, ProcessLines
from gpuaas.testing.time import scenario

LIMITS = LogLimits(max_size=1 << 20, max_files=3)
WIDE = LogLimits()


def read(folder: Path, asked: Asked, limits: LogLimits = WIDE, now: float = 100.0) -> bytes:
    position = begin(folder, asked, limits, now)
    pieces = []
    while log_files.has_more(folder, position) and (piece := read_piece(folder, position, limits, now)):
        pieces.append(piece)
    return b"".join(pieces)


def ended(folder: Path) -> None:
    (folder / "exit").write_text("0\n")


@given(
    lines=some.lists(some.binary(max_size=12).map(lambda line: line.replace(b"\n", b" ")), max_size=30),
    noted=some.lists(some.integers(1, 300), max_size=4),
    whole=some.booleans(),
    over=some.booleans(),
    tail=some.none() | some.integers(0, 8),
    since=some.none() | some.integers(0, 6),
    timestamps=some.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_log_in_pieces_is_the_log_line_by_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[bytes],
    noted: list[int],
    whole: bool,
    over: bool,
    tail: int | None,
    since: int | None,
    timestamps: bool,
) -> None:
    """Against the plainest way to do it, with pieces of 16 bytes; no line is longer than that."""
    monkeypatch.setattr(log_files, "PIECE", 16)
    for name in ("log", "times", "exit"):
        (tmp_path / name).unlink(missing_ok=True)
    text = b"\n".join(lines) + (b"\n" if whole and lines else b"")
    (tmp_path / "log").write_bytes(text)
    offsets = sorted({offset for offset in noted if offset < len(text)})
    (tmp_path / "times").write_text("".join(f"{offset} {number}\n" for number, offset in enumerate(offsets, 1)))
    if over:
        ended(tmp_path)

    expected, at = [], 0
    for line in text.splitlines(keepends=True) if b"\r" not in text else text.split(b"\n"):
        line = line.removesuffix(b"\n")
        complete = text[at + len(line) : at + len(line) + 1] == b"\n"
        if (complete or over) and at < len(text):
            seen = next((float(n) for n, offset in enumerate(offsets, 1) if offset > at), 100.0)
            expected.append((seen, line))
        at += len(line) + 1
    if since is not None:
        expected = [one for one in expected if one[0] >= since]
    if tail is not None:
        expected = expected[max(0, len(expected) - tail) :]
    shown = [(log_files._moment(seen) if timestamps else b"") + line + b"\n" for seen, line in expected]
    asked = Asked(tail, None if since is None else float(since), timestamps)
    assert read(tmp_path, asked) == b"".join(shown)


def test_a_line_that_is_still_written_is_not_shown_until_it_is_whole_or_the_process_has_ended(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntw")
    assert read(tmp_path, Asked()) == b"one\n"
    assert read(tmp_path, Asked(tail=1)) == b"one\n"
    ended(tmp_path)
    assert read(tmp_path, Asked()) == b"one\ntw\n"
    assert read(tmp_path, Asked(tail=1)) == b"tw\n"


def test_a_very_long_line_comes_in_pieces(tmp_path: Path) -> None:
    text = b"x" * 1_000_000
    (tmp_path / "log").write_bytes(text)
    shown = read(tmp_path, Asked())
    assert text.startswith(shown)
    assert len(shown) > len(text) - log_files.PIECE, "the rest may become a whole line yet"
    ended(tmp_path)
    assert read(tmp_path, Asked(timestamps=True)).endswith(b"Z " + text + b"\n")


def test_a_log_keeps_its_newest_output_and_readers_agree_before_and_after_it_is_trimmed(tmp_path: Path) -> None:
    lines = [b"%09d\n" % number for number in range(700_000)]  # 7 MB
    (tmp_path / "log").write_bytes(b"".join(lines))
    ended(tmp_path)
    assert first_kept(7_000_000, LIMITS) == 4 << 20
    before = read(tmp_path, Asked(), LIMITS)
    assert before == b"".join(lines[(4 << 20) // 10 + 1 :])
    assert is_too_large(tmp_path, LIMITS)
    if not trim(tmp_path, LIMITS):
        pytest.skip("this file system cannot punch holes")
    assert not is_too_large(tmp_path, LIMITS)
    assert read(tmp_path, Asked(), LIMITS) == before
    assert read(tmp_path, Asked(tail=2), LIMITS) == b"".join(lines[-2:])
    assert (tmp_path / "log").stat().st_size == 7_000_000, "who appends to it goes on where it was"


def test_a_reader_that_is_slower_than_the_log_goes_on_with_what_is_kept(tmp_path: Path) -> None:
    line = b"%09d\n"
    (tmp_path / "log").write_bytes(b"".join(line % number for number in range(100_000)))
    position = begin(tmp_path, Asked(follow=True), LIMITS, 0.0)
    assert read_piece(tmp_path, position, LIMITS, 0.0).startswith(line % 0)
    with (tmp_path / "log").open("ab") as log:
        log.write(b"".join(line % number for number in range(100_000, 700_000)))
    trim(tmp_path, LIMITS)
    rest = b""
    while log_files.has_more(tmp_path, position):
        rest += read_piece(tmp_path, position, LIMITS, 0.0)
    assert rest == b"".join(line % number for number in range((4 << 20) // 10 + 1, 700_000))


def test_a_log_that_was_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo\n")
    position = begin(tmp_path, Asked(follow=True), WIDE, 0.0)
    assert read_piece(tmp_path, position, WIDE, 0.0) == b"one\ntwo\n"
    (tmp_path / "log").write_bytes(b"new\n")
    assert read_piece(tmp_path, position, WIDE, 0.0) == b"new\n"


def replaced(folder: Path, kind: str, name: str = "log") -> None:
    (folder / "elsewhere").write_text("a secret\n")
    match kind:
        case "fifo":
            os.mkfifo(folder / name)
        case "link":
            (folder / name).symlink_to(folder / "elsewhere")
        case "folder":
            (folder / name).mkdir()


KINDS = ["fifo", "link", "folder"]


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_regular_file_is_opened(tmp_path: Path, kind: str) -> None:
    replaced(tmp_path, kind)
    with pytest.raises(NotRegular):
        begin(tmp_path, Asked(), WIDE, 0.0)
    with pytest.raises(NotRegular):
        open_log(tmp_path / "log")
    assert note_size(tmp_path, 0.0) == 0
    assert not is_too_large(tmp_path, WIDE) or kind == "folder"


@pytest.mark.parametrize("kind", KINDS)
def test_times_that_were_replaced_cost_only_the_times(tmp_path: Path, kind: str) -> None:
    replaced(tmp_path, kind, "times")
    (tmp_path / "log").write_bytes(b"one\n")
    assert read(tmp_path, Asked(timestamps=True)) == b"1970-01-01T00:01:40.000000000Z one\n"


def test_times_that_are_no_times_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\n")
    (tmp_path / "times").write_bytes(b"\xff\n4 nan\n4 1e300\n" + b"9" * 5000 + b" 3\n-\n1 2 3\n4 5\n")
    assert read(tmp_path, Asked(timestamps=True)) == b"1970-01-01T00:00:05.000000000Z one\n"


def test_a_second_name_of_another_file_is_not_trimmed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"x" * 7_000_000)
    os.link(tmp_path / "other", tmp_path / "log")
    trim(tmp_path, LIMITS)
    assert (tmp_path / "other").read_bytes() == b"x" * 7_000_000


def test_noted_times_are_thinned_out_and_the_last_one_stays(tmp_path: Path) -> None:
    rows = [f"{number} {number}.000000\n" for number in range(1, 5000)]
    (tmp_path / "times").write_text("".join(rows))
    thin_times(tmp_path)
    left = (tmp_path / "times").read_text().splitlines(keepends=True)
    assert len(left) < len(rows) * 0.6
    assert left[-1] == rows[-1]
    thin_times(tmp_path)
    assert (tmp_path / "times").read_text().splitlines(keepends=True) == left


def test_a_descriptor_for_a_process_waits_as_files_do(tmp_path: Path) -> None:
    descriptor = open_log(tmp_path / "log")
    assert os.get_blocking(descriptor)
    os.close(descriptor)
    os.close(open_regular(tmp_path / "log"))


@scenario
async def test_who_follows_across_trimming_gets_every_line_once(tmp_path: Path) -> None:
    folder = tmp_path / "uid" / "main"
    folder.mkdir(parents=True)
    clock, keeper = VirtualClock(), LogKeeper(LIMITS)
    running: Any = {"metadata": {"name": "p", "namespace": "d", "uid": "uid"}, "status": {"phase": "Running"}}
    informer: Any = SimpleNamespace(get=lambda namespace, name: running)
    lines = ProcessLines(tmp_path, informer, clock, LIMITS)
    reader = lines.read(running, "main", LogOptions(follow=True))
    seen = b""

    async def take() -> None:
        nonlocal seen
        async for piece in reader:
            seen += piece

    task = asyncio.ensure_future(take())

    async def until(done: Callable[[], bool]) -> None:
        while not done():
            clock.advance(1.0)
            await asyncio.sleep(0.001)

    with (folder / "log").open("ab", buffering=0) as log:
        for batch in range(8):
            log.write(b"".join(b"%09d\n" % number for number in range(batch * 100_000, (batch + 1) * 100_000)))
            keeper.look(folder, clock.now())
            expected = (batch + 1) * 1_000_000
            await until(lambda expected=expected: len(seen) >= expected)  # type: ignore[misc]
    assert seen == b"".join(b"%09d\n" % number for number in range(800_000))
    running["status"]["phase"] = "Succeeded"
    ended(folder)
    await until(task.done)
    assert len(seen) == 8_000_000
