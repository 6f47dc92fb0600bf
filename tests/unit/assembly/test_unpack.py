"""What an archive may hold, how large it may be, and how its files lie in the home afterwards."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuaas.assembly.unpack import MARK, unpack
from gpuaas.store import StoreError


def member(name: str, content: bytes = b"x", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as made:  # type: ignore[call-overload]
        for info, content in members:
            made.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "into"
    made.mkdir()
    return made


@pytest.mark.parametrize("mode", ["w:gz", "w"])
def test_what_a_backup_holds_is_written_with_our_own_modes(tmp_path: Path, folder: Path, mode: str) -> None:
    names = (MARK, "users.json", "fleet.yaml", "kueue.yaml", "pki/ca.key", "clusters/local.db")
    file = archive(tmp_path / "a", *(member(name, name.encode(), mode=0o6777, uid=1) for name in names), mode=mode)
    unpack(file, folder)
    for name in names:
        assert (folder / name).read_text() == name
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        assert (folder / name).stat().st_uid == os.getuid()


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil-gpuaas", "pki/../../evil", "pki/a/b", "x", "clusters/x", "."])
def test_everything_else_is_passed_over(tmp_path: Path, folder: Path, name: str) -> None:
    unpack(archive(tmp_path / "a", member(name), member(MARK)), folder)
    written = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert written == {MARK, "clusters", "pki"}
    assert not (tmp_path / "evil").exists()


def zeros(path: Path, megabytes: int) -> Path:
    """What unpacks to many times its size; never in memory as a whole."""
    info = tarfile.TarInfo("clusters/local.db")
    info.size = megabytes << 20
    with gzip.open(path, "wb") as out:
        out.write(info.tobuf())
        for _ in range(megabytes):
            out.write(bytes(1 << 20))
        out.write(bytes(1024))
    return path


def declares(name: str, size: int) -> Callable[[Path], Path]:
    def made(path: Path) -> Path:
        info = tarfile.TarInfo(name)
        info.size = size
        with gzip.open(path, "wb") as out:
            out.write(info.tobuf(tarfile.GNU_FORMAT))
            out.write(bytes(4096))
        return path

    return made


def long_header(path: Path) -> Path:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 8 << 20
    with gzip.open(path, "wb") as out:
        out.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(8):
            out.write(bytes(1 << 20))
    return path


def many(path: Path) -> Path:
    return archive(path, *(member(f"x{number}", b"") for number in range(1_001)))


def twice(path: Path) -> Path:
    return archive(path, member("users.json"), member("users.json"))


def linked(path: Path) -> Path:
    return archive(path, member("pki/ca.key", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"))


def a_device(path: Path) -> Path:
    return archive(path, member("users.json", b"", type=tarfile.CHRTYPE))


def named(cluster: str) -> Callable[[Path], Path]:
    return lambda path: archive(path, member(f"clusters/{cluster}.db"))


def cut_short(path: Path) -> Path:
    archive(path, member("users.json", os.urandom(100_000)))
    os.truncate(path, path.stat().st_size // 2)
    return path


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda path: zeros(path, 64), "more than 200 times its own size"),
        (declares("clusters/local.db", 1 << 50), "MB that are free"),
        (declares("users.json", 5 << 20), "at most 4194304 are allowed"),
        (long_header, "at most 1048576 are read"),
        (many, "more than 1000 members"),
        (twice, "users.json is in it twice"),
        (linked, "pki/ca.key in it is no plain file"),
        (a_device, "users.json in it is no plain file"),
        (named("Evil Name"), "'Evil Name' is no name of a cluster"),
        (named(""), "'' is no name of a cluster"),
        (named("a" * 64), "is no name of a cluster"),
        (cut_short, "is not a backup of ours"),
    ],
)
def test_what_is_refused(tmp_path: Path, folder: Path, made: Callable[[Path], Path], words: str) -> None:
    with pytest.raises(StoreError, match=words):
        unpack(made(tmp_path / "bad"), folder)
