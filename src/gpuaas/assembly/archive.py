"""Backups of a whole home: every cluster's store, the keys, the people, the fleet and Kueue's configuration, in one file.

A backup is taken while the service runs: each store is copied as of one commit. Restoring checks everything before it
changes anything; the stores go on above all revisions ever handed out, so no client takes new changes for old ones.
"""

import tarfile
import tempfile
from pathlib import Path

from gpuaas.assembly.home import Home
from gpuaas.assembly.identity import KEY, uid_in
from gpuaas.store import Entry, StoreError
from gpuaas.store.snapshots import backup, check, restore

_MARK = "gpuaas-backup"
_FORMAT = 2  # the first had neither fleet nor configuration, and says nothing about them


def write_backup(home: Home, file: Path) -> list[str]:
    """The names of the clusters it holds."""
    clusters = home.known_clusters()
    if not clusters:
        raise StoreError(f"there is nothing to back up in {home.path}: no cluster was ever started")
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".backup-") as folder:
        draft = Path(folder) / "backup"
        with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
            mark = Path(folder) / _MARK
            mark.write_text(f"{_FORMAT}\n")
            archive.add(mark, _MARK)
            for name in clusters:
                copy = Path(folder) / f"{name}.db"
                _copy(home.store(name), copy)
                archive.add(copy, f"clusters/{name}.db")
            for part in (home.certificates, home.users, home.fleet, home.kueue):
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


def check_backup(home: Home, file: Path) -> None:
    """Raises StoreError if it cannot be restored; asked before a running service is stopped for it."""
    home.make()
    with tempfile.TemporaryDirectory(dir=home.path, prefix=".restore-") as folder:
        _opened(file, Path(folder))


def _opened(file: Path, folder: Path) -> tuple[int, list[Path]]:
    """The number of its format and its stores, found to be whole."""
    number = _extract(file, folder)
    stores = sorted((folder / "clusters").glob("*.db"))
    if not stores:
        raise StoreError(f"{file} holds no cluster")
    for store in stores:
        check(store)
    return number, stores


def read_backup(home: Home, file: Path) -> list[str]:
    """Puts a backup into a home that does not run; the names of the clusters it held."""
    home.make()
    with tempfile.TemporaryDirectory(dir=home.path, prefix=".restore-") as folder:
        number, stores = _opened(file, Path(folder))
        for store in stores:
            restore(store, home.store(store.stem))
            home.remember_identities({store.stem: _identity(store)})
        keys = Path(folder) / home.certificates.name
        if keys.is_dir():
            for key in keys.iterdir():
                key.replace(home.certificates / key.name)
        people = Path(folder) / home.users.name
        if people.is_file():
            people.replace(home.users)
        if number > 1:
            for kept in (home.fleet, home.kueue):
                _put_back(Path(folder) / kept.name, kept)
    return [store.stem for store in stores]


def _identity(store: Path) -> str:
    row = check(store).live.get(KEY)
    return uid_in(Entry(KEY, row.revision, row.created, row.raw)) if row is not None else ""


def _put_back(found: Path, kept: Path) -> None:
    if found.is_file():
        found.replace(kept)
    else:
        kept.unlink(missing_ok=True)


def _extract(file: Path, folder: Path) -> int:
    """The number of the backup's format."""
    try:
        with tarfile.open(file, "r:*") as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        why = "no archive" if isinstance(error, tarfile.ReadError) else str(error)
        raise StoreError(f"{file} is not a backup of ours: {why}") from None
    try:
        number = int((folder / _MARK).read_text())
    except (OSError, ValueError):
        raise StoreError(f"{file} is not a backup of ours: it lacks the mark {_MARK}") from None
    if number > _FORMAT:
        raise StoreError(
            f"{file} has format {number}, and this gpuaas knows formats up to {_FORMAT}: restore it with a newer one"
        )
    return number
