"""People's tokens: added, listed, ended, removed; never stored."""

import stat
from pathlib import Path

import pytest

from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.security.tokens import UserExists, Users
from gpuaas.base.clock import VirtualClock
from gpuaas.base.ids import SeededIds

_RECORD = b'[{"name": "a", "uid": "u", "token_sha256": "%s", "created": 1}]'


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def users(tmp_path: Path, clock: VirtualClock) -> Users:
    return Users(tmp_path / "users.json", clock)


def test_a_token_is_its_user_and_nothing_else_is(users: Users) -> None:
    assert users.authenticate("anything") is None
    record, token = users.add("alice", SeededIds(), groups=["team-a"])
    assert users.authenticate(token) == User("alice", record.uid, ("team-a", "system:authenticated"))
    assert users.authenticate(token[:-1]) is None
    assert users.authenticate(record.token_sha256) is None
    assert users.authenticate("") is None


def test_the_file_is_private_and_holds_no_token(users: Users, tmp_path: Path) -> None:
    _, token = users.add("alice", SeededIds())
    file = tmp_path / "users.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text()


def test_a_token_ends(users: Users, clock: VirtualClock) -> None:
    _, token = users.add("alice", SeededIds(), seconds=3600)
    assert users.authenticate(token)
    clock.advance(3601)
    assert users.authenticate(token) is None


def test_another_process_adds_and_removes_and_this_one_sees_it_within_a_second(
    users: Users, tmp_path: Path, clock: VirtualClock
) -> None:
    other = Users(tmp_path / "users.json", VirtualClock())
    assert users.authenticate("x") is None
    _, token = other.add("bob", SeededIds())
    clock.advance(1.1)
    assert users.authenticate(token)
    assert other.remove("bob")
    assert not other.remove("bob")
    clock.advance(1.1)
    assert users.authenticate(token) is None


def test_names_are_unique_and_free_again_after_removal(users: Users) -> None:
    ids = SeededIds()
    _, first = users.add("alice", ids)
    with pytest.raises(UserExists, match="user 'alice' exists already"):
        users.add("alice", ids)
    users.remove("alice")
    _, second = users.add("alice", ids)
    assert [record.name for record in users.list()] == ["alice"]
    assert users.authenticate(first) is None
    assert users.authenticate(second)


@pytest.mark.parametrize("name", ["", "a b", "system:masters", "new\nline"])
def test_names_that_would_be_somebody_else_are_refused(users: Users, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a user's name"):
        users.add(name, SeededIds())


@pytest.mark.parametrize(
    "text",
    [b"", b"[{", b"{}", b"[1]", b"\xff\xfe", b'[{"name": "a", "uid": "u"}]', _RECORD % b"zz", _RECORD % b"ab", None],
)
def test_a_file_spoiled_by_hand_lets_nobody_new_in_and_nobody_out(
    users: Users, tmp_path: Path, clock: VirtualClock, text: bytes | None
) -> None:
    _, token = users.add("alice", SeededIds())
    assert users.authenticate(token)
    (tmp_path / "users.json").unlink()
    if text is None:
        (tmp_path / "users.json").mkdir()
    else:
        (tmp_path / "users.json").write_bytes(text)
    clock.advance(1.1)
    assert users.authenticate(token)
    with pytest.raises(ValueError, match=r"users.json (is not a list of users|cannot be read)"):
        users.list()
    clock.advance(1.1)
    assert users.authenticate(token)
    if text is None:
        (tmp_path / "users.json").rmdir()
    else:
        (tmp_path / "users.json").unlink()
    clock.advance(1.1)
    assert users.authenticate(token) is None
