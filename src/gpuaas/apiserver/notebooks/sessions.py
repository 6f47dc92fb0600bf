"""Who may open which notebook in a browser: one-time links, and a cookie that is good for one notebook alone.

A link is made for a user who has shown the API's own credentials; it works once and for minutes. Following it sets a
cookie that names user and notebook under a key kept in the home, so that open notebooks survive a restart. What it names
is checked at every request: the notebook is still that one, and its user is still known and still may.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec

from gpuaas.apiserver.security.identity import User
from gpuaas.base.clock import Clock

LINK_SECONDS: Final = 300.0
COOKIE_SECONDS: Final = 12 * 3600.0
_MOST_LINKS: Final = 1000  # at a time; the oldest give way
_MOST_OF_A_USER: Final = 50
_LONGEST: Final = 3072  # bytes of a cookie


class Place(msgspec.Struct, frozen=True):
    """A notebook: `uid` tells it from another that has its name later."""

    cluster: str
    namespace: str
    name: str
    uid: str


class Session(msgspec.Struct, frozen=True):
    place: Place
    user: str
    user_uid: str
    groups: tuple[str, ...]
    until: float

    def as_user(self) -> User:
        return User(self.user, self.user_uid, self.groups)


class Sessions:
    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key = key
        self._clock = clock
        self._links: dict[bytes, Session] = {}

    def link(self, user: User, place: Place) -> str:
        """A secret that becomes a cookie once."""
        own = [key for key, each in self._links.items() if each.user == user.name]
        for key in own[: max(len(own) - _MOST_OF_A_USER + 1, 0)]:
            del self._links[key]
        while len(self._links) >= _MOST_LINKS:
            del self._links[next(iter(self._links))]
        secret = secrets.token_urlsafe(32)
        until = self._clock.now() + LINK_SECONDS
        self._links[_hash(secret)] = Session(place, user.name, user.uid, user.groups, until)
        return secret

    def redeem(self, secret: str) -> Session | None:
        found = self._links.pop(_hash(secret), None)
        if found is None or self._clock.now() >= found.until:
            return None
        return msgspec.structs.replace(found, until=self._clock.now() + COOKIE_SECONDS)

    def cookie(self, session: Session) -> str:
        payload = urlsafe_b64encode(msgspec.json.encode(session))
        return f"{payload.decode()}.{self._sign(payload)}"

    def read(self, cookie: str) -> Session | None:
        payload, _, signature = cookie.partition(".")
        if len(cookie) > _LONGEST or not cookie.isascii():
            return None
        if not hmac.compare_digest(self._sign(payload.encode()), signature):
            return None
        try:
            found = msgspec.json.decode(urlsafe_b64decode(payload), type=Session)
        except (ValueError, msgspec.MsgspecError):
            return None
        return found if self._clock.now() < found.until else None

    def _sign(self, payload: bytes) -> str:
        return hmac.new(self._key, payload, hashlib.sha256).hexdigest()


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
