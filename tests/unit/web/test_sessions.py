"""Sessions and one-time links: bounded in number, age and idle time, and over as soon as the credential is."""

from __future__ import annotations

import pytest

from gpuaas.apiserver.security.identity import User
from gpuaas.base.clock import VirtualClock
from gpuaas.web import sessions as limits
from gpuaas.web.sessions import Credential, Session, Sessions


class Authenticator:
    """Knows tokens by the name of their user, in some clusters."""

    def __init__(self) -> None:
        self.users = {"token-a": "ada", "token-b": "bob"}
        self.clusters = {"east", "west"}

    def __call__(self, credential: Credential, cluster: str) -> User | None:
        name = self.users.get(credential.token)
        return User(name) if name and cluster in self.clusters else None


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def known() -> Authenticator:
    return Authenticator()


@pytest.fixture
def sessions(known: Authenticator, clock: VirtualClock) -> Sessions:
    return Sessions(known, clock)


def opened(sessions: Sessions, token: str = "token-a") -> tuple[Session, str]:
    found = sessions.open(Credential("east", token))
    assert found is not None
    return found


def test_a_session_is_found_by_its_cookie_alone(sessions: Sessions) -> None:
    session, secret = opened(sessions)
    assert sessions.find(secret) is session
    for other in ("", "x", session.csrf, session.key.hex(), secret[:-1], secret + "="):
        assert sessions.find(other) is None
    assert secret not in repr(session)
    assert "token-a" not in repr(session)


def test_an_unknown_token_opens_nothing(sessions: Sessions) -> None:
    assert sessions.open(Credential("east", "wrong")) is None
    assert sessions.link(Credential("east", "wrong")) is None
    assert len(sessions) == 0


def test_a_link_works_once(sessions: Sessions) -> None:
    credential = Credential("east", "token-a")
    secret = sessions.link(credential)
    assert secret is not None
    assert sessions.enter(secret) == credential
    assert sessions.enter(secret) is None


@pytest.mark.parametrize(("seconds", "works"), [(119.0, True), (120.0, False), (9_999.0, False)])
def test_a_link_lives_two_minutes(sessions: Sessions, clock: VirtualClock, seconds: float, works: bool) -> None:
    secret = sessions.link(Credential("east", "token-a"))
    clock.advance(seconds)
    assert (sessions.enter(secret or "") is not None) is works


def test_one_user_cannot_push_out_the_links_of_others(sessions: Sessions) -> None:
    kept = sessions.link(Credential("east", "token-b"))
    made = [sessions.link(Credential("east", "token-a")) for _ in range(limits.MOST_LINKS + 1)]
    assert sessions.enter(kept or "") is not None
    assert sum(sessions.enter(each or "") is not None for each in made) == limits.MOST_LINKS_OF_USER


def test_links_are_bounded(sessions: Sessions) -> None:
    made = [sessions.link(Credential("east", "token-a")) for _ in range(limits.MOST_LINKS + 1)]
    assert sessions.enter(made[0] or "") is None
    assert sessions.enter(made[-1] or "") is not None


@pytest.mark.parametrize(
    ("steps", "lives"),
    [
        ([limits.IDLE - 1], True),
        ([limits.IDLE + 1], False),
        ([limits.IDLE - 1, limits.IDLE - 1], True),
        ([limits.IDLE - 1] * 15, False),  # older than a week, however busy
    ],
)
def test_a_session_ends_by_idle_time_and_age(
    sessions: Sessions, clock: VirtualClock, steps: list[float], lives: bool
) -> None:
    _, secret = opened(sessions)
    found = None
    for step in steps:
        clock.advance(step)
        found = sessions.find(secret)
    assert (found is not None) is lives


def test_an_open_stream_is_not_idle(sessions: Sessions, clock: VirtualClock) -> None:
    session, _ = opened(sessions)
    session.ends.add(lambda: None)
    clock.advance(limits.IDLE + 1)
    assert not sessions.is_over(session)


def test_a_revoked_token_ends_the_session_and_its_streams(sessions: Sessions, known: Authenticator) -> None:
    session, secret = opened(sessions)
    ended: list[str] = []
    session.ends.add(lambda: ended.append("stream"))
    del known.users["token-a"]
    assert sessions.find(secret) is None
    assert ended == ["stream"]
    known.users["token-a"] = "ada"
    assert sessions.find(secret) is None, "it stays over"


def test_another_cluster_that_does_not_know_the_user_ends_nothing(sessions: Sessions, known: Authenticator) -> None:
    session, secret = opened(sessions)
    assert sessions.user(session, "north") is None
    assert sessions.find(secret) is session
    known.clusters.remove("east")
    assert sessions.user(session, "north") is None
    assert session.ended


def test_a_certificate_that_has_ended_ends_the_session(sessions: Sessions, clock: VirtualClock) -> None:
    found = sessions.open(Credential("east", "token-a", until=clock.now() + 60))
    assert found is not None
    clock.advance(61)
    assert sessions.find(found[1]) is None


def test_a_user_has_so_many_sessions_and_others_keep_theirs(sessions: Sessions, clock: VirtualClock) -> None:
    _, first = opened(sessions, "token-b")
    mine = []
    for _ in range(limits.MOST_OF_USER + 1):
        clock.advance(1)
        mine.append(opened(sessions)[1])
    assert sessions.find(mine[0]) is None
    assert all(sessions.find(each) for each in mine[1:])
    assert sessions.find(first)


def test_all_sessions_are_bounded(known: Authenticator, clock: VirtualClock) -> None:
    known.users = {f"token-{number}": f"user-{number}" for number in range(limits.MOST + 1)}
    sessions = Sessions(known, clock)
    made = []
    for number in range(limits.MOST + 1):
        clock.advance(0.1)
        made.append(opened(sessions, f"token-{number}")[1])
    assert len(sessions) == limits.MOST
    assert sessions.find(made[0]) is None
    assert sessions.find(made[1])


def test_notices_are_shown_once_and_bounded(sessions: Sessions) -> None:
    session, _ = opened(sessions)
    for number in range(20):
        session.note(str(number))
    assert session.take_notices() == ["15", "16", "17", "18", "19"]
    assert session.take_notices() == []
