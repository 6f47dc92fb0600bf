"""Backups of a whole home: every cluster's store, the keys, the people and the settings of `gpuaas up`, in one file.

A backup is taken while the service runs: each store is copied as of one commit. Restoring checks everything before it
changes anything; the stores go on above all revisions ever handed out, so no client takes new changes for old ones.
"""

import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from gpuaas.assembly.home import Home
from gpuaas.assembly.identity import KEY, uid_in
from gpuaas.assembly.leftovers import effect, keep_logs, objects, unknown
from gpuaas.assembly.unpack import MARK, unpack
from gpuaas.store import Entry, StoreError
from gpuaas.store.snapshots import backup, check, restore

_FORMAT = 3


def _settings(home: Home, number: int) -> tuple[Path, ...]:
    """The files of settings that a backup of this format has; it says nothing about the others."""
    since_2, since_3 = (home.fleet, home.kueue), (home.strict, home.platform)
    return (*(since_2 if number > 1 else ()), *(since_3 if number > 2 else ()))


def write_backup(home: Home, file: Path) -> list[str]:
    """The names of the clusters it holds."""
    clusters = home.known_clusters()
    if not clusters:
        raise StoreError(f"there is nothing to back up in {home.path}: no cluster was ever started")
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".backup-") as folder:
        draft = Path(folder) / "backup"
        with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
            mark = Path(folder) / MARK
            mark.write_text(f"{_FORMAT}\n")
            archive.add(mark, MARK)
            for name in clusters:
                copy = Path(folder) / f"{name}.db"
                _copy(home.store(name), copy)
                archive.add(copy, f"clusters/{name}.db")
            for part in (home.certificates, home.users, *_settings(home, _FORMAT)):
                if part.exists():
                    archive.add(part, part.name)
        draft.chmod(0o600)
        draft.replace(file)
    return clusters


def _copy(store: Path, copy: Path) -> None:
    try:
        backup(store, copy)
    except StoreError as error:
        raise StoreError(str(error).replace(str(copy), str(store))) from None


def check_backup(home: Home, file: Path) -> list[str]:
    """What restoring it does to running and ended jobs, in lines for people; StoreError if it cannot be restored.
    Asked before a running service is stopped for it."""
    home.make()
    with tempfile.TemporaryDirectory(dir=home.path, prefix=".restore-") as folder:
        lines = []
        for store in _opened(file, Path(folder)).stores:
            found = effect(home, store.path.stem, store.path).lines(home) if _is_same(home, store) else []
            lines += [f"{store.path.stem}: {line}" for line in found]
        return lines


class _Stored(NamedTuple):
    path: Path
    identity: str  # of the cluster in it


class _Opened(NamedTuple):
    number: int  # of the format
    stores: list[_Stored]  # found to be whole


def _opened(file: Path, folder: Path) -> _Opened:
    unpack(file, folder)
    number = _format(file, folder)
    stores = sorted((folder / "clusters").glob("*.db"))
    if not stores:
        raise StoreError(f"{file} holds no cluster")
    return _Opened(number, [_Stored(store, _identity(store)) for store in stores])


def read_backup(home: Home, file: Path) -> list[str]:
    """Puts a backup into a home that does not run; the names of the clusters it held."""
    home.make()
    with tempfile.TemporaryDirectory(dir=home.path, prefix=".restore-") as folder:
        opened = _opened(file, Path(folder))
        for store in opened.stores:
            name = store.path.stem
            _keep_logs(home, store)
            restore(store.path, home.store(name))
            home.remember_identities({name: store.identity})
        keys = Path(folder) / home.certificates.name
        for key in keys.iterdir():
            key.replace(home.certificates / key.name)
        people = Path(folder) / home.users.name
        if people.is_file():
            people.replace(home.users)
        for kept in _settings(home, opened.number):
            _put_back(Path(folder) / kept.name, kept)
    return [store.path.stem for store in opened.stores]


def _keep_logs(home: Home, store: _Stored) -> None:
    """Of the pods the backup does not know: the next start removes their folders."""
    name = store.path.stem
    if not _is_same(home, store):
        return  # the pods of another cluster are not touched
    try:
        names = objects(home.store(name)) if home.store(name).exists() else {}
    except StoreError:
        names = {}
    keep_logs(home, unknown(home, name, objects(store.path)), names)


def _is_same(home: Home, store: _Stored) -> bool:
    return home.identities().get(store.path.stem, store.identity) == store.identity


def _identity(store: Path) -> str:
    row = check(store).live.get(KEY)
    return uid_in(Entry(KEY, row.revision, row.created, row.raw)) if row is not None else ""


def _put_back(found: Path, kept: Path) -> None:
    if found.is_file():
        found.replace(kept)
    else:
        kept.unlink(missing_ok=True)


def _format(file: Path, folder: Path) -> int:
    """The number of the backup's format."""
    try:
        number = int((folder / MARK).read_text())
    except (OSError, ValueError):
        raise StoreError(f"{file} is not a backup of ours: it lacks the mark {MARK}") from None
    if number > _FORMAT:
        raise StoreError(
            f"{file} has format {number}, and this gpuaas knows formats up to {_FORMAT}: restore it with a newer one"
        )
    return number
