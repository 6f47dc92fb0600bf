"""Who is signed in: sessions, one-time links, and what ends them.

A session stands for a credential, not for a name: a bearer token, or a client certificate that TLS has verified. The
API server's own authenticator judges the credential at every request and again every few seconds while a stream is
open, so that a revoked token or a removed user ends the session. Sessions live in memory and end with the process: no
credential is ever written to disk. Of a cookie and of a link only the hash is kept.

Sessions and links are bounded in number (in all and for each user); sessions in age and in idle time. Links live two
minutes and work once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gpuaas.apiserver.security.identity import User
from gpuaas.base.clock import Clock

MOST: Final = 2_000
MOST_OF_USER: Final = 50
LONGEST: Final = 7 * 86_400.0  # seconds from sign-in to the next one
IDLE: Final = 12 * 3_600.0  # without a request or an open stream
LINK_LIFE: Final = 120.0
MOST_LINKS: Final = 500
MOST_LINKS_OF_USER: Final = 20
_NOTICES: Final = 5  # sentences kept for the next page

Known = Callable[["Credential", str], User | None]
"""Who the credential is in a cluster, as its authenticator says; None where it is not (or no longer) good."""


@dataclass(frozen=True, slots=True)
class Credential:
    cluster: str
    """Where it signed in; it may be good in others too."""
    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    until: float | None = None
    """When the certificate ends."""


@dataclass(slots=True, eq=False)
class Session:
    key: bytes
    """The hash of the cookie."""
    credential: Credential
    name: str
    csrf: str
    made: float
    seen: float
    notices: list[str] = field(default_factory=list)
    ends: set[Callable[[], None]] = field(default_factory=set)
    """Called when it ends: its open streams."""
    ended: bool = False

    def note(self, words: str) -> None:
        """For the next page that is shown."""
        self.notices = [*self.notices, words][-_NOTICES:]

    def take_notices(self) -> list[str]:
        taken, self.notices = self.notices, []
        return taken


class Sessions:
    def __init__(self, known: Known, clock: Clock) -> None:
        self._known = known
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}
        self._links: dict[bytes, tuple[Credential, float, str]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, credential: Credential) -> tuple[Session, str] | None:
        """A new session and what its cookie holds; None where the credential is not good."""
        user = self._known(credential, credential.cluster)
        if user is None:
            return None
        self._make_room(user.name)
        secret, now = secrets.token_urlsafe(32), self._clock.now()
        session = Session(_hash(secret), credential, user.name, secrets.token_urlsafe(32), now, now)
        self._sessions[session.key] = session
        return session, secret

    def find(self, secret: str) -> Session | None:
        """The session of a cookie, while it lasts."""
        session = self._sessions.get(_hash(secret)) if secret else None
        if session is None or self.is_over(session):
            return None
        session.seen = self._clock.now()
        return session

    def user(self, session: Session, cluster: str) -> User | None:
        """Who that is in a cluster now. A credential that is not good any more where it signed in ends the session."""
        user = None if self._is_late(session.credential) else self._known(session.credential, cluster)
        if user is None and (cluster == session.credential.cluster or not self._is_good(session.credential)):
            self.end(session)
        return user

    def is_over(self, session: Session) -> bool:
        """Ends it where its time has come or its credential is not good any more."""
        now = self._clock.now()
        idle = IDLE if not session.ends else LONGEST
        late = now - session.made > LONGEST or now - session.seen > idle
        if session.ended or late or not self._is_good(session.credential):
            self.end(session)
        return session.ended

    def end(self, session: Session) -> None:
        """Its streams end with it."""
        session.ended = True
        self._sessions.pop(session.key, None)
        ends, session.ends = session.ends, set()
        for end in ends:
            end()

    def link(self, credential: Credential) -> str | None:
        """The secret of a link that signs in once; None where the credential is not good."""
        user = None if self._is_late(credential) else self._known(credential, credential.cluster)
        if user is None:
            return None
        now = self._clock.now()
        self._links = {key: link for key, link in self._links.items() if now < link[1]}
        mine = [key for key, (_, _, name) in self._links.items() if name == user.name]
        for key in mine[: max(0, len(mine) - MOST_LINKS_OF_USER + 1)]:
            del self._links[key]
        while len(self._links) >= MOST_LINKS:
            del self._links[next(iter(self._links))]
        secret = secrets.token_urlsafe(32)
        self._links[_hash(secret)] = credential, now + LINK_LIFE, user.name
        return secret

    def enter(self, secret: str) -> Credential | None:
        """Uses a link up; None where it was used, has expired or never was."""
        credential, until, _ = self._links.pop(_hash(secret), (None, 0.0, ""))
        return credential if self._clock.now() < until else None

    def _is_good(self, credential: Credential) -> bool:
        return not self._is_late(credential) and self._known(credential, credential.cluster) is not None

    def _is_late(self, credential: Credential) -> bool:
        return credential.until is not None and self._clock.now() >= credential.until

    def _make_room(self, name: str) -> None:
        """Those that have not been used for longest go first."""
        mine = sorted((each for each in self._sessions.values() if each.name == name), key=_last_used)
        for session in mine[: max(0, len(mine) - MOST_OF_USER + 1)]:
            self.end(session)
        if len(self._sessions) >= MOST:
            self.end(min(self._sessions.values(), key=_last_used))


def _last_used(session: Session) -> float:
    return session.seen


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
