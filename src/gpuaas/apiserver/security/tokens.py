"""People's bearer tokens: who has one, until when. Only the hash of a token is kept.

The list lies in one file that the command line changes and the server reads again when it has changed, so that a new
user can come in and a removed one is out within a second. Service accounts' tokens are `serviceaccounts`'.
"""

import fcntl
import hashlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec

from gpuaas.apiserver.security.files import write_private
from gpuaas.apiserver.security.identity import User, authenticated
from gpuaas.base.clock import Clock
from gpuaas.base.ids import IdSource

_RECHECK_SECONDS = 0.05  # how long a removed user may still be accepted
_UNREADABLE = (0, 0, 0)  # stamp of no file
_log = logging.getLogger("gpuaas.apiserver.security")


class UserRecord(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str
    groups: tuple[str, ...] = ()
    token_sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{64}$")]
    created: float
    expires: float | None = None  # Unix seconds


class UserExists(ValueError):
    pass


class Users:
    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._known: dict[bytes, tuple[User, float | None]] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._check_at = 0.0

    def authenticate(self, token: str) -> User | None:
        self._refresh()
        known = _hash(token)
        found = self._known.get(known)
        if found is None:
            self._check_at = 0.0  # it may be a new user's
            self._refresh()
            found = self._known.get(known)
        if found is None:
            return None
        user, expires = found
        return user if expires is None or self._clock.now() < expires else None

    def is_current(self, name: str, uid: str) -> bool:
        """Whether a user who was let in before may still be; of those not in the list nothing is known here."""
        if not uid:
            return True
        self._refresh()
        found = next((each for each in self._known.values() if each[0].uid == uid), None)
        if found is None:
            return name.startswith("system:serviceaccount:")
        return found[1] is None or self._clock.now() < found[1]

    def list(self) -> tuple[UserRecord, ...]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=tuple[UserRecord, ...])
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ValueError(f"{self._path} cannot be read: {error.strerror or error}") from error
        except msgspec.MsgspecError as error:
            raise ValueError(f"{self._path} is not a list of users: {error}") from error

    def add(
        self, name: str, ids: IdSource, *, groups: Iterable[str] = (), seconds: float | None = None
    ) -> tuple[UserRecord, str]:
        """A new user and the token, which is not kept and cannot be shown again; `seconds` until it ends."""
        if not name or name.startswith("system:") or any(char.isspace() or not char.isprintable() for char in name):
            raise ValueError(f"{name!r} cannot be a user's name: no spaces, and nothing that begins with system:")
        token = secrets.token_urlsafe(32)
        now = self._clock.now()
        record = UserRecord(
            name=name,
            uid=ids.uid(),
            groups=tuple(groups),
            token_sha256=_hash(token).hex(),
            created=now,
            expires=None if seconds is None else now + seconds,
        )
        with self._exclusive():
            records = self.list()
            if any(other.name == name for other in records):
                raise UserExists(f"user {name!r} exists already; remove it first to give it a new token")
            self._write((*records, record))
        return record, token

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        with self._exclusive():
            records = self.list()
            kept = tuple(record for record in records if record.name != name)
            if len(kept) < len(records):
                self._write(kept)
        return len(kept) < len(records)

    def _write(self, records: tuple[UserRecord, ...]) -> None:
        write_private(self._path, msgspec.json.format(msgspec.json.encode(records), indent=1))
        self._check_at = 0.0

    def _refresh(self) -> None:
        """Read the file again if it has changed; not asked for every request, because they come by the thousand."""
        now = self._clock.monotonic()
        if now < self._check_at:
            return
        self._check_at = now + _RECHECK_SECONDS
        try:
            state = self._path.stat()
            stamp = (state.st_mtime_ns, state.st_ino, state.st_size)
        except FileNotFoundError:
            self._known, self._stamp = {}, None
            return
        except OSError as error:
            if self._stamp != _UNREADABLE:
                _log.error("%s cannot be read (%s); the last good list stays in force", self._path, error.strerror)
            self._stamp = _UNREADABLE
            return
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            records = self.list()
        except ValueError as error:
            # The edited file is broken: the users of the last good one stay valid, no others.
            _log.error("%s; the last good list stays in force", error)
            return
        self._known = {
            bytes.fromhex(record.token_sha256): (
                authenticated(User(record.name, record.uid, record.groups)),
                record.expires,
            )
            for record in records
        }

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _hash(token: str) -> bytes:
    # A token is 256 random bits: nothing slower than one hash is needed to keep it secret.
    return hashlib.sha256(token.encode()).digest()
