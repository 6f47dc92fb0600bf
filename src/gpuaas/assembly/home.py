"""`$GPUAAS_HOME`: where one control plane keeps everything, and how others find out whether it runs.

The lock is the truth: it is held by the running server and by no process after it died, however it died. The state file
beside it (pid, address) is only believed while the lock is held.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

NEW_CLUSTER = "new-cluster"
LOST_WRITES = "lost-writes"
NEW_CA = "new-ca"
ACCEPTABLE = (NEW_CLUSTER, LOST_WRITES, NEW_CA)
"""What a start refuses unless `gpuaas up --accept` names it."""

_LOOKS = 3  # who looks whether the home is held holds it for a moment


@dataclass(frozen=True, slots=True)
class Running:
    pid: int
    url: str
    clusters: tuple[str, ...]
    version: str
    pages: str = ""
    """The address of the first page for this machine's browsers."""
    elsewhere: str = ""
    """The same for other machines' browsers; "" where they do not reach it."""


class Locked(Exception):
    """Another control plane runs in this home."""


class Unusable(Exception):
    """The home, or a file in it, is not what it must be; the text says which and why."""


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @classmethod
    def default(cls) -> "Home":
        return cls(Path(os.environ.get("GPUAAS_HOME") or Path.home() / ".gpuaas").expanduser().absolute())

    @property
    def state(self) -> Path:
        """What the running server announced."""
        return self.path / "server.json"

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def certificates(self) -> Path:
        return self.path / "pki"

    @property
    def users(self) -> Path:
        return self.path / "users.json"

    @property
    def log(self) -> Path:
        return self.path / "gpuaas.log"

    def store(self, cluster: str) -> Path:
        return self.path / "clusters" / f"{cluster}.db"

    def known_clusters(self) -> list[str]:
        """Those that have a store, and those that had one: a lost store must not go unnoticed."""
        return sorted({*(path.stem for path in (self.path / "clusters").glob("*.db")), *self.identities()})

    def identities(self) -> dict[str, str]:
        """The uid of each cluster that was served from here; empty where that is not known (see `identity`)."""
        try:
            said = json.loads((self.path / "clusters.json").read_text())
            return {str(name): str(uid) for name, uid in said.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def remember_identities(self, found: Mapping[str, str]) -> None:
        known = self.identities()
        if {**known, **found} != known:
            self.keep("clusters.json", json.dumps({**known, **found}, indent=1), durable=True)

    def has_served(self) -> bool:
        """Whether a start ever got as far as an open port."""
        return (self.path / "port").exists()

    def pods(self, cluster: str) -> Path:
        """Of this machine, a folder each."""
        return self.path / "pods" / cluster

    @property
    def kept_logs(self) -> Path:
        """Of pods that no store knows any more."""
        return self.path / "kept-logs"

    @property
    def native(self) -> Path:
        """What is built for this machine."""
        return self.path / "native"

    @property
    def foreign_rule(self) -> Path:
        """Present where foreign processes on cards are ignored (`gpuaas up --ignore-foreign`)."""
        return self.path / "ignore-foreign"

    def ignores_foreign(self) -> bool:
        return self.foreign_rule.exists()

    def ignore_foreign(self, *, ignores: bool) -> None:
        if ignores:
            self.keep(self.foreign_rule.name, "")
        else:
            self.foreign_rule.unlink(missing_ok=True)

    @property
    def fleet(self) -> Path:
        """The fleet of the last start."""
        return self.path / "fleet.yaml"

    @property
    def kueue(self) -> Path:
        """Kueue's configuration of the last start."""
        return self.path / "kueue.yaml"

    @property
    def strict(self) -> Path:
        """The originals whose behaviour is kept exactly (`gpuaas up --strict`)."""
        return self.path / "strict"

    @property
    def platform(self) -> Path:
        """The platform whose objects are made at a start (`gpuaas up --platform`)."""
        return self.path / "platform"

    def make(self) -> None:
        try:
            for folder in (self.path, self.path / "clusters", self.certificates):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if folder.stat().st_mode & 0o777 != 0o700:
                    folder.chmod(0o700)
        except OSError as error:
            words = f"{self.path} cannot be the home ({error.strerror}); $GPUAAS_HOME names another"
            raise Unusable(words) from None

    def keep(self, name: str, text: str, *, durable: bool = False) -> None:
        """A file of its own, whole or not at all, readable by this user alone."""
        _write_private(self.path / name, text, durable=durable)

    def lock(self) -> None:
        """Held until the process ends; raises Locked if another server holds it; a process that only tests the lock is waited for."""
        for last in (False,) * _LOOKS + (True,):
            try:
                self._lock = _locked(self.path / "lock", os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX)
            except Locked:
                if last:
                    raise
                time.sleep(0.01)  # noqa: TID251 - nothing else is to be done yet
            except OSError as error:
                raise Unusable(f"{self.path} cannot be written to ({error.strerror})") from None
            else:
                with contextlib.suppress(OSError):  # only said, never relied on
                    os.ftruncate(self._lock, 0)
                    os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
                return

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_locked(self) -> bool:
        try:
            os.close(_locked(self.path / "lock", os.O_RDONLY, fcntl.LOCK_SH))
        except Locked:
            return True
        except OSError:
            return False
        return False

    def holder(self) -> int:
        """The pid of the process that holds the home, whatever it has announced; 0 where that is not known."""
        try:
            return int((self.path / "lock").read_text()) if self.is_locked() else 0
        except (OSError, ValueError):
            return 0

    def announce(self, running: Running) -> None:
        self.keep(self.state.name, json.dumps(asdict(running)))

    def withdraw(self) -> None:
        with contextlib.suppress(OSError):  # without the lock it is not believed
            (self.state).unlink(missing_ok=True)

    def running(self) -> Running | None:
        """The server that holds this home, or None; what a dead one left behind is not believed."""
        if not self.is_locked():
            return None
        try:
            said = json.loads((self.state).read_text())
            pages, elsewhere = str(said.get("pages", "")), str(said.get("elsewhere", ""))
            return Running(said["pid"], said["url"], tuple(said["clusters"]), said["version"], pages, elsewhere)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def last_port(self) -> int:
        """The port of the run before, so that kubeconfigs people copied go on working."""
        try:
            return int((self.path / "port").read_text())
        except (OSError, ValueError):
            return 0

    def remember_port(self, port: int) -> None:
        self.keep("port", str(port))

    def last_web_port(self) -> int:
        """The plain port of the pages in the run before, so that bookmarks go on working."""
        try:
            return int((self.path / "web-port").read_text())
        except (OSError, ValueError):
            return 0

    def remember_web_port(self, port: int) -> None:
        self.keep("web-port", str(port))


def _locked(path: Path, flags: int, lock: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise Locked from None
    return descriptor


def _write_private(path: Path, text: str, *, durable: bool = False) -> None:
    """Whole or not at all, readable by this user alone."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(path)
