"""The log of a detached server is bounded, also what libraries write to standard error."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuaas.observe.logs import KEPT, Rotating

_LONGEST = 1_000


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    """What stands for standard error."""
    opened = os.open(tmp_path / "a.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    yield opened
    os.close(opened)


def handler(file: Path, descriptor: int) -> Rotating:
    made = Rotating(file, _LONGEST, (descriptor,))
    made.setStream(io.StringIO())
    return made


def say(to: Rotating, descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode())
    to.emit(logging.makeLogRecord({"msg": "", "levelno": logging.INFO}))


def test_the_newest_files_stay_and_none_is_long(tmp_path: Path, descriptor: int) -> None:
    log = handler(tmp_path / "a.log", descriptor)
    for number in range(20):
        say(log, descriptor, f"{number:3}" * 200)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["a.log", *(f"a.log.{number}" for number in range(1, KEPT + 1))]
    assert all(path.stat().st_size <= _LONGEST + 700 for path in tmp_path.iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    newest = [path.read_text() for path in (tmp_path / "a.log", tmp_path / "a.log.1")]
    assert " 19" in "".join(newest)


def test_another_file_is_left_alone(tmp_path: Path, descriptor: int) -> None:
    (tmp_path / "b.log").write_text("")
    log = handler(tmp_path / "b.log", descriptor)
    say(log, descriptor, "x" * 5_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "b.log"]


def test_a_file_that_was_removed_is_left_alone(tmp_path: Path, descriptor: int) -> None:
    log = handler(tmp_path / "a.log", descriptor)
    (tmp_path / "a.log").unlink()
    say(log, descriptor, "x" * 5_000)
    assert list(tmp_path.iterdir()) == []
